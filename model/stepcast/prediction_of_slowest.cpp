// Predictions on clusters with stragglers: the step is that of the slowest worker, in the mean over its jitter.
#include <stepcast/prediction_parts.hpp>
#include <stepcast/stragglers.hpp>

#include <cmath>

namespace stepcast {
namespace {

// The distribution of a plan's steps over the jitter of all workers; Inapplicable as the plan is.
Answer<StepDistribution> steps_of(const Profile& profile, const Cluster& cluster, const PlanSpec& spec,
                                  const Slowness& worst) {
  const Answer<CommunicationCost> cost = communication_cost(cluster, collective_of(spec));
  if (!cost) return Inapplicable{cost.reason()};
  std::string why;
  Timeline scratch;
  const auto step_at = [&](double factor) {
    const Answer<Seconds> time =
        predicted_iteration(slowed(profile, factor, worst.delay), cluster, *cost, spec, scratch);
    if (!time) why = time.reason();
    return time ? *time : Seconds(0);
  };
  const StepDistribution steps = step_distribution(LargestFactor(cluster.stragglers, cluster.workers()), step_at);
  if (!why.empty()) return Inapplicable{why};
  return steps;
}

}  // namespace

Answer<Prediction> predicted(const Profile& profile, const Cluster& cluster, const PlanSpec& asked) {
  const PlanSpec spec = with_automatic_options_tuned(profile, cluster, asked);
  const Stragglers& stragglers = cluster.stragglers;
  if (stragglers.none()) return predicted_alike(profile, cluster, spec);
  Cluster healthy = cluster;
  healthy.stragglers = {};
  const Answer<Prediction> without = predicted_alike(profile, healthy, spec);
  if (!without) return without;

  const Slowness worst = slowest(stragglers);
  const bool jitter = stragglers.jitter.distribution != Jitter::Distribution::none;
  StepDistribution steps;
  if (jitter) {
    const Answer<StepDistribution> found = steps_of(profile, cluster, spec, worst);
    if (!found) return Inapplicable{found.reason()};
    steps = *found;
  }
  const double factor = jitter ? steps.typical_factor : worst.factor;
  Answer<Prediction> out = predicted_alike(slowed(profile, factor, worst.delay), cluster, spec);
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

}  // namespace stepcast
