#include <stepcast/strategy.hpp>

#include <algorithm>

namespace stepcast {

const Strategy* strategy_named(std::string_view name) {
  for (const Strategy& s : strategies())
    if (s.name == name) return &s;
  return nullptr;
}

OptionValues standard_options(const Strategy& strategy) { return standard_options(strategy.options); }

Fidelity fidelity_of(const PlanSpec& spec) {
  Fidelity furthest = spec.strategy->fidelity;
  for (const ModifierSpec& m : spec.modifiers) furthest = std::max(furthest, m.modifier->fidelity);
  return furthest;
}

Answer<CommPlan> comm_plan_of(const PlanSpec& spec, const Profile& profile, const Cluster& cluster,
                              const CommunicationCost& cost, double phase) {
  Answer<CommPlan> plan = spec.strategy->plan({profile, cluster, cost, spec.options, phase});
  for (const ModifierSpec& m : spec.modifiers) {
    if (!plan) break;
    plan = m.modifier->apply(std::move(*plan), {profile, cluster, cost, m.options});
  }
  return plan;
}

}  // namespace stepcast
