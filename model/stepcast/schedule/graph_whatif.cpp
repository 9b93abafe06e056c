// What-if on task graphs: tasks are rewritten as lists of arcs and packed again.
#include <stepcast/schedule/graph_whatif.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace stepcast {
namespace {

struct FullArc {
  std::uint32_t from, to, lag;
  auto operator<=>(const FullArc&) const = default;
};

std::vector<FullArc> arcs_of(const TaskGraph& graph) {
  std::vector<FullArc> arcs;
  arcs.reserve(graph.arcs.size());
  for (std::uint32_t t = 0; t < graph.tasks.size(); ++t)
    for (const Arc& arc : graph.successors(t)) arcs.push_back({t, arc.task, arc.lag});
  return arcs;
}

TaskGraph packed(const TaskGraph& like, std::span<const Task> tasks, std::span<const FullArc> arcs,
                 std::uint32_t marker) {
  TaskGraphBuilder builder;
  builder.reserve(tasks.size(), arcs.size());
  for (const Resource& resource : like.resources) builder.add_resource(resource);
  for (const Task& task : tasks) builder.add_task(task);
  for (const FullArc& arc : arcs) builder.add_arc(arc.from, arc.to, arc.lag);
  builder.graph().marker = marker;
  builder.graph().barrier = like.barrier;
  return builder.build();
}

/// Arcs without the tasks that go: what precedes one of them precedes what follows it.
std::vector<FullArc> bridged(const TaskGraph& graph, std::span<const std::uint32_t> gone,
                             const std::vector<bool>& goes) {
  std::vector<std::vector<Arc>> in(graph.tasks.size()), out(graph.tasks.size());
  for (const FullArc& arc : arcs_of(graph)) {
    out[arc.from].push_back({arc.to, arc.lag});
    in[arc.to].push_back({arc.from, arc.lag});
  }
  // One after the other; lists of those that are left may still name them, and are passed over.
  std::vector<bool> is_gone(graph.tasks.size(), false);
  for (const std::uint32_t t : gone) {
    is_gone[t] = true;
    for (const Arc& before : in[t])
      for (const Arc& after : out[t]) {
        if (is_gone[before.task] || is_gone[after.task]) continue;
        out[before.task].push_back({after.task, before.lag + after.lag});
        in[after.task].push_back({before.task, before.lag + after.lag});
      }
  }
  std::vector<FullArc> arcs;
  for (std::uint32_t t = 0; t < out.size(); ++t)
    for (const Arc& arc : out[t])
      if (!goes[t] && !goes[arc.task]) arcs.push_back({t, arc.task, arc.lag});
  std::sort(arcs.begin(), arcs.end());
  arcs.erase(std::unique(arcs.begin(), arcs.end()), arcs.end());
  return arcs;
}

std::vector<bool> flags_of(const TaskGraph& graph, std::span<const std::uint32_t> tasks) {
  std::vector<bool> flags(graph.tasks.size(), false);
  for (const std::uint32_t t : tasks) flags[t] = true;
  return flags;
}

/// The marker after the removal; the number of tasks if there is none.
std::uint32_t marker_without(const TaskGraph& graph, const std::vector<bool>& goes) {
  if (!goes[graph.marker]) return graph.marker;
  const auto none = std::uint32_t(graph.tasks.size());
  std::uint32_t before = none;
  for (std::uint32_t t = 0; t < graph.tasks.size(); ++t)
    for (const Arc& arc : graph.successors(t)) {
      if (arc.task != graph.marker || arc.lag != 0) continue;
      if (before != none && before != t) return none;
      before = t;
    }
  return before != none && !goes[before] ? before : none;
}

}  // namespace

std::vector<std::uint32_t> selected_tasks(const TaskGraph& graph, const std::function<bool(const Task&)>& wanted) {
  std::vector<std::uint32_t> tasks;
  for (std::uint32_t t = 0; t < graph.tasks.size(); ++t)
    if (wanted(graph.tasks[t])) tasks.push_back(t);
  return tasks;
}

TaskGraph with_work_scaled(TaskGraph graph, std::span<const std::uint32_t> tasks, double factor) {
  assert(factor >= 0);
  for (const std::uint32_t t : tasks) graph.tasks[t].work = std::llround(double(graph.tasks[t].work) * factor);
  return graph;
}

TaskGraph with_task_after(const TaskGraph& graph, std::uint32_t before, const Task& task) {
  const auto inserted = std::uint32_t(graph.tasks.size());
  std::vector<Task> tasks = graph.tasks;
  tasks.push_back(task);
  std::vector<FullArc> arcs = arcs_of(graph);
  for (FullArc& arc : arcs)
    if (arc.from == before) arc.from = inserted;
  arcs.push_back({before, inserted, 0});
  return packed(graph, tasks, arcs, graph.marker == before ? inserted : graph.marker);
}

bool removable(const TaskGraph& graph, std::span<const std::uint32_t> tasks) {
  return marker_without(graph, flags_of(graph, tasks)) < graph.tasks.size();
}

TaskGraph without_tasks(const TaskGraph& graph, std::span<const std::uint32_t> gone) {
  const std::vector<bool> goes = flags_of(graph, gone);
  const std::uint32_t marker = marker_without(graph, goes);
  assert(marker < graph.tasks.size());
  std::vector<FullArc> arcs = bridged(graph, gone, goes);
  std::vector<std::uint32_t> renamed(graph.tasks.size());
  std::vector<Task> tasks;
  for (std::uint32_t t = 0; t < graph.tasks.size(); ++t) {
    renamed[t] = std::uint32_t(tasks.size());
    if (!goes[t]) tasks.push_back(graph.tasks[t]);
  }
  for (FullArc& arc : arcs) arc = {renamed[arc.from], renamed[arc.to], arc.lag};
  return packed(graph, tasks, arcs, renamed[marker]);
}

}  // namespace stepcast
