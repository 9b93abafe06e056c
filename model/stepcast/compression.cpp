#include <stepcast/compression.hpp>

#include <algorithm>

namespace stepcast {
namespace {

bool operates(const Transfer& t, const CommPlan& plan) {
  return plan.channels[t.channel].discipline != Discipline::parallel;
}

// Rewrites one plan. Transfers keep their numbers; what is new is appended.
class Rewriting {
 public:
  Rewriting(CommPlan plan, const ModifierInput& input, const Compression& compression)
      : plan_(std::move(plan)), input_(input), compression_(compression) {}

  Answer<CommPlan> result() {
    const auto count = static_cast<std::uint32_t>(plan_.transfers.size());
    encoder_.assign(count, none);
    decoder_.assign(count, none);
    staged_.assign(count, false);
    for (std::uint32_t x = 0; x < count; ++x)
      if (std::string why = rewrite(x); !why.empty()) return Inapplicable{why};
    redirect();
    return std::move(plan_);
  }

 private:
  static constexpr std::uint32_t none = 0xffffffffu;

  std::string rewrite(std::uint32_t x) {
    const Transfer t = plan_.transfers[x];
    if (t.tensors == 0 || !operates(t, plan_)) return {};
    switch (t.operation) {
      case Operation::all_reduce:
      case Operation::reduce_scatter:
      case Operation::push: {
        const Encoding e = encoding_of(t);
        if (t.operation == Operation::reduce_scatter && !compression_.summable)
          return "its messages cannot be added up, so that no part of their sum can be scattered";
        encode(x, t, e);
        if (t.operation == Operation::all_reduce) add_codec(decoder_[x], "decode", e.decode, t);
        return {};
      }
      case Operation::all_gather:
      case Operation::pull: {
        if (t.carries_gradient) return "the plan's messages are gathered already";
        const Encoding e = encoding_of(t);
        const bool from_server = t.operation == Operation::pull && e.pulled > Bytes(0);
        plan_.transfers[x].dense = t.dense > Bytes(0) ? t.dense : t.size;
        plan_.transfers[x].size = from_server ? e.pulled : e.sent;
        add_codec(decoder_[x], "decode", e.decode, t);
        return {};
      }
      case Operation::send:
        return "its messages go to neighbours, which compress differences: give their size (dc_dgd, share)";
      default:
        return {};
    }
  }

  void encode(std::uint32_t x, const Transfer& t, const Encoding& e) {
    if (e.first > Bytes(0)) {
      first_exchange(x, t, e);
    } else {
      add_codec(encoder_[x], "encode", e.encode, t);
    }
    Transfer& sent = plan_.transfers[x];
    sent.dense = t.dense > Bytes(0) ? t.dense : t.size;
    sent.size = e.sent;
    if (t.operation == Operation::all_reduce && !compression_.summable) {
      sent.operation = Operation::all_gather;
      sent.size = e.sent * static_cast<double>(input_.cluster.workers());  // the full result
    }
  }

  // encode -> all-reduce of the first part -> between -> the transfer itself.
  void first_exchange(std::uint32_t x, const Transfer& t, const Encoding& e) {
    const auto number = static_cast<std::uint32_t>(plan_.transfers.size());
    Transfer first = t;
    first.operation = Operation::all_reduce;
    first.carries_gradient = false;
    first.size = e.first;
    plan_.transfers.push_back(first);
    add_codec(encoder_[x], "encode", e.encode, t, true);
    std::uint32_t between = none;
    add_codec(between, "encode second part of", e.between, t, true);
    plan_.edges.push_back({{NodeKind::codec, encoder_[x]}, {NodeKind::transfer, number}});
    plan_.edges.push_back({{NodeKind::transfer, number}, {NodeKind::codec, between}});
    plan_.edges.push_back({{NodeKind::codec, between}, {NodeKind::transfer, x}});
    // Two exchanges of one message, with work in between, cannot both stand in one fixed order with all others.
    if (plan_.channels[t.channel].discipline == Discipline::in_order)
      plan_.channels[t.channel].discipline = Discipline::fifo;
    staged_[x] = true;
  }

  void add_codec(std::uint32_t& number, std::string_view name, Seconds time, const Transfer& t, bool always = false) {
    if (!(time > Seconds(0)) && !always) return;
    number = static_cast<std::uint32_t>(plan_.codecs.size());
    plan_.codecs.push_back({name, time, Engine::compute, t.first_tensor, t.tensors});
  }

  [[nodiscard]] Encoding encoding_of(const Transfer& t) const {
    Encoding sum;
    Bytes run;
    for (std::uint32_t i = t.first_tensor; i < t.first_tensor + t.tensors; ++i) {
      const Tensor& tensor = input_.profile.tensors[plan_.tensor(i)];
      const Encoding e = compression_.of(tensor);
      run += tensor.size;
      sum.sent += e.sent, sum.first += e.first, sum.pulled += e.pulled;
      sum.encode += e.encode, sum.between += e.between, sum.decode += e.decode;
    }
    // A part of a tensor. What several modifiers encode is their product: the second one sees fewer bytes.
    const double share = run > Bytes(0) ? std::min(1.0, t.size / run) : 1;
    sum.sent *= share, sum.first *= share, sum.pulled *= share;
    sum.encode *= share, sum.between *= share, sum.decode *= share;
    return sum;
  }

  // Who waits for a gradient now waits for its encoder, and who waited for a transfer waits for its decoder.
  void redirect() {
    const std::size_t edges = plan_.edges.size();
    for (std::size_t i = 0; i < edges; ++i) {
      Edge& e = plan_.edges[i];
      if (e.to.kind == NodeKind::transfer && e.to.index < encoder_.size() && feeds(e.from) &&
          encoder_[e.to.index] != none)
        e.to = {NodeKind::codec, encoder_[e.to.index]};
      if (e.from.kind == NodeKind::transfer && e.from.index < decoder_.size() && uses(e.to) &&
          decoder_[e.from.index] != none)
        e.from = {NodeKind::codec, decoder_[e.from.index]};
    }
    for (std::uint32_t x = 0; x < encoder_.size(); ++x) {
      if (encoder_[x] != none && !staged_[x])
        plan_.edges.push_back({{NodeKind::codec, encoder_[x]}, {NodeKind::transfer, x}});
      if (decoder_[x] != none) plan_.edges.push_back({{NodeKind::transfer, x}, {NodeKind::codec, decoder_[x]}});
    }
    if (!compression_.overlapped) wait_for_backward();
  }

  void wait_for_backward() {
    const Node end{NodeKind::backward, input_.profile.backward_order.back()};
    for (const std::uint32_t c : encoder_)
      if (c != none) plan_.edges.push_back({end, {NodeKind::codec, c}});
  }

  // Does a message get its bytes from there (and does not merely queue behind it)?
  [[nodiscard]] bool feeds(const Node& node) const {
    if (node.kind == NodeKind::forward_entry) return false;
    if (node.kind != NodeKind::transfer) return true;
    const Transfer& t = plan_.transfers[node.index];
    return !operates(t, plan_) || t.operation == Operation::local_reduce_scatter;
  }
  [[nodiscard]] bool uses(const Node& node) const {
    if (node.kind != NodeKind::transfer) return true;
    const Transfer& t = plan_.transfers[node.index];
    return !operates(t, plan_) || t.operation == Operation::local_all_gather;
  }

  CommPlan plan_;
  const ModifierInput& input_;
  const Compression& compression_;
  std::vector<std::uint32_t> encoder_, decoder_;  // per transfer of the given plan
  std::vector<bool> staged_;                      // in two exchanges
};

}  // namespace

Answer<CommPlan> compressed(CommPlan plan, const ModifierInput& input, const Compression& compression) {
  return Rewriting(std::move(plan), input, compression).result();
}

}  // namespace stepcast
