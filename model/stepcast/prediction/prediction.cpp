// A prediction among stragglers is that of the slowest worker, in the mean over its jitter.
#include <stepcast/cluster/stragglers.hpp>
#include <stepcast/prediction/alike.hpp>
#include <stepcast/prediction/hot_loop.hpp>
#include <stepcast/schedule/plan_flaw.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast {
namespace {

// The distribution of a plan's steps over the jitter of all workers; Inapplicable as the plan is.
Answer<StepDistribution> steps_of(const Profile& profile, const Cluster& cluster, const AskedPlan& asked,
                                  const Slowness& worst) {
  const Answer<CommunicationCost> cost = communication_cost(cluster, collective_of(asked.spec));
  if (!cost) return Inapplicable{cost.reason()};
  std::string why;
  HotLoop loop;
  const auto step_at = [&](double factor) {
    const auto worker = std::make_shared<const PreparedProfile>(slowed(profile, factor, worst.delay));
    const Answer<Seconds> time = loop.iteration(worker, cluster, *cost, asked.spec, asked.given);
    if (!time) why = time.reason();
    return time ? *time : Seconds(0);
  };
  const StepDistribution steps = step_distribution(LargestFactor(cluster.stragglers, cluster.workers()), step_at);
  if (!why.empty()) return Inapplicable{why};
  return steps;
}

Answer<Prediction> predicted_among_all(const Profile& profile, const Cluster& cluster, const AskedPlan& asked) {
  const Stragglers& stragglers = cluster.stragglers;
  if (stragglers.none()) return predicted_alike(profile, cluster, asked);
  Cluster healthy = cluster;
  healthy.stragglers = {};
  const Answer<Prediction> without = predicted_alike(profile, healthy, asked);
  if (!without) return without;

  const Slowness worst = slowest(stragglers);
  const bool jitter = stragglers.jitter.distribution != Jitter::Distribution::none;
  StepDistribution steps;
  if (jitter) {
    const Answer<StepDistribution> found = steps_of(profile, cluster, asked, worst);
    if (!found) return Inapplicable{found.reason()};
    steps = *found;
  }
  const double factor = jitter ? steps.typical_factor : worst.factor;
  Answer<Prediction> out = predicted_alike(slowed(profile, factor, worst.delay), cluster, asked);
  if (!out) return out;
  StragglerEffect effect{text_of(stragglers), without->iteration, out->iteration, out->iteration};
  if (jitter) {
    effect.step_low = steps.p10, effect.step_high = steps.p90;
    out->step_spread = Seconds(std::hypot(out->step_spread.value(), steps.deviation.value()));
  }
  out->stragglers = std::move(effect);
  if (!one_is_slowest(stragglers))
    out->warnings.push_back("several kinds of slow workers: predicted as if one had all their faults, an upper bound");
  return out;
}

Answer<DetailedTimeline> detailed_timeline_of(const Profile& traced, const Cluster& cluster, const AskedPlan& asked,
                                              std::uint32_t iterations) {
  const Profile profile = slowest_worker(traced, cluster);
  const Answer<CommunicationCost> cost = communication_cost(cluster, collective_of(asked.spec));
  if (!cost) return Inapplicable{cost.reason()};
  return scheduled_alike(profile, cluster, *cost, asked, 0.5, false, {.least_iterations = std::max(1u, iterations)});
}

}  // namespace

Answer<Prediction> predicted(const Profile& profile, const Cluster& cluster, const PlanSpec& asked) {
  return predicted_among_all(profile, cluster, {with_automatic_options_tuned(profile, cluster, asked)});
}

Answer<Prediction> predicted(const Profile& profile, const Cluster& cluster, const CommPlan& plan,
                             std::string_view name, std::string_view collective) {
  if (std::string flaw = flaw_of(plan, profile); !flaw.empty()) return Inapplicable{std::move(flaw)};
  return predicted_among_all(profile, cluster, {spec_named(name, collective), &plan});
}

Answer<DetailedTimeline> detailed_timeline(const Profile& traced, const Cluster& cluster, const PlanSpec& asked,
                                           std::uint32_t iterations) {
  return detailed_timeline_of(traced, cluster, {with_automatic_options_tuned(traced, cluster, asked)}, iterations);
}

Answer<DetailedTimeline> detailed_timeline(const Profile& traced, const Cluster& cluster, const CommPlan& plan,
                                           std::string_view collective, std::uint32_t iterations) {
  if (std::string flaw = flaw_of(plan, traced); !flaw.empty()) return Inapplicable{std::move(flaw)};
  return detailed_timeline_of(traced, cluster, {spec_named({}, collective), &plan}, iterations);
}

}  // namespace stepcast
