// A prediction among stragglers is that of the slowest worker, in the mean over its jitter.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/stragglers.hpp>
#include <stepcast/pace/own_pace.hpp>
#include <stepcast/prediction/alike.hpp>
#include <stepcast/prediction/hot_loop.hpp>
#include <stepcast/prediction/leaders.hpp>
#include <stepcast/schedule/plan_flaw.hpp>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

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

Breakdown operator*(Breakdown b, double k) {
  for (Seconds* part :
       {&b.compute, &b.exposed_communication, &b.hidden_communication, &b.codec, &b.input_stall, &b.bubble, &b.idle})
    *part *= k;
  return b;
}
void add(Breakdown& sum, const Breakdown& b) {
  sum.compute += b.compute, sum.exposed_communication += b.exposed_communication;
  sum.hidden_communication += b.hidden_communication, sum.codec += b.codec, sum.input_stall += b.input_stall;
  sum.bubble += b.bubble, sum.idle += b.idle;
}

// The mean over the workers of what each does in a step of the job, which is several steps of a fast one: `out` is the
// prediction of the kind that most workers are of.
void tell_of_all(const std::vector<std::pair<double, Prediction>>& kinds, Seconds step, Prediction& out) {
  double workers = 0;
  for (const auto& [count, worker] : kinds) workers += count;
  out.breakdown = {};
  for (const auto& [count, worker] : kinds)
    add(out.breakdown, worker.breakdown * (count / workers * (step / worker.iteration)));
  const double scale = step / out.iteration;
  out.interval_low *= scale, out.interval_high *= scale, out.error_of_links *= scale;
  out.throughput_samples_per_s /= scale;
  out.iteration = step;
}

// Workers that do not wait for one another, or not at once (own_pace.hpp).
Answer<Prediction> predicted_at_own_pace(const Profile& profile, const Cluster& cluster, const AskedPlan& asked,
                                         Seconds without) {
  HotLoop loop;
  const auto together = [&]() -> Answer<Seconds> {
    const Slowness worst = slowest(cluster.stragglers);
    if (cluster.stragglers.jitter.distribution != Jitter::Distribution::none) {
      const Answer<StepDistribution> steps = steps_of(profile, cluster, asked, worst);
      if (!steps) return Inapplicable{steps.reason()};
      return steps->mean;
    }
    const Answer<CommunicationCost> cost = communication_cost(cluster, collective_of(asked.spec));
    if (!cost) return Inapplicable{cost.reason()};
    const auto worker = std::make_shared<const PreparedProfile>(slowed(profile, worst.factor, worst.delay));
    return loop.iteration(worker, cluster, *cost, asked.spec);
  };
  const Answer<JobPace> pace = loop.pace(profile, cluster, asked.spec, together);
  if (!pace) return Inapplicable{pace.reason()};
  std::vector<std::pair<double, Prediction>> kinds;
  std::size_t most = 0;
  for (const WorkerKind& kind : pace->kinds) {
    Answer<Prediction> worker = predicted_alike(slowed(profile, kind.typical_factor, kind.fault.delay),
                                                cluster_of_kind(cluster, kind.fault), asked);
    if (!worker) return worker;
    kinds.emplace_back(kind.workers, std::move(*worker));
    if (kind.workers > kinds[most].first) most = kinds.size() - 1;
  }
  Prediction out = kinds[most].second;
  const bool held = std::isfinite(lead_of(asked.spec));
  if (held) {
    // Whoever is ahead waits, so that the steps of all are as long in the end: what is left of them is a wait.
    for (auto& [count, worker] : kinds) {
      worker.breakdown.idle += std::max(Seconds(0), pace->step - worker.iteration);
      worker.iteration = std::max(worker.iteration, pace->step);
    }
  }
  tell_of_all(kinds, pace->step, out);
  out.stragglers = StragglerEffect{text_of(cluster.stragglers), without, pace->step, pace->step};
  out.step_p50 = out.iteration;
  out.step_p99 = out.iteration + normal_p99 * out.step_spread;
  return out;
}

Answer<Prediction> predicted_among_all(const Profile& profile, const Cluster& cluster, const AskedPlan& asked) {
  const Stragglers& stragglers = cluster.stragglers;
  if (stragglers.none()) return predicted_alike(profile, cluster, asked);
  Cluster healthy = cluster;
  healthy.stragglers = {};
  const Answer<Prediction> without = predicted_alike(profile, healthy, asked);
  if (!without) return without;
  if (lead_of(asked.spec) > 0) return predicted_at_own_pace(profile, cluster, asked, without->iteration);

  const Slowness worst = slowest(stragglers);
  const bool jitter = stragglers.jitter.distribution != Jitter::Distribution::none;
  StepDistribution steps;
  if (jitter) {
    const Answer<StepDistribution> found = steps_of(profile, cluster, asked, worst);
    if (!found) return Inapplicable{found.reason()};
    steps = *found;
  }
  const double factor = jitter ? steps.typical_factor : worst.factor;
  const auto worker = std::make_shared<const PreparedProfile>(slowed(profile, factor, worst.delay));
  const std::optional<Cluster> helped =
      with_help_of_leaders(std::make_shared<const PreparedProfile>(profile), worker, cluster, asked.spec, asked.given);
  Answer<Prediction> out = predicted_alike(worker->profile, helped.value_or(cluster), asked, steps.equally_likely);
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

Answer<DetailedTimeline> detailed_timeline_of(const Profile& traced, const Cluster& given, const AskedPlan& asked,
                                              std::uint32_t iterations) {
  const auto worker = std::make_shared<const PreparedProfile>(slowest_worker(traced, given));
  const Profile& profile = worker->profile;
  const Cluster cluster =
      with_help_of_leaders(std::make_shared<const PreparedProfile>(traced), worker, given, asked.spec, asked.given)
          .value_or(given);
  const Answer<CommunicationCost> cost = communication_cost(cluster, collective_of(asked.spec));
  if (!cost) return Inapplicable{cost.reason()};
  return scheduled_alike(profile, cluster, *cost, asked, 0.5, false, {.least_iterations = std::max(1u, iterations)});
}

}  // namespace

ComputeInterval compute_interval(double relative_error, RatesOf rates) {
  if (rates == RatesOf::steps) return {normal_p90 * relative_error, normal_p90 * relative_error};
  const bool products = rates == RatesOf::products;
  const double bias = products ? unmeasured_bias : data_sheet_bias;
  const double spread = products ? unmeasured_spread : data_sheet_spread;
  return {1 - std::exp(bias - normal_p90 * spread), std::exp(bias + normal_p90 * spread) - 1};
}

std::string unmeasured_text(std::string_view device, RatesOf rates) {
  const ComputeInterval sides = compute_interval(0, rates);
  const std::string name(device.empty() ? "the device" : device);
  const std::string range =
      "from " + whole_percent(sides.below) + " less to " + whole_percent(sides.above) + " more than predicted; ";
  return (rates == RatesOf::products ? "the rates of " + name +
                                           " were set without a measured step; of steps that others measured on such "
                                           "devices four of five took " +
                                           range
                                     : "no measured step or product of this type stands behind the rates of " + name +
                                           ": a step may take " + range) +
         "one of yours corrects it: --measured 'PLAN=STEP'";
}

Answer<Prediction> predicted(const Profile& traced, const Cluster& cluster, const PlanSpec& asked) {
  const Profile profile = updating_all(traced);
  return predicted_among_all(profile, cluster, {with_automatic_options_tuned(profile, cluster, asked)});
}

Answer<Prediction> predicted(const Profile& profile, const Cluster& cluster, const CommPlan& plan,
                             std::string_view name, std::string_view collective) {
  if (std::string flaw = flaw_of(plan, profile); !flaw.empty()) return Inapplicable{std::move(flaw)};
  return predicted_among_all(profile, cluster, {spec_named(name, collective), &plan});
}

Answer<DetailedTimeline> detailed_timeline(const Profile& traced, const Cluster& cluster, const PlanSpec& asked,
                                           std::uint32_t iterations) {
  const Profile profile = updating_all(traced);
  return detailed_timeline_of(profile, cluster, {with_automatic_options_tuned(profile, cluster, asked)}, iterations);
}

Answer<DetailedTimeline> detailed_timeline(const Profile& traced, const Cluster& cluster, const CommPlan& plan,
                                           std::string_view collective, std::uint32_t iterations) {
  if (std::string flaw = flaw_of(plan, traced); !flaw.empty()) return Inapplicable{std::move(flaw)};
  return detailed_timeline_of(traced, cluster, {spec_named({}, collective), &plan}, iterations);
}

}  // namespace stepcast
