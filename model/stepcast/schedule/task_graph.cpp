// Arcs are packed by a counting sort; cycles of lag 0 are found by a topological walk.
#include <stepcast/schedule/task_graph.hpp>

#include <algorithm>

namespace stepcast {

std::string_view name_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::host:
      return "host";
    case TaskKind::forward:
      return "forward";
    case TaskKind::backward:
      return "backward";
    case TaskKind::update:
      return "update";
    case TaskKind::other:
      return "other";
    case TaskKind::input:
      return "input";
    case TaskKind::late:
      return "late start";
    case TaskKind::load:
      return "load input";
    case TaskKind::transfer:
      return "transfer";
    case TaskKind::arrival:
      return "repair";
    case TaskKind::codec:
      return "codec";
    case TaskKind::timer:
      return "timer";
    case TaskKind::gap:
      return "gap";
    case TaskKind::kernel:
      return "kernel";
  }
  return "task";
}

std::uint32_t TaskGraphBuilder::add_resource(Resource r) {
  graph_.resources.push_back(std::move(r));
  return static_cast<std::uint32_t>(graph_.resources.size() - 1);
}

void TaskGraphBuilder::begin(TaskGraph&& used) {
  graph_ = std::move(used);
  graph_.resources.clear(), graph_.tasks.clear(), graph_.arcs.clear();
  arcs_.clear();
}

void TaskGraphBuilder::reserve(std::size_t tasks, std::size_t arcs) {
  graph_.tasks.reserve(tasks);
  arcs_.reserve(arcs);
}

TaskGraph TaskGraphBuilder::build() {
  const std::size_t n = graph_.tasks.size();
  auto& first = graph_.first_arc;
  first.assign(n + 2, 0);
  for (const FullArc& a : arcs_) ++first[a.from + 2];
  for (std::size_t t = 2; t < n + 2; ++t) first[t] += first[t - 1];
  graph_.arcs.resize(arcs_.size());
  // first[t + 1] is the write position of task t; after the loop it is the end of t, that is the start of t + 1.
  for (const FullArc& a : arcs_) graph_.arcs[first[a.from + 1]++] = {a.to, a.lag};
  first.pop_back();
  arcs_.clear();
  return std::move(graph_);
}

std::string flaw_of(const TaskGraph& graph) {
  const std::size_t n = graph.tasks.size();
  if (n == 0) return "the graph has no task";
  if (graph.first_arc.size() != n + 1) return "the arc index does not match the tasks";
  if (graph.marker >= n) return "the marker names no task";
  std::vector<std::uint32_t> waiting(n, 0);
  for (std::size_t t = 0; t < n; ++t) {
    if (graph.tasks[t].work < 0) return "task " + std::to_string(t) + " has negative work";
    if (graph.tasks[t].resource >= graph.resources.size()) return "task " + std::to_string(t) + " names no resource";
  }
  for (const Arc& a : graph.arcs) {
    if (a.task >= n) return "an arc names no task";
    if (a.lag == 0) ++waiting[a.task];
  }
  // Kahn's algorithm: what is left over when no task without predecessors remains lies on or behind a cycle.
  std::vector<std::uint32_t> ready;
  for (std::uint32_t t = 0; t < n; ++t)
    if (waiting[t] == 0) ready.push_back(t);
  std::size_t done = 0;
  for (; done < ready.size(); ++done)
    for (const Arc& a : graph.successors(ready[done]))
      if (a.lag == 0 && --waiting[a.task] == 0) ready.push_back(a.task);
  if (done == n) return {};
  const auto stuck = std::find_if(waiting.begin(), waiting.end(), [](std::uint32_t w) { return w != 0; });
  return "tasks wait for one another in a cycle; task " + std::to_string(stuck - waiting.begin()) +
         " is on or behind it";
}

}  // namespace stepcast
