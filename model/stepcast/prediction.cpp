#include <stepcast/prediction.hpp>
#include <stepcast/recommend.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast {
namespace {

struct Interval {
  Picoseconds from, to;
};

Picoseconds length(const Interval& i) { return i.to - i.from; }

// The times within `window` in which a task of class `kind` runs, merged and sorted.
std::vector<Interval> busy_times(const TaskGraph& graph, const Timeline& timeline, ResourceClass kind,
                                 Interval window) {
  std::vector<Interval> raw;
  for (std::size_t i = 0; i < std::size_t{timeline.iterations} * timeline.tasks; ++i) {
    const Task& task = graph.tasks[i % timeline.tasks];
    if (graph.resources[task.resource].kind != kind) continue;
    const Interval clipped{std::max(window.from, timeline.start[i]), std::min(window.to, timeline.end[i])};
    if (clipped.from < clipped.to) raw.push_back(clipped);
  }
  std::sort(raw.begin(), raw.end(), [](const Interval& a, const Interval& b) { return a.from < b.from; });
  std::vector<Interval> merged;
  for (const Interval& i : raw)
    if (merged.empty() || i.from > merged.back().to) merged.push_back(i);
    else merged.back().to = std::max(merged.back().to, i.to);
  return merged;
}

Picoseconds overlap(const std::vector<Interval>& times, Interval with) {
  Picoseconds sum = 0;
  auto it = std::lower_bound(times.begin(), times.end(), with.from,
                             [](const Interval& i, Picoseconds from) { return i.to <= from; });
  for (; it != times.end() && it->from < with.to; ++it)
    sum += std::min(it->to, with.to) - std::max(it->from, with.from);
  return sum;
}

// The steady state that a schedule ends with: from one marker to the next one of the same phase.
Interval steady_window(const TaskGraph& graph, const Timeline& timeline) {
  const auto marker_end = [&](std::uint32_t i) { return timeline.end[std::size_t{i} * timeline.tasks + graph.marker]; };
  const std::uint32_t last = timeline.iterations - 1;
  const std::uint32_t k = timeline.period_iterations;
  return {last >= k ? marker_end(last - k) : 0, marker_end(last)};
}

// Sums in picoseconds over one steady window.
struct Account {
  Picoseconds compute = 0, exposed = 0, hidden = 0, codec = 0, input = 0, idle = 0;
};

// A gap on the compute stream: whose fault is it?
void account_for_gap(const TaskGraph& graph, const Timeline& timeline, Interval gap, std::uint32_t cause,
                     const std::vector<Interval>& communication, Account& account) {
  const Picoseconds communicating = overlap(communication, gap);
  const bool host = cause != Timeline::no_instance &&
                    graph.resources[graph.tasks[cause % timeline.tasks].resource].kind == ResourceClass::host;
  if (host) {
    account.compute += length(gap);  // the device waits for the host to issue
  } else {
    account.exposed += communicating;
    account.idle += length(gap) - communicating;
  }
}

Account account_of(const TaskGraph& graph, const Timeline& timeline, Interval window) {
  const std::vector<Interval> communication = busy_times(graph, timeline, ResourceClass::communication, window);
  std::vector<std::uint32_t> instances;
  for (std::size_t i = 0; i < timeline.end.size(); ++i) {
    const Task& task = graph.tasks[i % timeline.tasks];
    if (i >= std::size_t{timeline.iterations} * timeline.tasks) break;
    if (graph.resources[task.resource].kind == ResourceClass::compute && timeline.end[i] > window.from &&
        timeline.start[i] < window.to && timeline.end[i] > timeline.start[i])
      instances.push_back(static_cast<std::uint32_t>(i));
  }
  std::sort(instances.begin(), instances.end(),
            [&](std::uint32_t a, std::uint32_t b) { return timeline.start[a] < timeline.start[b]; });
  Account account;
  Picoseconds at = window.from;
  for (const std::uint32_t i : instances) {
    const Interval run{std::max(at, timeline.start[i]), std::min(window.to, timeline.end[i])};
    if (run.from > at) account_for_gap(graph, timeline, {at, run.from}, timeline.cause[i], communication, account);
    if (run.to <= run.from) continue;
    const TaskKind kind = graph.tasks[i % timeline.tasks].kind;
    (kind == TaskKind::input   ? account.input
     : kind == TaskKind::codec ? account.codec
                               : account.compute) += length(run);
    at = run.to;
  }
  if (at < window.to) account_for_gap(graph, timeline, {at, window.to}, Timeline::no_instance, communication, account);
  for (const Interval& i : communication) account.hidden += length(i);
  account.hidden -= account.exposed;
  return account;
}

// What one period of the critical path is made of, walking back along what each task waited for last.
struct CriticalPath {
  std::vector<std::uint32_t> tasks;  ///< first to last
  Seconds compute, host, start_up, transfer, timer;
};

CriticalPath critical_path_of(const TaskGraph& graph, const Timeline& timeline, const CommPlan& plan,
                              const CommunicationCost& cost) {
  CriticalPath path;
  const Interval window = steady_window(graph, timeline);
  std::uint32_t i = (timeline.iterations - 1) * timeline.tasks + graph.marker;
  while (i != Timeline::no_instance && timeline.end[i] > window.from) {
    const std::uint32_t t = i % timeline.tasks;
    const Task& task = graph.tasks[t];
    const Seconds time = seconds_of(timeline.end[i] - std::max(window.from, timeline.start[i]));
    if (time > Seconds(0)) path.tasks.push_back(t);
    switch (graph.resources[task.resource].kind) {
      case ResourceClass::compute:
        path.compute += time;
        break;
      case ResourceClass::host:
        path.host += time;
        break;
      case ResourceClass::timer:
        path.timer += time;
        break;
      case ResourceClass::communication: {
        const Transfer& transfer = plan.transfers[task.index];
        const Seconds start_up = std::min(time, cost.line(transfer.operation).start_up + transfer.overhead);
        path.start_up += start_up;
        path.transfer += time - start_up;
      }
    }
    i = timeline.cause[i];
  }
  std::reverse(path.tasks.begin(), path.tasks.end());
  return path;
}

std::string bound_of(const CriticalPath& path, Seconds iteration) {
  struct Share {
    const char* name;
    Seconds time;
  };
  const Share shares[] = {{"communication bandwidth", path.transfer},
                          {"start-up of messages", path.start_up},
                          {"waiting for a timer", path.timer},
                          {"host issue of kernels", path.host}};
  const Share* largest = std::max_element(std::begin(shares), std::end(shares),
                                          [](const Share& a, const Share& b) { return a.time < b.time; });
  const auto percent = [&](Seconds s) { return std::to_string(std::lround(100 * (s / iteration))) + " %"; };
  // Compute can only be hidden behind, never hidden: the first of the others that is visible is what can be improved.
  if (largest->time < 0.01 * iteration) return "compute";
  return std::string(largest->name) + " (" + percent(largest->time) + " of the critical path; compute " +
         percent(path.compute) + ")";
}

// One plan at one timer phase, scheduled.
struct Outcome {
  CommPlan plan;
  TaskGraph graph;
  Timeline timeline;
};

Answer<Outcome> outcome_of(const Profile& profile, const Cluster& cluster, const CommunicationCost& cost,
                           const PlanSpec& spec, double phase, bool merge, const ScheduleOptions& options) {
  Answer<CommPlan> plan = spec.strategy->plan({profile, cluster, cost, spec.options, phase});
  if (!plan) return Inapplicable{plan.reason()};
  for (const Transfer& t : plan->transfers)
    if (plan->channels[t.channel].discipline != Discipline::parallel && !cost.defines(t.operation))
      return Inapplicable{"the collective '" + std::string(cost.algorithm()) + "' does not define " +
                          std::string(name_of(t.operation))};
  Outcome outcome{std::move(*plan), {}, {}};
  outcome.graph = lowered(profile, outcome.plan, cost, cluster.contention, {.merge = merge});
  schedule(outcome.graph, outcome.timeline, options);
  return outcome;
}

double phase_of(std::uint32_t k, std::uint32_t phases) { return (k + 0.5) / phases; }

// Relative standard deviation of the measured steps, from the quartiles (robust against one disturbed step).
double relative_step_noise(const Profile& profile) {
  std::vector<double> times;
  for (const Seconds s : profile.step_times) times.push_back(s.value());
  if (times.size() < 2) return 0;
  std::sort(times.begin(), times.end());
  const auto quantile = [&](double q) {
    const double at = q * static_cast<double>(times.size() - 1);
    const auto i = static_cast<std::size_t>(at);
    return i + 1 < times.size() ? times[i] + (at - static_cast<double>(i)) * (times[i + 1] - times[i]) : times[i];
  };
  const double median = quantile(0.5);
  return median > 0 ? (quantile(0.75) - quantile(0.25)) / 1.349 / median : 0;
}

// The interval of the mean: the measured steps are a sample of the compute time, and the link's fit has a residual.
void add_uncertainty(const Profile& profile, const Cluster& cluster, const CriticalPath& path, Prediction& prediction) {
  constexpr double p90 = 1.2815515655446004;  // quantile of the normal distribution
  const double noise = relative_step_noise(profile);
  const double steps = std::max<double>(1, static_cast<double>(profile.step_times.size()));
  const double of_compute = noise / std::sqrt(steps) * (path.compute + path.host).value();
  const double of_links = cluster.relative_error * (path.transfer + path.start_up).value();
  const Seconds half(p90 * std::hypot(of_compute, of_links));
  prediction.interval_low = std::max(Seconds(0), prediction.iteration - half);
  prediction.interval_high = prediction.iteration + half;
  prediction.step_spread = noise * lone_step_time(profile);
  if (profile.step_times.size() < 2)
    prediction.warnings.push_back("fewer than two measured steps: the interval does not include their noise");
  if (cluster.relative_error == 0 && cluster.workers() > 1)
    prediction.warnings.push_back("cluster '" + cluster.name +
                                  "' has no fitted error: the interval does not include that of its links");
}

PlanSpec with_automatic_options_tuned(const Profile& profile, const Cluster& cluster, const PlanSpec& asked) {
  const bool automatic =
      std::any_of(asked.options.begin(), asked.options.end(), [](double v) { return std::isnan(v); });
  return automatic ? tuned(profile, cluster, asked) : asked;
}

void name_critical_path(const Profile& profile, const Outcome& outcome, const CriticalPath& path, Prediction& out) {
  for (const std::uint32_t t : path.tasks)
    out.critical_path.push_back(task_name(profile, outcome.plan, outcome.graph, t));
}

}  // namespace

Answer<Seconds> predicted_iteration(const Profile& profile, const Cluster& cluster, const CommunicationCost& cost,
                                    const PlanSpec& spec, Timeline& timeline) {
  Seconds sum;
  for (std::uint32_t k = 0; k < spec.strategy->phases; ++k) {
    const Answer<CommPlan> plan =
        spec.strategy->plan({profile, cluster, cost, spec.options, phase_of(k, spec.strategy->phases)});
    if (!plan) return Inapplicable{plan.reason()};
    for (const Transfer& t : plan->transfers)
      if (plan->channels[t.channel].discipline != Discipline::parallel && !cost.defines(t.operation))
        return Inapplicable{"the collective does not define " + std::string(name_of(t.operation))};
    schedule(lowered(profile, *plan, cost, cluster.contention), timeline);
    sum += timeline.iteration_time();
  }
  return sum / spec.strategy->phases;
}

Answer<Prediction> predicted(const Profile& profile, const Cluster& cluster, const PlanSpec& asked) {
  const PlanSpec spec = with_automatic_options_tuned(profile, cluster, asked);
  const Answer<CommunicationCost> cost = communication_cost(cluster, spec.collective);
  if (!cost) return Inapplicable{cost.reason()};
  Prediction out;
  out.plan = spec;
  const std::uint32_t phases = spec.strategy->phases;
  Breakdown& parts = out.breakdown;
  for (std::uint32_t k = 0; k < phases; ++k) {
    const Answer<Outcome> outcome = outcome_of(profile, cluster, *cost, spec, phase_of(k, phases), true, {});
    if (!outcome) return Inapplicable{outcome.reason()};
    const Timeline& timeline = outcome->timeline;
    const Account account = account_of(outcome->graph, timeline, steady_window(outcome->graph, timeline));
    const double share = 1.0 / (phases * timeline.period_iterations);
    const auto part = [&](Picoseconds ps) { return seconds_of(ps) * share; };
    parts.compute += part(account.compute);
    parts.exposed_communication += part(account.exposed);
    parts.hidden_communication += part(account.hidden);
    parts.codec += part(account.codec);
    parts.input_stall += part(account.input);
    parts.idle += part(account.idle);
    out.iteration += timeline.iteration_time() / phases;
    out.steady = out.steady && timeline.steady;
    if (k != phases / 2) continue;
    const CriticalPath path = critical_path_of(outcome->graph, timeline, outcome->plan, *cost);
    out.bound = bound_of(path, seconds_of(length(steady_window(outcome->graph, timeline))));
    name_critical_path(profile, *outcome, path, out);
    out.messages = static_cast<std::size_t>(std::count_if(outcome->graph.tasks.begin(), outcome->graph.tasks.end(),
                                                          [](const Task& t) { return t.kind == TaskKind::transfer; }));
    add_uncertainty(profile, cluster, path, out);
  }
  const Seconds half = (out.interval_high - out.interval_low) / 2;
  out.interval_low = std::max(Seconds(0), out.iteration - half);
  out.interval_high = out.iteration + half;
  if (!spec.strategy->caution.empty())
    out.warnings.push_back(std::string(spec.strategy->name) + ": " + std::string(spec.strategy->caution));
  if (!out.steady) out.warnings.push_back("no steady state was reached: the mean over the iterations that were run");
  if (profile.batch_samples > 0)
    out.throughput_samples_per_s =
        profile.batch_samples * static_cast<double>(cluster.workers()) / out.iteration.value();
  if (profile.activation_memory > Bytes(0)) out.memory = profile.activation_memory + 2 * profile.gradient_size();
  return out;
}

Answer<DetailedTimeline> detailed_timeline(const Profile& profile, const Cluster& cluster, const PlanSpec& asked,
                                           std::uint32_t iterations) {
  const PlanSpec spec = with_automatic_options_tuned(profile, cluster, asked);
  const Answer<CommunicationCost> cost = communication_cost(cluster, spec.collective);
  if (!cost) return Inapplicable{cost.reason()};
  Answer<Outcome> outcome =
      outcome_of(profile, cluster, *cost, spec, 0.5, false, {.least_iterations = std::max(1u, iterations)});
  if (!outcome) return Inapplicable{outcome.reason()};
  return DetailedTimeline{std::move(outcome->graph), std::move(outcome->timeline), std::move(outcome->plan)};
}

std::string task_name(const Profile& profile, const CommPlan& plan, const TaskGraph& graph, std::uint32_t number) {
  const Task& task = graph.tasks[number];
  const auto layer = [&] { return " " + profile.layers[task.index].name; };
  switch (task.kind) {
    case TaskKind::host:
      return "issue" + layer();
    case TaskKind::forward:
      return "forward" + layer();
    case TaskKind::backward:
      return "backward" + layer();
    case TaskKind::update:
      return plan.update == UpdatePlace::after_backward ? "update" : "update" + layer();
    case TaskKind::transfer:
    case TaskKind::codec:
    case TaskKind::timer: {
      const Transfer& t = plan.transfers[task.index];
      std::string name(task.kind == TaskKind::timer ? "timer" : name_of(t.operation));
      if (t.tensors == 0) return name;
      name += " " + profile.tensors[plan.tensor(t.first_tensor)].name;
      if (t.tensors > 1) name += " .. " + profile.tensors[plan.tensor(t.first_tensor + t.tensors - 1)].name;
      return name;
    }
    default:
      return std::string(name_of(task.kind));
  }
}

}  // namespace stepcast
