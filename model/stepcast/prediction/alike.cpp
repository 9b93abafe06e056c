// One phase of a plan after the other is scheduled and accounted for; intervals, warnings and bound follow.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/carried.hpp>
#include <stepcast/cluster/stragglers.hpp>
#include <stepcast/pace/stalls.hpp>
#include <stepcast/prediction/alike.hpp>
#include <stepcast/prediction/breakdown.hpp>
#include <stepcast/prediction/critical_path.hpp>
#include <stepcast/prediction/tuning.hpp>
#include <stepcast/profile/training_memory.hpp>
#include <stepcast/schedule/lowering.hpp>
#include <stepcast/schedule/plan_flaw.hpp>
#include <stepcast/schedule/task_name.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace stepcast {
namespace {

// The plan, if it can be run and counted.
Answer<CommPlan> applicable_plan(const AskedPlan& asked, const Profile& profile, const Cluster& cluster,
                                 const CommunicationCost& cost, double phase) {
  Answer<CommPlan> plan = asked.given ? *asked.given : comm_plan_of(asked.spec, profile, cluster, cost, phase);
  if (!plan) return plan;
  if (cluster.workers() == 1) plan->packing = Packing::none;  // of one that was given, too
  std::string obstacle = obstacle_to(*plan, {compute_in_a_row(profile), profile.communication.message}, cluster, cost);
  if (!obstacle.empty()) return Inapplicable{std::move(obstacle)};
  return plan;
}

// Relative standard deviation of the measured steps, from the quartiles (robust against one disturbed step).
double relative_step_noise(const Profile& profile) {
  std::vector<double> times;
  for (const Seconds s : profile.step_times) times.push_back(s.value());
  if (times.size() < 2) return 0;
  const double middle = median(times);
  return middle > 0 ? (quantile(times, 0.75) - quantile(times, 0.25)) / 1.349 / middle : 0;
}

// The step with every transfer as much slower (or faster) as its size may be.
Seconds iteration_on_links(DetailedTimeline outcome, const Cluster& cluster, const CommunicationCost& cost, bool slower,
                           const ScheduleOptions& options) {
  for (Task& task : outcome.graph.tasks) {
    if (task.kind != TaskKind::transfer) continue;
    const Transfer& t = outcome.plan.transfers[task.index];
    const double spread = spread_of(cluster, t.operation, t.size);
    task.work += picoseconds_of(cost(t.operation, t.size) * ((slower ? spread : 1 / spread) - 1));
  }
  schedule(outcome.graph, outcome.timeline, options);
  return outcome.timeline.iteration_time() / outcome.plan.period;
}

// What links that are known to more than a tenth leave open is seen by the slope of the step: by the transfers on its
// path. Others make another step, in which other transfers are exposed: that is scheduled.
LinksMargin margin_of_links(const Cluster& cluster, const CommunicationCost& cost, const DetailedTimeline& outcome,
                            double on_path, Seconds iteration, const ScheduleOptions& options) {
  constexpr double well_known = 0.1;
  if (relative_error_of(cluster) < well_known || cluster.workers() == 1) return margin_of_links(cluster, on_path);
  const Seconds now = outcome.timeline.iteration_time() / outcome.plan.period;
  const double scale = iteration / now;
  const auto change = [&](bool slower) {
    return scale * (iteration_on_links(outcome, cluster, cost, slower, options) - now).value();
  };
  return {std::max(0.0, -change(false)), std::max(0.0, change(true))};
}

// How far the mean may lie below and above, and what the links have in it: the measured steps are a sample of the
// compute time, the link's fit has a residual, and so has the model of several workers itself.
struct Uncertainty {
  Seconds below, above, of_links;
};
Uncertainty uncertainty_of(const Profile& profile, const Cluster& cluster, const CommunicationCost& cost,
                           const DetailedTimeline& outcome, const CriticalPath& path, Seconds iteration,
                           const ScheduleOptions& options) {
  const double noise = relative_step_noise(profile);
  const double steps = std::max<double>(1, static_cast<double>(profile.step_times.size()));
  // The path covers whole repetitions of the plan.
  const double per_second = iteration / seconds_of(std::max<Picoseconds>(1, length(path.window)));
  const Seconds computing = path.compute + path.codec + path.host + path.input;
  const double of_compute = noise / std::sqrt(steps) * per_second * computing.value();
  const double on_path = per_second * (path.transfer + path.start_up).value();
  const double of_model = cluster.workers() > 1 ? residual_of_model * iteration.value() : 0;
  const LinksMargin links = margin_of_links(cluster, cost, outcome, on_path, iteration, options);
  const auto half = [&](double of_links) {
    return Seconds(std::hypot(normal_p90 * of_compute, of_links, normal_p90 * of_model));
  };
  return {half(links.below), half(links.above), Seconds(relative_error_of(cluster) * on_path)};
}

/// Described, on a device of which no step was measured.
RatesOf rates_of(const Profile& profile) {
  return profile.described && profile.device_error == 0 ? profile.rates : RatesOf::steps;
}

void add_warnings(const Profile& profile, const Cluster& cluster, Prediction& prediction) {
  if (const RatesOf rates = rates_of(profile); rates != RatesOf::steps)
    prediction.warnings.push_back(unmeasured_text(profile.device, rates));
  if (!profile.described && profile.step_times.size() < 2)
    prediction.warnings.push_back("fewer than two measured steps: the interval does not include their noise");
  if (relative_error_of(cluster) == 0 && cluster.workers() > 1)
    prediction.warnings.push_back("cluster '" + cluster.name +
                                  "' has no fitted error: the interval does not include that of its links");
  if (std::string missing = missing_log_text(cluster); !missing.empty())
    prediction.warnings.push_back(std::move(missing));
  add_memory(profile, cluster, prediction);
  const Strategy& strategy = *prediction.plan.strategy;
  if (!strategy.caution.empty())
    prediction.warnings.push_back(std::string(strategy.name) + ": " + std::string(strategy.caution));
  for (const ModifierSpec& m : prediction.plan.modifiers)
    if (!m.modifier->caution.empty())
      prediction.warnings.push_back(std::string(m.modifier->name) + ": " + std::string(m.modifier->caution));
  if (!prediction.steady)
    prediction.warnings.push_back("no steady state was reached: the mean over the iterations that were run");
}

// Evenly spaced quantiles of the standard normal distribution.
const std::vector<double>& normal_quantiles() {
  static const std::vector<double> quantiles = [] {
    constexpr int samples = 200;
    std::vector<double> all;
    for (int i = 0; i < samples; ++i) {
      double low = -10, high = 10;
      for (int k = 0; k < 60; ++k) {
        const double middle = 0.5 * (low + high);
        (0.5 * std::erfc(-middle / std::numbers::sqrt2) < (i + 0.5) / samples ? low : high) = middle;
      }
      all.push_back(high);
    }
    return all;
  }();
  return quantiles;
}

// The steps that half and 99 of 100 do not exceed. The mean step and `steps` contain the mean lateness, which one of
// the `period` steps of a repetition has.
void add_tail(const StepLateness& lateness, double period, std::span<const Seconds> steps, Prediction& out) {
  if (lateness.never() && steps.empty()) {
    out.step_p50 = out.iteration;
    out.step_p99 = out.iteration + normal_p99 * out.step_spread;
    return;
  }
  std::vector<double> base;
  const double late = lateness.mean().value() / period;
  for (const Seconds step : steps) base.push_back(step.value() - late);
  if (steps.empty())
    for (const double z : normal_quantiles())
      base.push_back(out.iteration.value() - late + out.step_spread.value() * z);
  const auto exceeded_by = [&](double step) {
    double sum = 0;
    for (const double b : base) sum += step < b ? 1 : (1 - lateness.probability_up_to(Seconds(step - b))) / period;
    return sum / static_cast<double>(base.size());
  };
  const auto step_at = [&](double p) {
    if (lateness.never()) return Seconds(quantile(base, p));
    double low = base.front(), high = base.back() + lateness.quantile(1 - 1e-9).value();
    for (int i = 0; i < 60 && high - low > 1e-9 * high; ++i) {
      const double middle = 0.5 * (low + high);
      (exceeded_by(middle) > 1 - p ? low : high) = middle;
    }
    return Seconds(high);
  };
  out.step_p50 = std::max(Seconds(0), step_at(0.5));
  out.step_p99 = std::max(out.step_p50, step_at(0.99));
}

/// What layers of a described model take on the device beyond their kernels is the host's, which is late for them: of
/// the path, all of such a layer.
void name_pace_of_host(const Profile& profile, CriticalPath& path) {
  if (!profile.described || !profile.has_device()) return;
  constexpr double rounding = 1 + 1e-9;
  Seconds all, paced;
  for (const Layer& layer : profile.layers)
    for (const PassCost& pass : {layer.forward, layer.backward}) {
      all += pass.device;
      if (pass.device > pass.part.sum() * rounding) paced += pass.device;
    }
  const Seconds by_host = all > Seconds(0) ? path.compute * (paced / all) : Seconds(0);
  path.compute -= by_host;
  path.host += by_host;
}

void name_critical_path(const Profile& profile, const DetailedTimeline& outcome, const CriticalPath& path,
                        Prediction& out) {
  for (const std::uint32_t t : path.tasks) {
    std::string name = task_name(profile, outcome.plan, outcome.graph, t);
    // The host issues a block in two pieces (lower.hpp).
    const bool again =
        outcome.graph.tasks[t].kind == TaskKind::host && !out.critical_path.empty() && out.critical_path.back() == name;
    if (!again) out.critical_path.push_back(std::move(name));
  }
}

// Every task of one repetition in a row, as slow as contention can make it: no schedule of it takes longer.
Seconds longest_repetition(const CommPlan& plan, const WorkInARow& work, const Cluster& cluster,
                           const CommunicationCost& cost) {
  Seconds sum =
      work.compute * static_cast<double>(plan.period) + work.message * static_cast<double>(plan.transfers.size());
  for (const Codec& c : plan.codecs) sum += c.time;
  sum = sum * cluster.contention.compute_under_communication;
  for (const Transfer& t : plan.transfers) {
    const bool timer = plan.channels[t.channel].discipline == Discipline::parallel;
    sum += timer ? t.delay : (cost(t.operation, t.size) + t.overhead) * cost.slow_down(t.operation, t.size);
  }
  return sum;
}

// Transfers of a repetition that cross a link: no timers, no sums on servers; what the card of a server takes in is the
// same message that the card of a worker gives.
std::size_t messages_on_links(const CommPlan& plan) {
  return static_cast<std::size_t>(std::count_if(plan.transfers.begin(), plan.transfers.end(), [&](const Transfer& t) {
    return plan.channels[t.channel].discipline != Discipline::parallel && t.operation != Operation::server_sum &&
           t.operation != Operation::server_card;
  }));
}

// A record of a strategy that has only a name.
struct NamedPlan {
  std::string name;
  Strategy strategy;
  explicit NamedPlan(std::string_view called) : name(called) {
    strategy.name = strategy.title = name;
    strategy.plan = [](const StrategyInput&) -> Answer<CommPlan> {
      return Inapplicable{"it is no strategy, but one plan"};
    };
    strategy.settings = nullptr;
  }
  NamedPlan(const NamedPlan&) = delete;
};

}  // namespace

PlanSpec spec_named(std::string_view name, std::string_view collective) {
  const auto named = std::make_shared<const NamedPlan>(name);
  PlanSpec spec;
  spec.own = std::shared_ptr<const Strategy>(named, &named->strategy);
  spec.strategy = spec.own.get();
  spec.collective = collective;
  return spec;
}

std::string obstacle_to(const CommPlan& plan, const WorkInARow& work, const Cluster& cluster,
                        const CommunicationCost& cost) {
  for (const Transfer& t : plan.transfers)
    if (plan.channels[t.channel].discipline != Discipline::parallel && !cost.defines(t.operation))
      return "the collective '" + std::string(cost.algorithm()) + "' does not define " +
             std::string(name_of(t.operation));
  // The scheduler counts picoseconds in 64 bits, which hold 64 repetitions of this length.
  constexpr Seconds longest(1e5);
  const Seconds repetition = longest_repetition(plan, work, cluster, cost);
  if (repetition <= longest) return {};
  return "a step of it could take more than a day" +
         (std::isfinite(repetition.value()) ? " (" + text_of(repetition) + ")" : "");
}

Answer<DetailedTimeline> scheduled_alike(const Profile& profile, const Cluster& cluster, const CommunicationCost& cost,
                                         const AskedPlan& asked, double phase, bool merge,
                                         const ScheduleOptions& options) {
  Answer<CommPlan> plan = applicable_plan(asked, profile, cluster, cost, phase);
  if (!plan) return Inapplicable{plan.reason()};
  DetailedTimeline outcome{{}, {}, std::move(*plan)};
  outcome.graph = lowered(profile, outcome.plan, cost, cluster.contention, {.merge = merge});
  schedule(outcome.graph, outcome.timeline, options);
  return outcome;
}

PlanSpec with_automatic_options_tuned(const Profile& profile, const Cluster& cluster, const PlanSpec& asked) {
  const bool automatic =
      std::any_of(asked.options.begin(), asked.options.end(), [](double v) { return std::isnan(v); });
  return automatic ? tuned(profile, cluster, asked) : asked;
}

Answer<Prediction> predicted_alike(const Profile& profile, const Cluster& cluster, const AskedPlan& asked,
                                   std::span<const Seconds> steps) {
  const PlanSpec& spec = asked.spec;
  const Answer<CommunicationCost> cost = communication_cost(cluster, collective_of(spec));
  if (!cost) return Inapplicable{cost.reason()};
  Prediction out;
  out.plan = spec;
  const std::uint32_t phases = spec.strategy->phases;
  Breakdown& parts = out.breakdown;
  const std::uint32_t iterations = cost->transport().stalls > 0 ? iterations_of_slack : iterations_walked;
  Uncertainty error;
  StepLateness lateness;
  double repeats = 1;
  for (std::uint32_t k = 0; k < phases; ++k) {
    const ScheduleOptions options{.least_iterations = iterations};
    const Answer<DetailedTimeline> outcome =
        scheduled_alike(profile, cluster, *cost, asked, phase_of(k, phases), true, options);
    if (!outcome) return Inapplicable{outcome.reason()};
    const Timeline& timeline = outcome->timeline;
    const Interval window = steady_window(outcome->graph, timeline);
    const Account account = account_of(outcome->graph, timeline, window);
    // Of an unsteady schedule one window is taken for all.
    const Seconds iteration = timeline.iteration_time() / outcome->plan.period;
    lateness = lateness_of(outcome->graph, timeline, outcome->plan, *cost);
    repeats = outcome->plan.period;
    const Seconds late = lateness.mean() / repeats;
    const double share = iteration / seconds_of(std::max<Picoseconds>(1, length(window))) / phases;
    const auto part = [&](Picoseconds ps) { return seconds_of(ps) * share; };
    parts.compute += part(account.compute);
    parts.exposed_communication += part(account.exposed) + late / phases;
    parts.hidden_communication += part(account.hidden);
    parts.codec += part(account.codec);
    parts.input_stall += part(account.input);
    parts.idle += part(account.idle);
    out.iteration += (iteration + late) / phases;
    out.steady = out.steady && timeline.steady;
    if (k != phases / 2) continue;
    CriticalPath path = critical_path_of(outcome->graph, timeline, outcome->plan, *cost);
    name_pace_of_host(profile, path);
    out.bound = bound_of(path, lateness.mean() * (seconds_of(length(path.window)) / timeline.iteration_time()));
    name_critical_path(profile, *outcome, path, out);
    out.messages = (messages_on_links(outcome->plan) + outcome->plan.period - 1) / outcome->plan.period;
    error = uncertainty_of(profile, cluster, *cost, *outcome, path, iteration, options);
  }
  const Seconds computing = out.iteration - parts.exposed_communication;
  const ComputeInterval of_device = compute_interval(profile.device_error, rates_of(profile));
  const auto half = [&](Seconds of_step, double side) {
    return Seconds(std::hypot(of_step.value(), side * computing.value()));
  };
  out.interval_low = std::max(Seconds(0), out.iteration - half(error.below, of_device.below));
  out.interval_high = out.iteration + half(error.above, of_device.above);
  out.error_of_links = error.of_links;
  out.step_spread = relative_step_noise(profile) * lone_step_time(profile);
  add_tail(lateness, repeats, steps, out);
  if (profile.batch_samples > 0)
    out.throughput_samples_per_s =
        profile.batch_samples * static_cast<double>(cluster.workers()) / out.iteration.value();
  add_warnings(profile, cluster, out);
  return out;
}

void add_memory(const Profile& profile, const Cluster& cluster, Prediction& prediction) {
  prediction.memory = memory_of_worker(profile, cluster.workers() > 1).total();
  if (cluster.device_memory > Bytes(0) && prediction.memory > cluster.device_memory)
    prediction.warnings.push_back("a worker needs " + text_of(prediction.memory) + " of memory, and its device has " +
                                  text_of(cluster.device_memory));
  if (!knows_activations(profile)) prediction.warnings.emplace_back(activations_not_counted);
}

}  // namespace stepcast
