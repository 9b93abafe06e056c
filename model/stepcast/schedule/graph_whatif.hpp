#pragma once
// What-if on task graphs: Daydream's primitives where tasks, not layers, are concerned (Zhu, Phanishayee, Pekhimenko
// 2020). For graphs that a plan was lowered to or that a replay rebuilt from a trace.
//
// Invariant: a graph without flaw stays one without flaw. A removed task's predecessors precede its successors, with
// the lags added. Removing work never lengthens a chain; on queues it may (Graham's anomalies). The fifth primitive,
// schedule, is the Discipline of a resource.
#include <stepcast/schedule/task_graph.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// Numbers of the tasks for which `wanted` is true.
[[nodiscard]] std::vector<std::uint32_t> selected_tasks(const TaskGraph&,
                                                        const std::function<bool(const Task&)>& wanted);
/// The work of these tasks times `factor` >= 0, rounded to picoseconds.
[[nodiscard]] TaskGraph with_work_scaled(TaskGraph, std::span<const std::uint32_t> tasks, double factor);
/// With `task`, as the last one, between `before` and everything that waits for it. It takes the role of the marker if
/// `before` had it.
[[nodiscard]] TaskGraph with_task_after(const TaskGraph&, std::uint32_t before, const Task& task);
/// Without these tasks, the others in their order. The marker cannot be removed unless one task alone precedes it
/// within the iteration, which then becomes the marker. Requires that; see `removable`.
[[nodiscard]] TaskGraph without_tasks(const TaskGraph&, std::span<const std::uint32_t> tasks);
/// True when the marker stays or has one predecessor within the iteration that stays.
[[nodiscard]] bool removable(const TaskGraph&, std::span<const std::uint32_t> tasks);

}  // namespace stepcast
