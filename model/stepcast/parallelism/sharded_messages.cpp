// A plan of nothing but reduce-scatters, or of all-gathers, is rewritten and read.
#include <stepcast/pace/stalls.hpp>
#include <stepcast/parallelism/gradients.hpp>
#include <stepcast/parallelism/sharded_messages.hpp>

#include <algorithm>
#include <string>

namespace stepcast {
namespace {

/// Reduce-scatters under the backward pass, or all-gathers behind the update.
CommPlan plan_of(const Profile& profile, Operation operation, std::span<const TensorRun> runs) {
  CommPlan plan;
  plan.channels.push_back({"net"});
  for (const TensorRun& run : runs) {
    const Node here{NodeKind::transfer, static_cast<std::uint32_t>(plan.transfers.size())};
    Transfer t;
    t.operation = operation;
    t.carries_gradient = operation == Operation::reduce_scatter;
    t.size = run.size;
    t.first_tensor = run.first;
    t.tensors = run.tensors;
    plan.transfers.push_back(t);
    if (t.carries_gradient) {
      const std::uint32_t last = run.tensors > 0 ? profile.tensors[run.first + run.tensors - 1].layer : 0;
      plan.edges.push_back({{NodeKind::backward, last}, here});
      plan.edges.push_back({here, {NodeKind::update}});
    } else {
      plan.edges.push_back({{NodeKind::update}, here});
      plan.edges.push_back({here, {NodeKind::forward}, 1});
    }
  }
  return plan;
}

/// Why the rewritten plan is none of ZeRO's; empty: it is.
std::string unsuitable_for_shards(const CommPlan& plan, Operation operation, std::size_t messages) {
  if (plan.period != 1 || plan.one_update)
    return "ZeRO's replicas update their shards together in every step, and it makes them go their own ways";
  if (plan.transfers.size() != messages)
    return "it exchanges factors of whole matrices, which a device that keeps a shard does not have";
  const bool same = std::all_of(plan.transfers.begin(), plan.transfers.end(),
                                [&](const Transfer& t) { return t.operation == operation; });
  return same ? "" : "its messages do not add up on the way, which a reduce-scatter of shards needs";
}

ModifiedMessage message_of(const CommPlan& plan, const Transfer& t, const TensorRun& run,
                           const CommunicationCost& cost) {
  ModifiedMessage out;
  out.share = run.size > Bytes(0) ? t.size / run.size : 1;
  out.overhead = t.overhead + arrival_wait(t, cost);
  for (const Codec& c : plan.codecs)
    if (c.first_tensor == t.first_tensor && c.tensors == t.tensors) out.codec += c.time;
  return out;
}

}  // namespace

Answer<std::vector<ModifiedMessage>> modified_messages(const PlanSpec& spec, const Profile& profile,
                                                       const PricedGroup& group, Operation operation,
                                                       std::span<const TensorRun> runs) {
  CommPlan plan = plan_of(profile, operation, runs);
  for (const ModifierSpec& m : spec.modifiers) {
    if (operation == Operation::all_gather && !m.modifier->of_parameters) continue;
    Answer<CommPlan> rewritten = m.modifier->apply(std::move(plan), {profile, group.cluster, group.cost, m.options});
    std::string why = rewritten ? unsuitable_for_shards(*rewritten, operation, runs.size()) : rewritten.reason();
    if (!why.empty()) return Inapplicable{std::string(m.modifier->name) + ": " + why + " (zero=0 allows it)"};
    plan = *std::move(rewritten);
  }
  std::vector<ModifiedMessage> out;
  for (std::size_t x = 0; x < runs.size(); ++x) out.push_back(message_of(plan, plan.transfers[x], runs[x], group.cost));
  return out;
}

Answer<ShardedMessages> sharded_messages(const Workload& w, const PricedSplit& split, const Layout& l,
                                         const PlanSpec& spec) {
  const Transport& network = split.sharding().cost.transport();
  if (!spec.modifiers.empty() && (l.quantized_weights || l.quantized_gradients))
    return Inapplicable{std::string(spec.modifiers.front().modifier->name) +
                        ": what ZeRO sends is encoded once, and qwz=on and qgz=on encode it already"};
  if (spec.modifiers.empty() && network.loss == 0 && network.stalls == 0) return ShardedMessages{};
  std::vector<std::uint32_t> layers_to;  // of each unit
  const Profile profile = stage_profile(w, split, l, split.sequence(w), &layers_to);
  // Units backward, as their tensors are.
  std::vector<TensorRun> runs(w.units.size());
  std::uint32_t tensor = 0;
  for (std::size_t u = w.units.size(); u-- > 0;) {
    const std::uint32_t from = u > 0 ? layers_to[u - 1] : 0;
    runs[u].first = tensor;
    for (; tensor < profile.tensors.size() && profile.tensors[tensor].layer >= from; ++tensor) {
      runs[u].size += profile.tensors[tensor].size;
      ++runs[u].tensors;
    }
  }
  ShardedMessages out;
  for (const Operation operation : {Operation::reduce_scatter, Operation::all_gather}) {
    Answer<std::vector<ModifiedMessage>> found = modified_messages(spec, profile, split.sharding(), operation, runs);
    if (!found) return Inapplicable{found.reason()};
    (operation == Operation::reduce_scatter ? out.reduce : out.gather) = *std::move(found);
  }
  return out;
}

}  // namespace stepcast
