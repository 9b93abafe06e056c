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

/// Arcs without task `gone`: what precedes it precedes what follows it.
std::vector<FullArc> bridged(const std::vector<FullArc>& arcs, std::uint32_t gone) {
  std::vector<FullArc> out;
  for (const FullArc& arc : arcs)
    if (arc.from != gone && arc.to != gone) out.push_back(arc);
  for (const FullArc& in : arcs) {
    if (in.to != gone || in.from == gone) continue;
    for (const FullArc& after : arcs)
      if (after.from == gone && after.to != gone) out.push_back({in.from, after.to, in.lag + after.lag});
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// The marker after the removal; the number of tasks if there is none.
std::uint32_t marker_without(const TaskGraph& graph, std::span<const std::uint32_t> gone) {
  const auto goes = [&](std::uint32_t t) { return std::find(gone.begin(), gone.end(), t) != gone.end(); };
  if (!goes(graph.marker)) return graph.marker;
  const auto none = std::uint32_t(graph.tasks.size());
  std::uint32_t before = none;
  for (std::uint32_t t = 0; t < graph.tasks.size(); ++t)
    for (const Arc& arc : graph.successors(t)) {
      if (arc.task != graph.marker || arc.lag != 0) continue;
      if (before != none && before != t) return none;
      before = t;
    }
  return before != none && !goes(before) ? before : none;
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
  return marker_without(graph, tasks) < graph.tasks.size();
}

TaskGraph without_tasks(const TaskGraph& graph, std::span<const std::uint32_t> gone) {
  const std::uint32_t marker = marker_without(graph, gone);
  assert(marker < graph.tasks.size());
  std::vector<FullArc> arcs = arcs_of(graph);
  for (const std::uint32_t t : gone) arcs = bridged(arcs, t);
  std::vector<std::uint32_t> renamed(graph.tasks.size());
  std::vector<Task> tasks;
  for (std::uint32_t t = 0; t < graph.tasks.size(); ++t) {
    renamed[t] = std::uint32_t(tasks.size());
    if (std::find(gone.begin(), gone.end(), t) == gone.end()) tasks.push_back(graph.tasks[t]);
  }
  for (FullArc& arc : arcs) arc = {renamed[arc.from], renamed[arc.to], arc.lag};
  return packed(graph, tasks, arcs, renamed[marker]);
}

}  // namespace stepcast
