#pragma once
// ReplayGraph: the graph that a replay schedules. Task `index` is the event number in the trace, `no_index` for gaps,
// turn-arounds and points without work.
#include <stepcast/replay/calibration.hpp>

#include <memory>
#include <utility>

namespace stepcast::test {

struct ReplayGraph {
  TaskGraph graph;
  Step step;  ///< the calibration step
};
inline Answer<ReplayGraph> replay_graph_of(const Trace& trace) {
  Answer<std::unique_ptr<replaying::Calibration>> built = replaying::calibration_of(trace);
  if (!built) return Inapplicable{built.reason()};
  return ReplayGraph{std::move((*built)->taken_apart.graph), (*built)->step()};
}

}  // namespace stepcast::test
