#pragma once
// Critical cycle: what sets the pace of steps that run into one another, where no critical path of one step can show
// it.
//
// Tasks wait for tasks of earlier iterations: the next forward pass for an update, a transfer for the one before it on
// its channel. A cycle of such waits that takes d and goes back k iterations needs d / k per step, whatever else is
// done; the cycle with the largest ratio is the period. Example, of dist_sync: "forward 1, backward 1, push 1, pull 1,
// and again one step later". Invariant: the ratio equals the period of a correct schedule, by another algorithm
// (Boost.Graph's Howard). Not modelled: cycles over several steps where the state recurs only after more than one
// iteration (Timeline::period_iterations); messages of many steps under way, whose queues mix them.
#include <stepcast/schedule/schedule.hpp>

#include <cstdint>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct CriticalCycle {
  Seconds period;                            ///< durations of its tasks over its lags
  std::vector<std::uint32_t> tasks;          ///< each waits for the one before it, the first for the last
  std::vector<std::int64_t> lags;            ///< iterations between a task and the next one; -1: that of an earlier one
  [[nodiscard]] std::int64_t steps() const;  ///< that it spans
};
/// True where waits go back so few iterations (two) that the order of queues around one iteration tells all.
[[nodiscard]] bool has_critical_cycle(const TaskGraph&);
/// Of the periodic graph made of the arcs of `graph` and of the order in which `timeline` (steady, period_iterations ==
/// 1) served each queue, with the realised durations: the cycle with the largest (sum of durations) / (sum of lags).
/// Without tasks where the graph has no cycle.
[[nodiscard]] CriticalCycle critical_cycle_of(const TaskGraph& graph, const Timeline& timeline);

}  // namespace stepcast
