#pragma once
// Iteration by the clock: every plan anew and event by event, with nothing kept and no steady period looked for, beside
// which the hot loop is tested.
#include <stepcast/prediction/alike.hpp>
#include <stepcast/schedule/lowering.hpp>

namespace stepcast::test {

/// The iteration time of workers that are all like `profile`. Inapplicable when the plan is.
inline Answer<Seconds> predicted_iteration(const Profile& profile, const Cluster& cluster,
                                           const CommunicationCost& cost, const PlanSpec& spec, Timeline& timeline) {
  Seconds sum;
  const std::uint32_t phases = spec.strategy->phases;
  for (std::uint32_t k = 0; k < phases; ++k) {
    const Answer<CommPlan> plan = comm_plan_of(spec, profile, cluster, cost, phase_of(k, phases));
    if (!plan) return Inapplicable{plan.reason()};
    std::string obstacle =
        obstacle_to(*plan, {compute_in_a_row(profile), profile.communication.message}, cluster, cost);
    if (!obstacle.empty()) return Inapplicable{std::move(obstacle)};
    schedule(lowered(profile, *plan, cost, cluster.contention), timeline);
    sum += timeline.iteration_time() / plan->period / phases;
  }
  return sum;
}

}  // namespace stepcast::test
