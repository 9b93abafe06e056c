#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/stragglers.hpp>
#include <stepcast/prediction/alike.hpp>
#include <stepcast/prediction/tuning.hpp>
#include <stepcast/schedule/lowering.hpp>
#include <stepcast/schedule/plan_flaw.hpp>
#include <stepcast/schedule/task_name.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast {
namespace {

struct Interval {
  Picoseconds from, to;
};

Picoseconds length(const Interval& i) { return i.to - i.from; }

ResourceClass class_of(const TaskGraph& graph, const Task& task) { return graph.resources[task.resource].kind; }

// The times within `window` in which a task that is `wanted` runs, merged and sorted.
template <class Wanted>
std::vector<Interval> busy_times(const TaskGraph& graph, const Timeline& timeline, Interval window,
                                 const Wanted& wanted) {
  std::vector<Interval> raw;
  for (std::size_t i = 0; i < std::size_t{timeline.iterations} * timeline.tasks; ++i) {
    if (!wanted(graph.tasks[i % timeline.tasks])) continue;
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

// The period that ends with the marker of `iteration`: from one marker to the next one of the same phase.
Interval period_until(std::uint32_t iteration, const TaskGraph& graph, const Timeline& timeline) {
  const auto marker_end = [&](std::uint32_t i) { return timeline.end[std::size_t{i} * timeline.tasks + graph.marker]; };
  const std::uint32_t k = timeline.period_iterations;
  return {iteration >= k ? marker_end(iteration - k) : 0, marker_end(iteration)};
}
// The steady state that a schedule ends with.
Interval steady_window(const TaskGraph& graph, const Timeline& timeline) {
  return period_until(timeline.iterations - 1, graph, timeline);
}

// Sums in picoseconds over one steady window.
struct Account {
  Picoseconds compute = 0, exposed = 0, hidden = 0, codec = 0, input = 0, idle = 0;
};

// Attributes the time of one window to what the compute stream does or waits for.
class Bookkeeping {
 public:
  Bookkeeping(const TaskGraph& graph, const Timeline& timeline, Interval window)
      : graph_(graph),
        timeline_(timeline),
        window_(window),
        communication_(busy_times(graph, timeline, window,
                                  [&](const Task& t) { return class_of(graph, t) == ResourceClass::communication; })),
        host_(busy_times(graph, timeline, window,
                         [&](const Task& t) { return class_of(graph, t) == ResourceClass::host; })),
        host_or_communication_(busy_times(graph, timeline, window,
                                          [&](const Task& t) {
                                            const ResourceClass kind = class_of(graph, t);
                                            return kind == ResourceClass::host || kind == ResourceClass::communication;
                                          })),
        issuing_(busy_times(graph, timeline, window, [](const Task& t) { return t.kind == TaskKind::host; })),
        issuing_or_input_(busy_times(graph, timeline, window, [&](const Task& t) {
          const bool input = t.kind == TaskKind::input || t.kind == TaskKind::load;
          return t.kind == TaskKind::host || (input && class_of(graph, t) == ResourceClass::host);
        })) {}

  Account result() {
    Picoseconds at = window_.from;
    for (const std::uint32_t i : compute_instances()) {
      const Interval run{std::max(at, timeline_.start[i]), std::min(window_.to, timeline_.end[i])};
      if (run.from > at) add_gap({at, run.from}, timeline_.cause[i]);
      if (run.to <= run.from) continue;
      const TaskKind kind = graph_.tasks[i % timeline_.tasks].kind;
      (kind == TaskKind::input   ? account_.input
       : kind == TaskKind::codec ? account_.codec
                                 : account_.compute) += length(run);
      at = run.to;
    }
    // The window ends with a marker, which may be a point in time that only waits.
    if (at < window_.to) add_gap({at, window_.to}, (timeline_.iterations - 1) * timeline_.tasks + graph_.marker);
    for (const Interval& i : communication_) account_.hidden += length(i);
    account_.hidden -= account_.exposed;
    return account_;
  }

 private:
  // What the compute stream does in the window, by start.
  [[nodiscard]] std::vector<std::uint32_t> compute_instances() const {
    std::vector<std::uint32_t> instances;
    for (std::uint32_t i = 0; i < timeline_.iterations * timeline_.tasks; ++i)
      if (class_of(graph_, graph_.tasks[i % timeline_.tasks]) == ResourceClass::compute &&
          timeline_.end[i] > window_.from && timeline_.start[i] < window_.to && timeline_.end[i] > timeline_.start[i])
        instances.push_back(i);
    std::sort(instances.begin(), instances.end(),
              [&](std::uint32_t a, std::uint32_t b) { return timeline_.start[a] < timeline_.start[b]; });
    return instances;
  }

  // The host's fault? Points without work on the compute stream only pass on what they waited for.
  [[nodiscard]] bool by_host(std::uint32_t cause) const {
    while (cause != Timeline::no_instance) {
      const ResourceClass kind = class_of(graph_, graph_.tasks[cause % timeline_.tasks]);
      if (kind != ResourceClass::compute || timeline_.end[cause] > timeline_.start[cause])
        return kind == ResourceClass::host;
      cause = timeline_.cause[cause];
    }
    return false;
  }

  // A gap on the compute stream: whose fault is it?
  void add_gap(Interval gap, std::uint32_t cause) {
    if (by_host(cause)) {
      // A loader works beside the host: it is waited for only while the host issues nothing.
      const Picoseconds input = overlap(issuing_or_input_, gap) - overlap(issuing_, gap);
      // A host without work waits itself: a local update for what it pulls.
      const Picoseconds communicating = overlap(host_or_communication_, gap) - overlap(host_, gap);
      account_.input += input;
      account_.exposed += communicating;
      account_.compute += length(gap) - input - communicating;  // the device waits for the host to issue
    } else {
      const Picoseconds communicating = overlap(communication_, gap);
      account_.exposed += communicating;
      account_.idle += length(gap) - communicating;
    }
  }

  const TaskGraph& graph_;
  const Timeline& timeline_;
  const Interval window_;
  const std::vector<Interval> communication_, host_, host_or_communication_, issuing_, issuing_or_input_;
  Account account_;
};

// What one period of the critical path is made of, walking back along what each task waited for last. The walk starts a
// few periods later: what is near the end may merely lag behind (a device behind its host), but far enough back the
// walk is on the cycle that sets the pace.
struct CriticalPath {
  Interval window;
  std::vector<std::uint32_t> tasks;  ///< first to last
  Seconds compute, codec, host, input, start_up, transfer, timer;
};
constexpr std::uint32_t periods_walked = 4;  // hosts run one iteration ahead: two would do for one such lag
constexpr std::uint32_t iterations_scheduled = 8;

CriticalPath critical_path_of(const TaskGraph& graph, const Timeline& timeline, const CommPlan& plan,
                              const CommunicationCost& cost) {
  CriticalPath path;
  const std::uint32_t last = timeline.iterations - 1, skipped = (periods_walked - 1) * timeline.period_iterations;
  path.window = period_until(last >= skipped + timeline.period_iterations ? last - skipped : last, graph, timeline);
  for (std::uint32_t i = last * timeline.tasks + graph.marker;
       i != Timeline::no_instance && timeline.end[i] > path.window.from; i = timeline.cause[i]) {
    const std::uint32_t t = i % timeline.tasks;
    const Task& task = graph.tasks[t];
    const Interval run{std::max(path.window.from, timeline.start[i]), std::min(path.window.to, timeline.end[i])};
    if (run.from >= run.to) continue;
    const Seconds time = seconds_of(length(run));
    path.tasks.push_back(t);
    if (task.kind == TaskKind::input || task.kind == TaskKind::load) {
      path.input += time;
      continue;
    }
    if (task.kind == TaskKind::codec) {
      path.codec += time;
      continue;
    }
    switch (class_of(graph, task)) {
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
  }
  std::reverse(path.tasks.begin(), path.tasks.end());
  return path;
}

std::string bound_of(const CriticalPath& path) {
  struct Share {
    const char* name;
    Seconds time;
  };
  const Share shares[] = {{"communication bandwidth", path.transfer}, {"start-up of messages", path.start_up},
                          {"waiting for input", path.input},          {"waiting for a timer", path.timer},
                          {"encoding and decoding", path.codec},      {"host issue of kernels", path.host}};
  const Share* largest = std::max_element(std::begin(shares), std::end(shares),
                                          [](const Share& a, const Share& b) { return a.time < b.time; });
  const Seconds iteration = seconds_of(length(path.window));
  const auto percent = [&](Seconds s) { return whole_percent(s / iteration); };
  // Compute can only be hidden behind, never hidden: the first of the others that is visible is what can be improved.
  if (largest->time < 0.01 * iteration) return "compute";
  return std::string(largest->name) + " (" + percent(largest->time) + " of the critical path; compute " +
         percent(path.compute) + ")";
}

// The plan, if it can be run and counted.
Answer<CommPlan> applicable_plan(const AskedPlan& asked, const Profile& profile, const Cluster& cluster,
                                 const CommunicationCost& cost, double phase) {
  Answer<CommPlan> plan = asked.given ? *asked.given : comm_plan_of(asked.spec, profile, cluster, cost, phase);
  if (!plan) return plan;
  std::string obstacle = obstacle_to(*plan, compute_in_a_row(profile), cluster, cost);
  if (!obstacle.empty()) return Inapplicable{std::move(obstacle)};
  return plan;
}

// One plan at one timer phase, scheduled.
struct Outcome {
  CommPlan plan;
  TaskGraph graph;
  Timeline timeline;
};

Answer<Outcome> outcome_of(const Profile& profile, const Cluster& cluster, const CommunicationCost& cost,
                           const AskedPlan& asked, double phase, bool merge, const ScheduleOptions& options) {
  Answer<CommPlan> plan = applicable_plan(asked, profile, cluster, cost, phase);
  if (!plan) return Inapplicable{plan.reason()};
  Outcome outcome{std::move(*plan), {}, {}};
  outcome.graph = lowered(profile, outcome.plan, cost, cluster.contention, {.merge = merge});
  schedule(outcome.graph, outcome.timeline, options);
  return outcome;
}

// Relative standard deviation of the measured steps, from the quartiles (robust against one disturbed step).
double relative_step_noise(const Profile& profile) {
  std::vector<double> times;
  for (const Seconds s : profile.step_times) times.push_back(s.value());
  if (times.size() < 2) return 0;
  const double middle = median(times);
  return middle > 0 ? (quantile(times, 0.75) - quantile(times, 0.25)) / 1.349 / middle : 0;
}

// Half the interval of the mean: the measured steps are a sample of the compute time, the link's fit has a residual,
// and so has the model of several workers itself.
Seconds uncertainty_of(const Profile& profile, const Cluster& cluster, const CriticalPath& path, Seconds iteration) {
  const double noise = relative_step_noise(profile);
  const double steps = std::max<double>(1, static_cast<double>(profile.step_times.size()));
  // The path covers whole repetitions of the plan.
  const double per_second = iteration / seconds_of(std::max<Picoseconds>(1, length(path.window)));
  const Seconds computing = path.compute + path.codec + path.host + path.input;
  const double of_compute = noise / std::sqrt(steps) * per_second * computing.value();
  const double of_links = cluster.relative_error * per_second * (path.transfer + path.start_up).value();
  const double of_model = cluster.workers() > 1 ? residual_of_model * iteration.value() : 0;
  return Seconds(normal_p90 * std::hypot(of_compute, of_links, of_model));
}

void add_warnings(const Profile& profile, const Cluster& cluster, Prediction& prediction) {
  if (profile.step_times.size() < 2)
    prediction.warnings.push_back("fewer than two measured steps: the interval does not include their noise");
  if (cluster.relative_error == 0 && cluster.workers() > 1)
    prediction.warnings.push_back("cluster '" + cluster.name +
                                  "' has no fitted error: the interval does not include that of its links");
  const Strategy& strategy = *prediction.plan.strategy;
  if (!strategy.caution.empty())
    prediction.warnings.push_back(std::string(strategy.name) + ": " + std::string(strategy.caution));
  for (const ModifierSpec& m : prediction.plan.modifiers)
    if (!m.modifier->caution.empty())
      prediction.warnings.push_back(std::string(m.modifier->name) + ": " + std::string(m.modifier->caution));
  if (!prediction.steady)
    prediction.warnings.push_back("no steady state was reached: the mean over the iterations that were run");
}

void name_critical_path(const Profile& profile, const Outcome& outcome, const CriticalPath& path, Prediction& out) {
  for (const std::uint32_t t : path.tasks) {
    std::string name = task_name(profile, outcome.plan, outcome.graph, t);
    // The host issues a block in two pieces (lower.hpp).
    const bool again =
        outcome.graph.tasks[t].kind == TaskKind::host && !out.critical_path.empty() && out.critical_path.back() == name;
    if (!again) out.critical_path.push_back(std::move(name));
  }
}

Answer<DetailedTimeline> detailed_timeline_of(const Profile& traced, const Cluster& cluster, const AskedPlan& asked,
                                              std::uint32_t iterations) {
  const Profile profile = slowest_worker(traced, cluster);
  const Answer<CommunicationCost> cost = communication_cost(cluster, collective_of(asked.spec));
  if (!cost) return Inapplicable{cost.reason()};
  Answer<Outcome> outcome =
      outcome_of(profile, cluster, *cost, asked, 0.5, false, {.least_iterations = std::max(1u, iterations)});
  if (!outcome) return Inapplicable{outcome.reason()};
  return DetailedTimeline{std::move(outcome->graph), std::move(outcome->timeline), std::move(outcome->plan)};
}

// Every task of one repetition in a row, as slow as contention can make it: no schedule of it takes longer.
Seconds longest_repetition(const CommPlan& plan, Seconds compute, const Cluster& cluster,
                           const CommunicationCost& cost) {
  Seconds sum = compute * static_cast<double>(plan.period);
  for (const Codec& c : plan.codecs) sum += c.time;
  sum = sum * cluster.contention.compute_under_communication;
  for (const Transfer& t : plan.transfers) {
    const bool timer = plan.channels[t.channel].discipline == Discipline::parallel;
    sum += timer ? t.delay : (cost(t.operation, t.size) + t.overhead) * cost.slow_down(t.operation, t.size);
  }
  return sum;
}

}  // namespace

std::string obstacle_to(const CommPlan& plan, Seconds compute, const Cluster& cluster, const CommunicationCost& cost) {
  for (const Transfer& t : plan.transfers)
    if (plan.channels[t.channel].discipline != Discipline::parallel && !cost.defines(t.operation))
      return "the collective '" + std::string(cost.algorithm()) + "' does not define " +
             std::string(name_of(t.operation));
  // The scheduler counts picoseconds in 64 bits, which hold 64 repetitions of this length.
  constexpr Seconds longest(1e5);
  const Seconds repetition = longest_repetition(plan, compute, cluster, cost);
  if (repetition <= longest) return {};
  return "a step of it could take more than a day" +
         (std::isfinite(repetition.value()) ? " (" + text_of(repetition) + ")" : "");
}

PlanSpec with_automatic_options_tuned(const Profile& profile, const Cluster& cluster, const PlanSpec& asked) {
  const bool automatic =
      std::any_of(asked.options.begin(), asked.options.end(), [](double v) { return std::isnan(v); });
  return automatic ? tuned(profile, cluster, asked) : asked;
}

Answer<Prediction> predicted_alike(const Profile& profile, const Cluster& cluster, const AskedPlan& asked) {
  const PlanSpec& spec = asked.spec;
  const Answer<CommunicationCost> cost = communication_cost(cluster, collective_of(spec));
  if (!cost) return Inapplicable{cost.reason()};
  Prediction out;
  out.plan = spec;
  const std::uint32_t phases = spec.strategy->phases;
  Breakdown& parts = out.breakdown;
  Seconds half;
  for (std::uint32_t k = 0; k < phases; ++k) {
    const Answer<Outcome> outcome = outcome_of(profile, cluster, *cost, asked, phase_of(k, phases), true,
                                               {.least_iterations = iterations_scheduled});
    if (!outcome) return Inapplicable{outcome.reason()};
    const Timeline& timeline = outcome->timeline;
    const Interval window = steady_window(outcome->graph, timeline);
    const Account account = Bookkeeping(outcome->graph, timeline, window).result();
    // Of an unsteady schedule one window is taken for all.
    const Seconds iteration = timeline.iteration_time() / outcome->plan.period;
    const double share = iteration / seconds_of(std::max<Picoseconds>(1, length(window))) / phases;
    const auto part = [&](Picoseconds ps) { return seconds_of(ps) * share; };
    parts.compute += part(account.compute);
    parts.exposed_communication += part(account.exposed);
    parts.hidden_communication += part(account.hidden);
    parts.codec += part(account.codec);
    parts.input_stall += part(account.input);
    parts.idle += part(account.idle);
    out.iteration += iteration / phases;
    out.steady = out.steady && timeline.steady;
    if (k != phases / 2) continue;
    const CriticalPath path = critical_path_of(outcome->graph, timeline, outcome->plan, *cost);
    out.bound = bound_of(path);
    name_critical_path(profile, *outcome, path, out);
    const auto messages =
        static_cast<std::size_t>(std::count_if(outcome->graph.tasks.begin(), outcome->graph.tasks.end(),
                                               [](const Task& t) { return t.kind == TaskKind::transfer; }));
    out.messages = (messages + outcome->plan.period - 1) / outcome->plan.period;
    half = uncertainty_of(profile, cluster, path, iteration);
  }
  out.interval_low = std::max(Seconds(0), out.iteration - half);
  out.interval_high = out.iteration + half;
  out.step_spread = relative_step_noise(profile) * lone_step_time(profile);
  add_warnings(profile, cluster, out);
  if (profile.batch_samples > 0)
    out.throughput_samples_per_s =
        profile.batch_samples * static_cast<double>(cluster.workers()) / out.iteration.value();
  if (profile.activation_memory > Bytes(0)) out.memory = profile.activation_memory + 2 * profile.gradient_size();
  return out;
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
