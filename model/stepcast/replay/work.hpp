#pragma once
// Work: which steps of a trace do the same work, and how long the work of one step takes by the times of another
// (internal to the replay).
//
// Of a step that is predicted only the work is used: which tasks there are, in which order, and what waits for what.
// How long each takes is told by the same task of the calibration step: the two rows of tasks of a thread or stream are
// aligned (longest common subsequence of their names). Tasks that the calibration step does not have (an optimizer that
// runs every second step) take the time that they have in another step, never that of the predicted one.
#include <stepcast/replay/graph.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace stepcast::replaying {

/// Names of the operators and calls, and of the device work that a step launched; sorted, with repetition.
struct StepWork {
  std::vector<StringId> host, device;
};
[[nodiscard]] std::vector<StepWork> work_of_steps(const TraceLinks&, std::span<const Step>);
/// Share of the work of the larger step that the other one does not have: of the device work, or without a device of
/// the host's. What the host does around equal device work (allocator calls, caches that fill) differs by accident.
[[nodiscard]] double difference(const StepWork&, const StepWork&);
/// A smaller difference is none.
inline constexpr double telling_difference = 0.02;

/// For each element of `row` its partner in `other`, else no_index: a longest common subsequence (Myers 1986, "An O(ND)
/// difference algorithm"). Rows that differ in more than `most_edits` elements are aligned at both ends only.
[[nodiscard]] std::vector<std::uint32_t> alignment(std::span<const std::uint32_t> row,
                                                   std::span<const std::uint32_t> other, std::size_t most_edits = 3000);

/// The step's tasks and dependencies with all times replaced by those of the first of `sources` that has the task, else
/// by the mean of tasks of its name. Nothing if no source tells how long some device work takes.
[[nodiscard]] std::optional<TaskGraph> with_times_of(const StepGraph& step, std::span<const StepGraph* const> sources);

}  // namespace stepcast::replaying
