// Transfers between machines are rewritten to end when all but a tolerated share has arrived.
#include <stepcast/modifiers/shared/bounded_loss.hpp>

#include <algorithm>

namespace stepcast {
namespace {

// The share of a message that may be lost, by the layers of its tensors.
double tolerance_of(const Transfer& t, const CommPlan& plan, const Profile& profile, const LossTolerance& loss) {
  const double whole = t.carries_gradient ? loss.push : loss.pull;
  const double last = static_cast<double>(profile.layers.size()) - 1;
  if (loss.at_input == loss.at_output || t.tensors == 0 || last <= 0) return std::min(1.0, whole * loss.at_input);
  double weighted = 0, bytes = 0;
  for (std::uint32_t i = 0; i < t.tensors; ++i) {
    const Tensor& tensor = profile.tensors[plan.tensor(t.first_tensor + i)];
    const double depth = static_cast<double>(tensor.layer) / last;
    weighted += tensor.size.value() * (loss.at_input + (loss.at_output - loss.at_input) * depth);
    bytes += tensor.size.value();
  }
  return std::min(1.0, bytes > 0 ? whole * weighted / bytes : whole * loss.at_input);
}

// Packets of layers near the input overtake the others in the network.
void serve_by_layer(CommPlan& plan, const Profile& profile) {
  for (Channel& c : plan.channels) {
    if (c.discipline == Discipline::parallel || c.credit > Bytes(0)) continue;
    c.discipline = Discipline::priority;
    c.preemptive = true;
  }
  for (Transfer& t : plan.transfers) {
    std::uint32_t first = static_cast<std::uint32_t>(profile.layers.size());
    for (std::uint32_t i = 0; i < t.tensors; ++i)
      first = std::min(first, profile.tensors[plan.tensor(t.first_tensor + i)].layer);
    t.priority = static_cast<std::int32_t>(first);
  }
}

}  // namespace

CommPlan over_lossy_transport(CommPlan plan, const ModifierInput& in, const LossTolerance& loss) {
  if (in.cluster.nodes == 1) return plan;
  const double paths = in.cost.sprayed_over_hashed();
  for (Transfer& t : plan.transfers) {
    const bool server_card = t.operation == Operation::server_card;  // loaded by the messages of all machines
    const bool timer = plan.channels[t.channel].discipline == Discipline::parallel;
    if (timer || !(in.cost.between_machines(t.operation) || server_card)) continue;
    const double tolerated = tolerance_of(t, plan, in.profile, loss);
    if (t.dense == Bytes(0)) t.dense = t.size;
    t.may_lose = true;
    t.after = in.cost.repair_time(t.operation, t.size, tolerated);
    t.size = t.size * (paths * (1 - tolerated));
  }
  if (loss.by_layer) serve_by_layer(plan, in.profile);
  return plan;
}

Answer<LossTolerance> bounded_by(LossTolerance whole, const BoundOptions& options) {
  constexpr double graded = 1, magnitude = 2;  // choices of bound_option
  const bool by_magnitude = options.bound == magnitude;
  const bool standard = options.large == large_option.standard && options.of_large == of_large_option.standard;
  if (!by_magnitude && !standard) return Inapplicable{"large and of_large are for bound=magnitude"};
  if (options.bound == graded) whole.at_input = 1.1, whole.at_output = 0.4;
  if (by_magnitude)
    whole.at_input = whole.at_output =
        options.large * options.of_large + (1 - options.large) * tolerated_of_small_values;
  return whole;
}

}  // namespace stepcast
