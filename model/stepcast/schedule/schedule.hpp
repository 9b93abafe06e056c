#pragma once
// Room schedule: from a plan to a timeline: task graph, its lowering, and two schedulers.
//
//   profile + plan + cost -> lowered -> TaskGraph -> schedule -> Timeline: start, end and cause of every task
//
// It may include base and plan.
//
// Schedule: when each task of a TaskGraph runs, iteration after iteration, until a steady state is reached.
//
// Event-driven list scheduling. A task starts exactly when its last predecessor ended and its resource serves it, never
// later. Queues are served by their Discipline; ties are broken totally (priority, iteration, task number). Where
// compute and communication disturb one another, a running task has remaining work and a rate that changes only when
// another task starts or ends. Steady state: every task of the last iteration ended one and the same period after its
// copy k iterations before (within a nanosecond; k = 1 nearly always), tasks of run-ahead hosts excepted when they only
// get earlier. If that never happens within `most_iterations`, the mean of the second half is reported and `steady` is
// false. Independent check: the critical cycle (critical_cycle.hpp) of the graph with the order that was realised. Not
// modelled: jitter (see prediction.hpp).
#include <stepcast/schedule/task_graph.hpp>

#include <cstdint>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct ScheduleOptions {
  std::uint32_t most_iterations = 64;
  /// At least this many iterations are run (a timeline that shows several).
  std::uint32_t least_iterations = 1;
};

/// Start and end of every task of the iterations that were run: row-major [iteration][task].
struct Timeline {
  std::uint32_t tasks = 0;
  std::uint32_t iterations = 0;  ///< completed iterations
  std::vector<Picoseconds> start, end;
  /// What a task waited for last: instance number (iteration * tasks + task) of the predecessor or of the task that
  /// held its resource; no_instance if it could start at time zero.
  std::vector<std::uint32_t> cause;
  Picoseconds period = 0;               ///< steady-state iteration time
  std::uint32_t period_iterations = 1;  ///< iterations over which the state recurs
  bool steady = false;

  static constexpr std::uint32_t no_instance = 0xffffffffu;
  [[nodiscard]] Seconds iteration_time() const { return seconds_of(period); }
};

/// Schedules `graph`, which must have no flaw. `timeline` is overwritten; reusing it avoids allocation.
void schedule(const TaskGraph& graph, Timeline& timeline, const ScheduleOptions& options = {});
[[nodiscard]] Timeline schedule(const TaskGraph& graph, const ScheduleOptions& options = {});

}  // namespace stepcast
