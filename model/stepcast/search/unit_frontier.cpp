// The frontier of the operator graph of units, and the fastest point within a memory.
#include <stepcast/search/unit_frontier.hpp>

#include <utility>

namespace stepcast {
namespace {

/// Points that a frontier keeps on the way. A hundred units of some thirty configurations take a fifth of a second.
constexpr std::size_t most_points = 128;
}  // namespace

Answer<UnitFrontier> unit_frontier(const Workload& workload, const Cluster& cluster, const LayoutOptions& options) {
  Answer<UnitGraph> units = unit_graph(workload, cluster, options, true);
  if (!units) return Inapplicable{units.reason()};
  AssignmentFrontier frontier = frontier_of(units->graph, {most_points});
  return UnitFrontier{*std::move(units), std::move(frontier)};
}

const Assignment* fastest_within(const AssignmentFrontier& frontier, Bytes cap) {
  const Assignment* best = nullptr;
  for (const Assignment& point : frontier.points)
    if (cap == Bytes(0) || Bytes(point.memory) <= cap) best = &point;
  return best;
}

std::vector<UnitRun> runs_of(const UnitGraph& units, const Assignment& assignment) {
  std::vector<UnitRun> runs;
  for (std::uint32_t u = 0; u < units.of.size(); ++u) {
    const UnitConfiguration& own = units.of[u][assignment.configuration[u]];
    if (runs.empty() || !(runs.back().configuration == own)) runs.push_back({u, 0, own});
    ++runs.back().units;
  }
  return runs;
}

}  // namespace stepcast
