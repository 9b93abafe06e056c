// Gaps on the compute stream go to what it waited for: the host, a transfer, the input, or nothing.
#include <stepcast/prediction/breakdown.hpp>

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

ResourceClass class_of(const TaskGraph& graph, const Task& task) { return graph.resources[task.resource].kind; }

/// The times within `window` in which a task that is `wanted` runs, merged and sorted.
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

/// When something but compute ran within a window.
struct Surroundings {
  std::vector<Interval> communication, host, host_or_communication, issuing, issuing_or_input;
};

Surroundings surroundings_of(const TaskGraph& graph, const Timeline& timeline, Interval window) {
  const auto busy = [&](const auto& wanted) {
    return busy_times(graph, timeline, window, [&](const Task& t) { return wanted(class_of(graph, t), t.kind); });
  };
  using Class = ResourceClass;
  return {busy([](Class c, TaskKind) { return c == Class::communication; }),
          busy([](Class c, TaskKind) { return c == Class::host; }),
          busy([](Class c, TaskKind) { return c == Class::host || c == Class::communication; }),
          busy([](Class, TaskKind kind) { return kind == TaskKind::host; }), busy([](Class c, TaskKind kind) {
            const bool input = kind == TaskKind::input || kind == TaskKind::load;
            return kind == TaskKind::host || (input && c == Class::host);
          })};
}

/// What the compute stream does in the window, by start.
std::vector<std::uint32_t> compute_instances(const TaskGraph& graph, const Timeline& timeline, Interval window) {
  std::vector<std::uint32_t> instances;
  for (std::uint32_t i = 0; i < timeline.iterations * timeline.tasks; ++i)
    if (class_of(graph, graph.tasks[i % timeline.tasks]) == ResourceClass::compute && timeline.end[i] > window.from &&
        timeline.start[i] < window.to && timeline.end[i] > timeline.start[i])
      instances.push_back(i);
  std::sort(instances.begin(), instances.end(),
            [&](std::uint32_t a, std::uint32_t b) { return timeline.start[a] < timeline.start[b]; });
  return instances;
}

/// Whether the host is at fault. Points without work on the compute stream only pass on what they waited for.
bool by_host(const TaskGraph& graph, const Timeline& timeline, std::uint32_t cause) {
  while (cause != Timeline::no_instance) {
    const ResourceClass kind = class_of(graph, graph.tasks[cause % timeline.tasks]);
    if (kind != ResourceClass::compute || timeline.end[cause] > timeline.start[cause])
      return kind == ResourceClass::host;
    cause = timeline.cause[cause];
  }
  return false;
}

/// A gap on the compute stream by whose fault it is.
Account account_of_gap(const Surroundings& around, Interval gap, bool host_at_fault) {
  Account account;
  if (host_at_fault) {
    // A loader works beside the host: it is waited for only while the host issues nothing.
    account.input = overlap(around.issuing_or_input, gap) - overlap(around.issuing, gap);
    // A host without work waits itself: a local update for what it pulls.
    account.exposed = overlap(around.host_or_communication, gap) - overlap(around.host, gap);
    account.compute = length(gap) - account.input - account.exposed;  // the device waits for the host to issue
  } else {
    account.exposed = overlap(around.communication, gap);
    account.idle = length(gap) - account.exposed;
  }
  return account;
}

}  // namespace

Interval period_until(std::uint32_t iteration, const TaskGraph& graph, const Timeline& timeline) {
  const auto marker_end = [&](std::uint32_t i) { return timeline.end[std::size_t{i} * timeline.tasks + graph.marker]; };
  const std::uint32_t k = timeline.period_iterations;
  return {iteration >= k ? marker_end(iteration - k) : 0, marker_end(iteration)};
}

std::vector<std::uint32_t> step_order(const TaskGraph& graph, const Timeline& timeline) {
  const std::size_t first = std::size_t{timeline.iterations - 1} * timeline.tasks;
  std::vector<std::uint32_t> waits(graph.tasks.size(), 0), order;
  for (std::uint32_t t = 0; t < graph.tasks.size(); ++t)
    for (const Arc& arc : graph.successors(t)) waits[arc.task] += arc.lag == 0 ? 1 : 0;
  using Entry = std::pair<Picoseconds, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (std::uint32_t t = 0; t < graph.tasks.size(); ++t)
    if (waits[t] == 0) ready.emplace(timeline.start[first + t], t);
  while (!ready.empty()) {
    const std::uint32_t t = ready.top().second;
    ready.pop();
    order.push_back(t);
    for (const Arc& arc : graph.successors(t))
      if (arc.lag == 0 && --waits[arc.task] == 0) ready.emplace(timeline.start[first + arc.task], arc.task);
  }
  return order;
}

Interval steady_window(const TaskGraph& graph, const Timeline& timeline) {
  return period_until(timeline.iterations - 1, graph, timeline);
}

Account account_of(const TaskGraph& graph, const Timeline& timeline, Interval window) {
  const Surroundings around = surroundings_of(graph, timeline, window);
  Account account;
  const auto add_gap = [&](Interval gap, std::uint32_t cause) {
    const Account part = account_of_gap(around, gap, by_host(graph, timeline, cause));
    account.compute += part.compute, account.exposed += part.exposed;
    account.input += part.input, account.idle += part.idle;
  };
  Picoseconds at = window.from;
  for (const std::uint32_t i : compute_instances(graph, timeline, window)) {
    const Interval run{std::max(at, timeline.start[i]), std::min(window.to, timeline.end[i])};
    if (run.from > at) add_gap({at, run.from}, timeline.cause[i]);
    if (run.to <= run.from) continue;
    const TaskKind kind = graph.tasks[i % timeline.tasks].kind;
    (kind == TaskKind::input   ? account.input
     : kind == TaskKind::codec ? account.codec
     : kind == TaskKind::late  ? account.idle
                               : account.compute) += length(run);
    at = run.to;
  }
  // The window ends with a marker, which may be a point in time that only waits.
  if (at < window.to) add_gap({at, window.to}, (timeline.iterations - 1) * timeline.tasks + graph.marker);
  for (const Interval& i : around.communication) account.hidden += length(i);
  account.hidden -= account.exposed;
  return account;
}

}  // namespace stepcast
