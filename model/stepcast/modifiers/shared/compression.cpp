// The rewriting goes transfer by transfer: codecs are added around it, and its edges are led through them.
#include <stepcast/modifiers/shared/compression.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace stepcast {
namespace {

constexpr std::uint32_t none = 0xffffffffu;

Node codec_node(std::uint32_t number) { return {NodeKind::codec, number}; }
Node transfer_node(std::uint32_t number) { return {NodeKind::transfer, number}; }
Bytes dense_size(const Transfer& t) { return t.dense > Bytes(0) ? t.dense : t.size; }

Encoding operator*(Encoding e, double k) {
  e.sent *= k, e.first *= k, e.aside *= k, e.pulled *= k;
  e.encode *= k, e.between *= k, e.decode *= k;
  return e;
}

// What was added to the plan for one of its messages.
struct Message {
  std::uint32_t encoder = none, decoder = none;  // codecs
  std::uint32_t start = none;                    // the transfer that follows the encoder
  std::uint32_t aside = none;                    // a transfer that needs no encoder
  std::uint32_t local = none;                    // stage inside the machine before a push, or after a pull
  Node origin{NodeKind::forward_entry};          // backward pass that the message is made of
  std::uint32_t lag = 0;
};

// Rewrites one plan. Transfers keep their numbers; what is new is appended.
class Rewriting {
 public:
  Rewriting(CommPlan plan, const ModifierInput& input, const Compression& compression)
      : plan_(std::move(plan)), input_(input), compression_(compression) {
    values_.reserve(input.profile.tensors.size());
    for (const Tensor& t : input.profile.tensors) {
      values_.push_back(compression.of(plan_.coding == Coding::cast ? as_cast(t) : t));
      staged_ = staged_ || values_.back().first > Bytes(0);
    }
    staged_ = staged_ || compression.exchange == Exchange::scattered || compression.exchange == Exchange::tree;
    for (const Transfer& t : plan_.transfers) sends_ += t.operation == Operation::send;
  }

  Answer<CommPlan> result() {
    if (plan_.coding == Coding::encoded)
      return Inapplicable{
          "its messages are encoded already: of two compressors the first one has to be a cast, as in "
          "'+fp16+topk'"};
    messages_.resize(plan_.transfers.size());
    shared_.assign(plan_.transfers.size(), none);
    find_neighbours();
    for (std::uint32_t x = 0; x < messages_.size(); ++x)
      if (std::string why = rewrite(x); !why.empty()) return Inapplicable{why};
    redirect();
    if (staged_) issue_in_order();
    plan_.coding = compression_.cast ? Coding::cast : Coding::encoded;
    return std::move(plan_);
  }

 private:
  static Tensor as_cast(Tensor t) {
    if (size_of(t.dtype) <= 2) return t;
    t.size *= 2 / size_of(t.dtype);
    t.dtype = DataType::f16;
    return t;
  }

  [[nodiscard]] bool operates(const Transfer& t) const {
    return plan_.channels[t.channel].discipline != Discipline::parallel;
  }
  // Does a message get its bytes from there (and does not merely queue behind it)?
  [[nodiscard]] bool feeds(const Node& node) const {
    if (node.kind == NodeKind::forward_entry) return false;
    if (node.kind != NodeKind::transfer) return true;
    const Transfer& t = plan_.transfers[node.index];
    return !operates(t) || t.operation == Operation::local_reduce_scatter;
  }
  [[nodiscard]] bool uses(const Node& node) const {
    if (node.kind != NodeKind::transfer) return true;
    const Transfer& t = plan_.transfers[node.index];
    return !operates(t) || t.operation == Operation::local_all_gather;
  }

  // Local stages around pushes and pulls, and the backward passes that messages come from, also through timers.
  void find_neighbours() {
    const auto operation = [&](const Node& n) { return plan_.transfers[n.index].operation; };
    for (const Edge& e : plan_.edges) {
      if (e.to.kind != NodeKind::transfer) continue;
      if (e.from.kind == NodeKind::backward) messages_[e.to.index].origin = e.from, messages_[e.to.index].lag = e.lag;
      if (e.from.kind != NodeKind::transfer) continue;
      const auto remote = [&](const Node& n, Operation whole) {
        return operation(n) == whole || operation(n) == Operation::server_card;
      };
      if (remote(e.to, Operation::push) && operation(e.from) == Operation::local_reduce_scatter)
        messages_[e.to.index].local = e.from.index;
      if (remote(e.from, Operation::pull) && operation(e.to) == Operation::local_all_gather)
        messages_[e.from.index].local = e.to.index;
    }
    for (int hop = 0; hop < 3; ++hop)
      for (const Edge& e : plan_.edges) {
        if (e.to.kind != NodeKind::transfer || e.from.kind != NodeKind::transfer || !feeds(e.from)) continue;
        const Message &from = messages_[e.from.index], &to = messages_[e.to.index];
        if (from.origin.kind == NodeKind::backward && to.origin.kind != NodeKind::backward)
          messages_[e.to.index].origin = from.origin, messages_[e.to.index].lag = from.lag + e.lag;
      }
  }

  std::string rewrite(std::uint32_t x) {
    const Transfer t = plan_.transfers[x];
    if (t.tensors == 0 || !operates(t)) return {};
    switch (t.operation) {
      case Operation::all_reduce:
        return rewrite_all_reduce(x, t);
      case Operation::reduce_scatter:
        if (compression_.exchange != Exchange::summed)
          return "its messages cannot be added up on the way, so that no reduce-scatter works on them";
        return send_summed(x, t, encoding_of(x));
      case Operation::push:
        if (staged_ && compression_.exchange == Exchange::summed)
          return "it exchanges twice a step, which parameter servers do not";
        if (compression_.exchange == Exchange::tree)
          return "its workers merge messages along a tree, which parameter servers do not";
        encode(x, t, encoding_of(x), encoding_of(x).sent);
        return {};
      case Operation::server_card:
        return beside(x, t);
      case Operation::all_gather:
      case Operation::pull:
        if (t.carries_gradient) return "the plan's messages are gathered already";
        return receive(x, t);
      case Operation::send:
        return send_difference(x, t);
      default:
        return {};
    }
  }

  std::string rewrite_all_reduce(std::uint32_t x, const Transfer& t) {
    const Encoding e = encoding_of(x);
    const auto workers = static_cast<double>(input_.cluster.workers());
    switch (compression_.exchange) {
      case Exchange::summed:
        if (std::string why = send_summed(x, t, e); !why.empty()) return why;
        add_codec(messages_[x].decoder, "decode", e.decode, t);
        return {};
      case Exchange::gathered:
        if (std::string why = undefined(Operation::all_gather); !why.empty()) return why;
        encode(x, t, e, workers * e.sent);  // the full result
        plan_.transfers[x].operation = Operation::all_gather;
        add_codec(messages_[x].decoder, "decode", workers * e.decode, t);
        return {};
      case Exchange::scattered: {
        for (const Operation op : {Operation::all_to_all, Operation::all_gather})
          if (std::string why = undefined(op); !why.empty()) return why;
        encode(x, t, e, e.sent);
        plan_.transfers[x].operation = Operation::all_gather;
        // Every worker decodes P parts of a P-th each and encodes their sum.
        before(x, Operation::all_to_all, e.sent, e.decode + e.encode / workers);
        add_codec(messages_[x].decoder, "decode", e.decode, t);
        return {};
      }
      case Exchange::tree:
        return merge_along_tree(x, t, e);
      case Exchange::pushed:
        break;
    }
    return "only parameter servers add up its messages";
  }

  // ceil(log2 P) rounds in which a partner's message comes in and is merged, and as many to hand out the last one. The
  // given transfer becomes the last send; the longest way of a worker is through all of them.
  std::string merge_along_tree(std::uint32_t x, const Transfer& t, const Encoding& e) {
    if (std::string why = undefined(Operation::send); !why.empty()) return why;
    const auto rounds = static_cast<std::uint32_t>(std::ceil(std::log2(static_cast<double>(input_.cluster.workers()))));
    encode(x, t, e, e.sent);
    plan_.transfers[x].operation = Operation::send;
    add_codec(messages_[x].decoder, "decode", e.decode, t);
    Node before = transfer_node(x);
    for (std::uint32_t round = 0; round + 1 < 2 * rounds; ++round) {
      const Node sent = transfer_node(add_transfer(x, Operation::send, e.sent));
      if (round == 0) messages_[x].start = sent.index;
      else plan_.edges.push_back({before, sent});
      before = sent;
      if (round >= rounds) continue;
      std::uint32_t merge = none;
      add_codec(merge, "merge", e.between, t);
      plan_.edges.push_back({sent, codec_node(merge)});
      before = codec_node(merge);
    }
    if (rounds > 0) plan_.edges.push_back({before, transfer_node(x)});
    return {};
  }

  // What goes to neighbours: one encoder for all of them, and a decoder for what each of them sends.
  std::string send_difference(std::uint32_t x, const Transfer& t) {
    if (plan_.neighbours == 0)
      return "its messages are models for neighbours, which would lose what a compressor leaves out; DC-DGD sends "
             "differences, which can be compressed (dc_dgd)";
    if (compression_.exchange == Exchange::pushed) return "only parameter servers add up its messages";
    const Encoding e = encoding_of(x);
    if (staged_ || e.aside > Bytes(0))
      return "its exchange is one among all workers, in several rounds, which neighbours do not have";
    Transfer& out = plan_.transfers[x];
    out.dense = dense_size(t);
    out.size = out.dense > Bytes(0) ? e.sent * (t.size / out.dense) : e.sent;
    if (difference_ == none) add_codec(difference_, "encode", e.encode, t);
    messages_[x].start = x, messages_[x].encoder = difference_;
    add_codec(messages_[x].decoder, "decode", e.decode * (plan_.neighbours / static_cast<double>(sends_)), t);
    return {};
  }

  [[nodiscard]] std::string undefined(Operation op) const {
    if (input_.cost.defines(op)) return {};
    return "it needs an " + std::string(name_of(op)) + ", which '" + std::string(input_.cost.algorithm()) +
           "' does not define; name another algorithm, e.g. @ring";
  }

  std::string send_summed(std::uint32_t x, const Transfer& t, const Encoding& e) {
    if (e.first > Bytes(0) || e.aside > Bytes(0))
      if (std::string why = undefined(Operation::all_reduce); !why.empty()) return why;
    if (!(e.first > Bytes(0))) {
      encode(x, t, e, e.sent + e.aside);
      return {};
    }
    encode(x, t, e, e.sent);
    if (e.aside > Bytes(0)) messages_[x].aside = add_transfer(x, Operation::all_reduce, e.aside);
    before(x, Operation::all_reduce, e.first, e.between);
    return {};
  }

  std::string receive(std::uint32_t x, const Transfer& t) {
    const Encoding e = encoding_of(x);
    Transfer& out = plan_.transfers[x];
    out.dense = dense_size(t);
    out.size = t.operation == Operation::all_gather ? e.sent : pulled(e, out.dense * copies_of(t));
    if (t.operation == Operation::all_gather && !(e.first > Bytes(0))) out.size += e.aside;
    add_shared_codec(messages_[x].local, messages_[x].decoder, "decode", e.decode, t);
    return {};
  }

  // The same bytes on a server's card, right after the push or pull that they belong to in the plan.
  std::string beside(std::uint32_t x, const Transfer& t) {
    if (x == 0) return {};
    const Message& whole = messages_[x - 1];
    const Encoding e = encoding_of(x);
    const bool up = plan_.transfers[x - 1].operation == Operation::push;
    plan_.transfers[x].dense = dense_size(t);
    plan_.transfers[x].size = up ? e.sent : pulled(e, dense_size(t) * copies_of(t));
    if (up) messages_[x].start = x, messages_[x].encoder = whole.encoder;
    else messages_[x].decoder = whole.decoder;
    return {};
  }

  // What a server sends back: of messages that do not add up at most all of them, and at most dense.
  [[nodiscard]] Bytes pulled(const Encoding& e, Bytes dense) const {
    if (e.pulled > Bytes(0)) return e.pulled;
    if (compression_.exchange != Exchange::gathered) return e.sent;
    return std::min(dense, static_cast<double>(input_.cluster.nodes) * e.sent);
  }

  void encode(std::uint32_t x, const Transfer& t, const Encoding& e, Bytes size) {
    plan_.transfers[x].dense = dense_size(t);
    plan_.transfers[x].size = size;
    messages_[x].start = x;
    add_shared_codec(messages_[x].local, messages_[x].encoder, "encode", e.encode, t);
  }

  // An exchange that has to end before transfer x, and work in between.
  void before(std::uint32_t x, Operation operation, Bytes size, Seconds work) {
    const std::uint32_t first = messages_[x].start = add_transfer(x, operation, size);
    std::uint32_t between = none;
    add_codec(between, "encode second part of", work, plan_.transfers[x]);
    plan_.edges.push_back({transfer_node(first), codec_node(between)});
    plan_.edges.push_back({codec_node(between), transfer_node(x)});
  }

  std::uint32_t add_transfer(std::uint32_t beside, Operation operation, Bytes size) {
    Transfer t = plan_.transfers[beside];
    t.operation = operation;
    t.carries_gradient = false;
    t.size = size;
    t.dense = Bytes(0);
    plan_.transfers.push_back(t);
    return static_cast<std::uint32_t>(plan_.transfers.size() - 1);
  }

  // Where messages are staged every one has its codecs, so that their order can be kept.
  void add_codec(std::uint32_t& number, std::string_view name, Seconds time, const Transfer& t) {
    if (!(time > Seconds(0)) && !staged_) return;
    number = static_cast<std::uint32_t>(plan_.codecs.size());
    plan_.codecs.push_back({name, time, Engine::compute, t.first_tensor, t.tensors});
  }
  // Messages that share a stage inside the machine are parts of one that is encoded once, by each device its share.
  void add_shared_codec(std::uint32_t local, std::uint32_t& number, std::string_view name, Seconds time,
                        const Transfer& t) {
    if (local == none) return add_codec(number, name, time, t);
    if (shared_[local] == none)
      add_codec(shared_[local], name, time / static_cast<double>(input_.cluster.devices_per_node), t);
    number = shared_[local];
  }

  // Sizes are those of the message, times those of the payload of which it is a part.
  [[nodiscard]] Encoding encoding_of(std::uint32_t x) {
    const Transfer& t = plan_.transfers[x];
    if (t.first_tensor != run_.first || t.tensors != run_.second) sum_run(t.first_tensor, t.tensors);
    if (!(run_size_ > Bytes(0))) return {};
    const std::uint32_t local = messages_[x].local;
    const Bytes payload = local == none ? dense_size(t) : plan_.transfers[local].size;
    Encoding e = run_sum_ * (payload / run_size_);
    const double part = payload > Bytes(0) ? dense_size(t) / payload : 0;
    e.sent *= part, e.pulled *= part;
    const double copies = copies_of(t);
    e.sent *= copies, e.first *= copies, e.aside *= copies, e.pulled *= copies;
    return e;
  }
  // How many times its gradient's bytes a message is: a machine that sends for all of its devices, what is sent again
  // on a lossy network. Each is as much shorter as the gradient is. Requires the run of `t` to be summed.
  [[nodiscard]] double copies_of(const Transfer& t) const {
    if (!(t.dense > Bytes(0)) || !(run_size_ > Bytes(0))) return 1;
    const Bytes once = t.dense * (run_given_ / run_size_);
    return once > Bytes(0) ? t.size / once : 1;
  }
  // Parts of one buffer follow one another: the last sum is often the next one.
  void sum_run(std::uint32_t first, std::uint32_t tensors) {
    run_ = {first, tensors};
    run_sum_ = {};
    run_size_ = run_given_ = Bytes(0);
    for (std::uint32_t i = first; i < first + tensors; ++i) {
      const Encoding& e = values_[plan_.tensor(i)];
      const Tensor& tensor = input_.profile.tensors[plan_.tensor(i)];
      run_size_ += tensor.size;
      run_given_ += plan_.coding == Coding::cast ? as_cast(tensor).size : tensor.size;
      run_sum_.sent += e.sent, run_sum_.first += e.first, run_sum_.aside += e.aside, run_sum_.pulled += e.pulled;
      run_sum_.encode += e.encode, run_sum_.between += e.between, run_sum_.decode += e.decode;
    }
  }

  // Who waits for a gradient now waits for its encoder, and who waited for a transfer waits for its decoder.
  void redirect() {
    const auto count = static_cast<std::uint32_t>(messages_.size());
    for (std::size_t i = 0; i < given_edges_; ++i) {
      Edge e = plan_.edges[i];
      if (e.to.kind == NodeKind::transfer && e.to.index < count && messages_[e.to.index].start != none) {
        const Message& m = messages_[e.to.index];
        const bool fed = feeds(e.from);
        if (m.aside != none) plan_.edges.push_back({e.from, transfer_node(m.aside), e.lag});
        if (fed && m.encoder != none) e.to = codec_node(m.encoder);
        else if (fed || m.start != e.to.index) e.to = transfer_node(m.start);
      }
      if (e.from.kind == NodeKind::transfer && e.from.index < count) {
        const Message& m = messages_[e.from.index];
        if (m.aside != none) plan_.edges.push_back({transfer_node(m.aside), e.to, e.lag});
        if (m.decoder != none && uses(plan_.edges[i].to)) e.from = codec_node(m.decoder);
      }
      plan_.edges[i] = e;
    }
    for (std::uint32_t x = 0; x < count; ++x) {
      const Message& m = messages_[x];
      if (m.encoder != none) plan_.edges.push_back({codec_node(m.encoder), transfer_node(m.start)});
      if (m.decoder != none) plan_.edges.push_back({transfer_node(x), codec_node(m.decoder)});
      if (!compression_.overlapped && m.start != none) wait_for_backward(m);
    }
  }

  void wait_for_backward(const Message& m) {
    if (m.origin.kind != NodeKind::backward) return;
    const Node end{NodeKind::backward, input_.profile.backward_order.back(), m.origin.phase};
    plan_.edges.push_back({end, m.encoder != none ? codec_node(m.encoder) : transfer_node(m.start), m.lag});
    if (m.aside != none) plan_.edges.push_back({end, transfer_node(m.aside), m.lag});
  }

  // Two exchanges of one message, with work in between, cannot both stand in one fixed order with all others. What
  // stays is the order in which messages are issued: none before its predecessor has been encoded.
  void issue_in_order() {
    for (std::size_t c = 0; c < plan_.channels.size(); ++c) {
      if (plan_.channels[c].discipline != Discipline::in_order) continue;
      plan_.channels[c].discipline = Discipline::fifo;
      std::vector<std::uint32_t> turn;
      for (std::uint32_t x = 0; x < messages_.size(); ++x)
        if (plan_.transfers[x].channel == c && messages_[x].encoder != none) turn.push_back(x);
      std::stable_sort(turn.begin(), turn.end(), [&](std::uint32_t a, std::uint32_t b) {
        return plan_.transfers[a].priority < plan_.transfers[b].priority;
      });
      for (std::size_t i = 1; i < turn.size(); ++i) {
        const Message &earlier = messages_[turn[i - 1]], &m = messages_[turn[i]];
        plan_.edges.push_back({codec_node(earlier.encoder), transfer_node(m.start)});
        if (m.aside != none) plan_.edges.push_back({codec_node(earlier.encoder), transfer_node(m.aside)});
      }
    }
  }

  CommPlan plan_;
  const ModifierInput& input_;
  const Compression& compression_;
  const std::size_t given_edges_ = plan_.edges.size();  // the first ones; further ones are in their place
  bool staged_ = false;                                 // some message takes two exchanges
  std::size_t sends_ = 0;                               // messages to neighbours
  std::uint32_t difference_ = none;                     // the codec that encodes them
  std::vector<Encoding> values_;                        // per tensor of the profile
  std::vector<Message> messages_;                       // per transfer of the given plan
  std::vector<std::uint32_t> shared_;                   // codec of a local stage
  std::pair<std::uint32_t, std::uint32_t> run_{none, none};
  Encoding run_sum_;
  Bytes run_size_, run_given_;  // its gradients, and what the plan makes of them
};

}  // namespace

Answer<CommPlan> compressed(CommPlan plan, const ModifierInput& input, const Compression& compression) {
  if (input.cluster.workers() > 1) return Rewriting(std::move(plan), input, compression).result();
  // Nobody to send to: nothing is encoded, but what cannot be combined is refused all the same.
  const Answer<CommPlan> rewritten = Rewriting(plan, input, compression).result();
  if (!rewritten) return rewritten;
  return plan;
}

MatrixShape matrix_shape(const Tensor& t) {
  if (t.shape.size() < 2 || t.shape.front() < 1) return {};
  const auto rows = static_cast<double>(t.shape.front());
  return {rows, elements(t) / rows};
}

std::string without_shapes(const Profile& profile) {
  const auto known = [](const Tensor& t) { return !t.shape.empty(); };
  if (profile.tensors.empty() || std::any_of(profile.tensors.begin(), profile.tensors.end(), known)) return {};
  return "it needs the shapes of the tensors, and the profile has their sizes only";
}

// Peak rates of the makers' data sheets, in GB/s; the first name that is part of the device's counts.
CodecClock::CodecClock(const Profile& profile, double speed)
    : host_(!profile.has_device()), against_v100_(1), speed_(speed) {
  struct Memory {
    std::string_view name;
    double rate;
  };
  constexpr double v100 = 900;
  constexpr Memory memories[] = {{"V100", v100},           {"A100-SXM4-80GB", 2039},
                                 {"A100 80GB PCIe", 1935}, {"A100", 1555},
                                 {"H100 PCIe", 2000},      {"H100", 3350},
                                 {"H200", 4800},           {"P100", 732},
                                 {"RTX 2080 Ti", 616},     {"RTX 3090", 936},
                                 {"RTX 4090", 1008},       {"RTX A6000", 768},
                                 {"Tesla T4", 320},        {"A10G", 600},
                                 {"NVIDIA L4", 300},       {"GTX 1080 Ti", 484},
                                 {"TITAN RTX", 672}};
  for (const Memory& m : memories)
    if (profile.device.find(m.name) != std::string::npos) {
      against_v100_ = v100 / m.rate;
      return;
    }
}

}  // namespace stepcast
