// The channels and stages of a partition on its way through servers.
#include <stepcast/cluster/closed_forms.hpp>
#include <stepcast/strategies/shared/server_plan.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <tuple>

namespace stepcast {

ServerPlan::ServerPlan(const StrategyInput& in, UpdatePlace update, Queues queues, bool balanced)
    : plan_(in.blank()),
      local_(in.cluster.devices_per_node > 1 || in.cost.line(Operation::local_reduce_scatter) != CostLine{}),
      remote_(in.cluster.nodes > 1),
      sums_(remote_ && in.cost.line(Operation::server_sum) != CostLine{}),
      in_(in.memory),
      out_(in.memory) {
  plan_.update = update;
  const std::size_t parts = 2 * in.profile.tensors.size();
  plan_.transfers.reserve(parts * (2 + 2 * local_ + sums_));
  plan_.edges.reserve(parts * (3 + 2 * local_ + sums_));
  pcie_ = channel("pcie");
  if (!remote_) return;
  const bool shared = server_directions_shared(in.cluster);
  // One queue for both directions is as strict as the stricter of the two.
  const bool ordered = shared && queues.down == Discipline::in_order;
  up_ = channel(shared ? "net" : "up", ordered ? queues.down : queues.up, queues.credit);
  down_ = shared ? up_ : channel("dn", queues.down);
  if (sums_) sum_ = channel("srv");
  if (!balanced || shared) return;
  // The cost of a push counts n/S payloads on a server's card; here the load is spread so that all cards carry the
  // same, and sizes are given in payloads that take as long as these bytes do on the slower of both kinds of card, as a
  // worker and as a server. A slow card is slow in both.
  const double n = static_cast<double>(in.cluster.nodes), s = static_cast<double>(in.cluster.servers);
  const ServerSplit split = byteps_split(in.cluster.nodes, std::min(in.cluster.nodes, in.cluster.servers));
  const ServerTransferTime time = server_transfer_time(in.cluster);
  const double of_cost = std::max(time.worker, time.server * s / n) / std::max(time.worker, time.server);
  own_ = (1 - split.per_worker) * of_cost;
  extra_ = (n - 1) * split.per_worker * of_cost;
}

ServerPlan::ServerPlan(const StrategyInput& in, UpdatePlace update, Keys keys) : ServerPlan(in, update, Queues{}) {
  const std::int64_t servers = in.cluster.servers;
  constexpr std::int64_t most = 100;  // channels are numbered by a byte
  if (keys != Keys::hashed || !remote_ || servers < 2 || servers > most) return;
  // The cost of a push counts n/S payloads on a server's card, which here is a resource of its own.
  const ServerTransferTime time = server_transfer_time(in.cluster);
  own_ = time.worker / std::max(time.worker, time.server);
  for (std::int64_t s = 0; s < servers; ++s) {
    in_.push_back(channel("server in"));
    out_.push_back(channel("server out"));
  }
}

std::uint8_t ServerPlan::channel(std::string_view name, Discipline discipline, Bytes credit) {
  plan_.channels.push_back({name, discipline, credit});
  return static_cast<std::uint8_t>(plan_.channels.size() - 1);
}

Node ServerPlan::stage(Node after, Operation operation, std::uint8_t on, const Payload& p, Bytes size, bool carries,
                       std::uint32_t lag) {
  Transfer t;
  t.operation = operation;
  t.channel = on;
  t.carries_gradient = carries;
  t.priority = p.priority;
  t.size = size;
  t.first_tensor = p.first_tensor;
  t.tensors = p.tensors;
  const Node node = transfer(plan_.transfers.size());
  plan_.transfers.push_back(t);
  plan_.edges.push_back({after, node, lag});
  return node;
}

Node ServerPlan::pushed(Node ready, const Payload& p) {
  // The stage that carries the gradient has its full size; a push that is less than the payload follows one.
  const bool local = local_ || !remote_ || own_ < 1;
  Node at = ready;
  if (local) at = stage(at, Operation::local_reduce_scatter, pcie_, p, p.size, true);
  if (!remote_) return at;
  const Node reduced = at;
  at = stage(reduced, Operation::push, up_, p, p.size * own_, !local);
  const Node pushed = at;
  if (!in_.empty()) {
    // The bytes arrive while they are sent, and those of a partition are sent after those of the one before it.
    const Node arrived =
        stage(reduced, Operation::server_card, in_[byteps_server(p.key, in_.size())], p, p.size, false);
    if (last_push_) plan_.edges.push_back({*last_push_, arrived});
    last_push_ = pushed;
    if (!sums_) return both(pushed, arrived);
    at = stage(pushed, Operation::server_sum, sum_, p, p.size, false);
    plan_.edges.push_back({arrived, at});
    return at;
  }
  const Node incoming = extra_ > 0 ? stage(reduced, Operation::push, down_, p, p.size * extra_, false) : at;
  if (sums_) at = stage(pushed, Operation::server_sum, sum_, p, p.size, false);
  else if (extra_ > 0) at = moment(), plan_.edges.push_back({pushed, at});
  if (extra_ > 0) plan_.edges.push_back({incoming, at});
  return at;
}

Node ServerPlan::both(Node first, Node second) {
  const Node joined = moment();
  plan_.edges.push_back({first, joined});
  plan_.edges.push_back({second, joined});
  return joined;
}

Node ServerPlan::pulled(Node summed, const Payload& p, std::uint32_t lag) {
  Node at = summed;
  if (remote_) {
    at = stage(summed, Operation::pull, down_, p, p.size * own_, false, lag);
    if (extra_ > 0 || !out_.empty()) {
      const Node pulled = at;
      const Node outgoing = out_.empty() ? stage(summed, Operation::pull, up_, p, p.size * extra_, false, lag)
                                         : stage(summed, Operation::server_card,
                                                 out_[byteps_server(p.key, out_.size())], p, p.size, false, lag);
      if (!local_ && !out_.empty()) return both(pulled, outgoing);
      at = stage(pulled, Operation::local_all_gather, pcie_, p, p.size, false);
      plan_.edges.push_back({outgoing, at});
      return at;
    }
    lag = 0;
  }
  if (local_ || at == summed) at = stage(at, Operation::local_all_gather, pcie_, p, p.size, false, lag);
  return at;
}

Node ServerPlan::moment() {
  if (moment_ == 0) moment_ = channel("timer", Discipline::parallel);
  Transfer t;
  t.channel = moment_;
  t.carries_gradient = false;
  plan_.transfers.push_back(t);
  return transfer(plan_.transfers.size() - 1);
}

std::uint64_t byteps_server(std::uint64_t key, std::uint64_t servers) {
  std::uint64_t hash = 5381;
  for (const char digit : std::to_string(key)) hash = (hash << 5) + hash + static_cast<std::uint64_t>(digit);
  return hash % servers;
}

std::pmr::vector<std::uint64_t> declared_numbers(const Profile& profile, Memory memory) {
  std::pmr::vector<std::uint32_t> by_name(profile.tensors.size(), memory);
  std::iota(by_name.begin(), by_name.end(), 0);
  std::sort(by_name.begin(), by_name.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(profile.tensors[a].name, a) < std::tie(profile.tensors[b].name, b);
  });
  std::pmr::vector<std::uint64_t> numbers(by_name.size(), memory);
  for (std::size_t i = 0; i < by_name.size(); ++i) numbers[by_name[i]] = i;
  return numbers;
}

Answer<CommPlan> scheduled_over_servers(const StrategyInput& in, Bytes partition, Bytes credit) {
  if (std::string why = too_many(number_of_parts(in.profile, partition)); !why.empty()) return Inapplicable{why};
  ServerPlan servers(in, UpdatePlace::before_forward, {Discipline::priority, credit, Discipline::fifo});
  for (std::uint32_t t = 0; t < in.profile.tensors.size(); ++t) {
    const std::uint32_t layer = in.profile.tensors[t].layer;
    for_each_part(in.profile.tensors[t].size, partition, [&](Bytes size) {
      const Payload part{t, 1, size, static_cast<std::int32_t>(layer)};
      servers.wait(servers.exchanged(gradient(in.profile, t), part), forward_of(layer), 1);
    });
  }
  return servers.take();
}

double number_of_parts(const Profile& profile, Bytes partition, bool fused) {
  if (fused) return std::ceil(profile.gradient_size() / partition);
  double parts = 0;
  for (const Tensor& t : profile.tensors) parts += std::max(1.0, std::ceil(t.size / partition));
  return parts;
}

}  // namespace stepcast
