// Each key is pushed, summed, updated and pulled; quantisers stand around the push.
#include <stepcast/strategies/shared/keyed_plan.hpp>

#include <cmath>
#include <optional>

namespace stepcast {
namespace {

// Writes the nodes of key after key, iteration after iteration.
class KeyedPlan {
 public:
  KeyedPlan(const StrategyInput& in, const KeyedExchange& exchange)
      : profile_(in.profile),
        exchange_(exchange),
        remote_(in.cluster.nodes > 1),
        spreads_(in.cluster.devices_per_node > 1 || !remote_ ||
                 in.cost.line(Operation::local_reduce_scatter) != CostLine{}),
        local_(spreads_ || (exchange.pulls_last_only && exchange.period > 1)),
        sums_(remote_ && in.cost.line(Operation::server_sum) != CostLine{}),
        first_use_(in.memory),
        plan_(in.blank()) {
    plan_.period = exchange.period;
    plan_.update = UpdatePlace::on_server;
    pcie_ = channel("pcie", Discipline::fifo);
    if (!remote_) return;
    const bool shared = server_directions_shared(in.cluster);
    // Of several steps under way the oldest goes first, or its last keys would never be served.
    const Discipline order = exchange.late > 0 ? Discipline::fifo : Discipline::priority;
    up_ = channel(shared ? "net" : "up", order);
    down_ = shared ? up_ : channel("dn", order);
    if (sums_) sum_ = channel("srv", Discipline::fifo);
  }

  CommPlan written() {
    for (key_ = 0; key_ < profile_.tensors.size(); ++key_) write_key();
    if (exchange_.push != KeyedExchange::Push::dense) plan_.coding = Coding::encoded;
    return std::move(plan_);
  }

 private:
  /// What a stage waits for: one node, or two.
  struct Sources {
    Node first;
    std::optional<Node> second{};
  };

  void write_key() {
    first_use_.clear();
    std::optional<Node> before;
    for (std::uint32_t phase = 0; phase < exchange_.period; ++phase) before = write_iteration(phase, before);
    // The host buffer is free for the first iteration when the last one of the repetition before is through.
    if (before && exchange_.local_update)
      for (const Node& use : first_use_) plan_.edges.push_back({*before, use, 1});
  }

  // Returns what frees the host buffer for the next iteration, if anything does.
  std::optional<Node> write_iteration(std::uint32_t phase, std::optional<Node> before) {
    const Tensor& tensor = profile_.tensors[key_];
    const bool first = phase == 0;
    Sources copied{{NodeKind::backward, tensor.layer, phase}};
    if (before && exchange_.local_update) copied.second = before;
    const auto starts = [&](Node node) {
      if (first) first_use_.push_back(node);
      return node;
    };
    if (local_) copied = {starts(stage(copied, Operation::local_reduce_scatter, pcie_, tensor.size, true))};
    const auto uses_buffer = [&](Node node) { return local_ ? node : starts(node); };

    Sources ready = copied;  // to be pushed
    if (exchange_.local_update) {
      const Node update = uses_buffer(codec(copied, "local update", update_time(tensor)));
      forward_waits(spreads_ ? stage({update}, Operation::local_all_gather, pcie_, tensor.size, false) : update, phase);
      if (quantised(phase)) ready = {codec({update}, "quantise", quantiser_time(tensor))};
    } else if (quantised(phase)) {
      ready = {codec(copied, "quantise", quantiser_time(tensor))};
    }
    if (!remote_) {
      if (!exchange_.local_update)
        forward_waits(stage(ready, Operation::local_all_gather, pcie_, tensor.size, false), phase, exchange_.late);
      return {};
    }
    Node end = push(ready, phase);
    if (!quantised(phase)) uses_buffer(end);
    if (sums_) end = stage({end}, Operation::server_sum, sum_, tensor.size, false);
    if (exchange_.pulls_last_only && phase + 1 < exchange_.period) return end;
    end = stage({end}, Operation::pull, down_, tensor.size, false);
    if (exchange_.local_update) return end;
    if (spreads_) end = stage({end}, Operation::local_all_gather, pcie_, tensor.size, false);
    forward_waits(end, phase, exchange_.late);
    return end;
  }

  [[nodiscard]] bool quantised(std::uint32_t phase) const {
    if (!remote_ || exchange_.push == KeyedExchange::Push::dense) return false;
    return exchange_.push == KeyedExchange::Push::quantised || phase > 0;
  }

  Node push(const Sources& ready, std::uint32_t phase) {
    const Tensor& tensor = profile_.tensors[key_];
    const Bytes sent = quantised(phase) ? two_bit_size(tensor) : tensor.size;
    const Node node = stage(ready, Operation::push, up_, sent, !local_);
    plan_.transfers[node.index].dense = tensor.size;
    return node;
  }

  void forward_waits(Node node, std::uint32_t phase, std::uint32_t late = 0) {
    const std::uint32_t next = phase + 1 + late;
    plan_.edges.push_back(
        {node, {NodeKind::forward, profile_.tensors[key_].layer, next % exchange_.period}, next / exchange_.period});
  }

  [[nodiscard]] Seconds update_time(const Tensor& tensor) const {
    return exchange_.update_passes * (tensor.size / exchange_.memory);
  }
  // Gradient and residual are read, the residual and the words are written.
  [[nodiscard]] Seconds quantiser_time(const Tensor& tensor) const {
    return (3 * tensor.size + two_bit_size(tensor)) / exchange_.memory;
  }

  Node stage(const Sources& after, Operation operation, std::uint8_t on, Bytes size, bool carries) {
    Transfer t;
    t.operation = operation;
    t.channel = on;
    t.carries_gradient = carries;
    t.priority = static_cast<std::int32_t>(profile_.tensors[key_].layer);
    t.size = size;
    t.first_tensor = key_;
    t.tensors = 1;
    plan_.transfers.push_back(t);
    return after_all(after, transfer(plan_.transfers.size() - 1));
  }
  Node codec(const Sources& after, std::string_view name, Seconds time) {
    plan_.codecs.push_back({name, time, Engine::processor, key_, 1});
    return after_all(after, {NodeKind::codec, static_cast<std::uint32_t>(plan_.codecs.size() - 1)});
  }
  Node after_all(const Sources& sources, Node node) {
    plan_.edges.push_back({sources.first, node});
    if (sources.second) plan_.edges.push_back({*sources.second, node});
    return node;
  }
  std::uint8_t channel(std::string_view name, Discipline discipline) {
    plan_.channels.push_back({name, discipline, Bytes(0)});
    return static_cast<std::uint8_t>(plan_.channels.size() - 1);
  }

  const Profile& profile_;
  const KeyedExchange& exchange_;
  bool remote_, spreads_, local_, sums_;
  std::uint8_t pcie_ = 0, up_ = 0, down_ = 0, sum_ = 0;
  std::uint32_t key_ = 0;
  std::pmr::vector<Node> first_use_;  // of the host buffer in the first iteration of a repetition
  CommPlan plan_;
};

}  // namespace

Answer<CommPlan> keyed_over_servers(const StrategyInput& in, const KeyedExchange& exchange) {
  constexpr double most = 200'000;
  const double messages = static_cast<double>(in.profile.tensors.size()) * exchange.period;
  if (messages > most)
    return Inapplicable{"a repetition of it has " + std::to_string(static_cast<long long>(messages)) +
                        " messages; at most " + std::to_string(static_cast<long long>(most)) + " are planned"};
  return KeyedPlan(in, exchange).written();
}

Bytes two_bit_size(const Tensor& tensor) {
  return Bytes(4 * std::ceil(tensor.size.value() / size_of(tensor.dtype) / 16));
}

}  // namespace stepcast
