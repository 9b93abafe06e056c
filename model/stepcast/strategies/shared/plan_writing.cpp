// Groups become transfers with their edges, and a count that would be too many is refused.
#include <stepcast/strategies/shared/plan_writing.hpp>

namespace stepcast {

CommPlan all_reduced(const StrategyInput& in, const Grouping& groups, Discipline discipline) {
  return all_reduced(in.profile, groups, discipline, in.blank());
}

CommPlan all_reduced(const Profile& profile, const Grouping& groups, Discipline discipline, CommPlan plan) {
  plan.channels.push_back({"net", discipline, Bytes(0)});
  plan.transfers.reserve(groups.size());
  plan.edges.reserve(2 * groups.size());
  for (const Group& g : groups) {
    const std::size_t x = plan.transfers.size();
    Transfer t;
    t.size = g.size;
    t.priority = static_cast<std::int32_t>(x);
    t.first_tensor = g.first;
    t.tensors = g.count;
    plan.transfers.push_back(t);
    plan.edges.push_back({gradient(profile, g.last()), transfer(x)});
    plan.edges.push_back({transfer(x), common_update});
  }
  return plan;
}

std::string too_many(double messages) {
  constexpr double most = 200'000;
  if (messages <= most) return {};
  return "the partition size cuts the gradients into " + std::to_string(static_cast<long long>(messages)) +
         " messages; at most " + std::to_string(static_cast<long long>(most)) + " are planned";
}

}  // namespace stepcast
