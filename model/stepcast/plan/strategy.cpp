// What a plan needs, how far it departs from synchronous training, and its CommPlan with all modifiers applied.
#include <stepcast/plan/strategy.hpp>

#include <algorithm>

namespace stepcast {
namespace {

constexpr std::string_view server_machines = "servers";

}  // namespace

const Strategy* strategy_named(std::string_view name) {
  for (const Strategy& s : strategies())
    if (s.name == name) return &s;
  return nullptr;
}

OptionValues standard_options(const Strategy& strategy) { return standard_options(strategy.options); }

std::vector<std::string_view> requirements_of(const PlanSpec& spec) {
  std::vector<std::string_view> needs;
  if (!spec.strategy->needs.empty()) needs.push_back(spec.strategy->needs);
  const CollectiveAlgorithm* collective = collective_algorithm(collective_of(spec));
  if (collective == nullptr) return needs;
  if (collective->needs_switch) needs.push_back("programmable switch");
  if (collective->needs_servers && spec.strategy->needs != server_machines) needs.push_back(server_machines);
  return needs;
}

bool needs_servers(const PlanSpec& spec) {
  const std::vector<std::string_view> needs = requirements_of(spec);
  return std::find(needs.begin(), needs.end(), server_machines) != needs.end();
}

Fidelity fidelity_of(const PlanSpec& spec) {
  Fidelity furthest = spec.strategy->fidelity;
  for (const ModifierSpec& m : spec.modifiers) furthest = std::max(furthest, m.modifier->fidelity);
  return furthest;
}

double lead_of(const PlanSpec& spec) { return spec.strategy->lead ? spec.strategy->lead(spec.options) : 0; }

Answer<CommPlan> comm_plan_of(const PlanSpec& spec, const Profile& profile, const Cluster& cluster,
                              const CommunicationCost& cost, double phase) {
  return comm_plan_of(spec, {profile, cluster, cost, spec.options, phase});
}

Answer<CommPlan> comm_plan_of(const PlanSpec& spec, const StrategyInput& in) {
  Answer<CommPlan> plan = spec.strategy->plan(in);
  if (plan && in.cluster.workers() == 1) plan->packing = Packing::none;
  for (const ModifierSpec& m : spec.modifiers) {
    if (!plan) break;
    plan = m.modifier->apply(std::move(*plan), {in.profile, in.cluster, in.cost, m.options});
  }
  return plan;
}

}  // namespace stepcast
