// Transfers between machines are rewritten to end when all but a tolerated share has arrived.
#include <stepcast/modifiers/shared/bounded_loss.hpp>

#include <algorithm>

namespace stepcast {
namespace {

bool between_machines(const CommPlan& plan, const Transfer& t) {
  if (plan.channels[t.channel].discipline == Discipline::parallel) return false;  // a timer
  return t.operation != Operation::server_sum && t.operation != Operation::local_reduce_scatter &&
         t.operation != Operation::local_all_gather;
}

// The message with other bytes on the link, and a wait. A server's card is loaded by the messages of all machines,
// which wait on their own links.
void rewrite(Transfer& t, double sent, Seconds wait) {
  if (t.dense == Bytes(0)) t.dense = t.size;
  t.size = t.size * sent;
  if (t.operation != Operation::server_card) t.overhead += wait;
}

// Share of a message that may be lost: by the layers of its tensors where it is graded.
double tolerance_of(const Transfer& t, const CommPlan& plan, const Profile& profile, const LossTolerance& loss) {
  const double whole = t.carries_gradient ? loss.push : loss.pull;
  const double last = static_cast<double>(profile.layers.size()) - 1;
  if (!loss.graded || t.tensors == 0 || last <= 0) return whole;
  double weighted = 0, bytes = 0;
  for (std::uint32_t i = 0; i < t.tensors; ++i) {
    const Tensor& tensor = profile.tensors[plan.tensor(t.first_tensor + i)];
    weighted += tensor.size.value() * (1.1 - 0.7 * static_cast<double>(tensor.layer) / last);
    bytes += tensor.size.value();
  }
  return bytes > 0 ? std::min(1.0, whole * weighted / bytes) : whole;
}

// Messages of layers near the input overtake the others while they wait.
void serve_by_layer(CommPlan& plan, const Profile& profile) {
  for (Channel& c : plan.channels)
    if (c.discipline == Discipline::fifo || c.discipline == Discipline::in_order) c.discipline = Discipline::priority;
  for (Transfer& t : plan.transfers) {
    std::uint32_t first = static_cast<std::uint32_t>(profile.layers.size());
    for (std::uint32_t i = 0; i < t.tensors; ++i)
      first = std::min(first, profile.tensors[plan.tensor(t.first_tensor + i)].layer);
    t.priority = static_cast<std::int32_t>(first);
  }
}

}  // namespace

Answer<CommPlan> over_lossy_transport(CommPlan plan, const ModifierInput& in, Transport transport,
                                      const LossTolerance& loss) {
  if (in.cluster.nodes == 1) return plan;
  transport.round_trip = 2 * in.cluster.network.latency;
  const double whole = path_factor(transport) / (1 - transport.loss);
  for (Transfer& t : plan.transfers) {
    if (!between_machines(plan, t)) continue;
    const double tolerated = tolerance_of(t, plan, in.profile, loss);
    rewrite(t, whole * (1 - tolerated), repair_rounds(t.size, transport, tolerated) * transport.round_trip);
  }
  if (loss.by_layer) serve_by_layer(plan, in.profile);
  return plan;
}

Answer<CommPlan> over_reliable_transport(CommPlan plan, const ModifierInput& in, Transport transport) {
  if (in.cluster.nodes == 1) return plan;
  transport.round_trip = 2 * in.cluster.network.latency;
  const double sent = path_factor(transport) / (1 - transport.loss);
  // The step waits for the slowest flow of all machines.
  Transport all = transport;
  all.flows = std::min<std::int64_t>(1000, transport.flows * in.cluster.nodes);
  const Seconds stall = expected_stall(all);
  for (Transfer& t : plan.transfers) {
    if (!between_machines(plan, t)) continue;
    rewrite(t, sent, stall + repair_rounds(t.size, transport, 0) * transport.round_trip);
  }
  return plan;
}

}  // namespace stepcast
