#pragma once
// Pacing cycle: what bounds the period of a plan whose steps run into one another, by name.
//
// A plan with a barrier is as long as its longest path; without one the next step begins before this one's transfers
// have ended, and what sets the pace is the cycle of waits that takes longest for the steps that it goes back
// (critical_cycle.hpp): "forward conv1, backward conv1, all_reduce bucket 3, and again one step later". Found on the
// detailed timeline of the plan. Not modelled: plans whose state recurs only after several steps, and jitter.
#include <stepcast/prediction/prediction.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct PacingCycle {
  Seconds period;                  ///< its time for each step that it goes back
  std::int64_t steps = 1;          ///< that it goes back
  std::vector<std::string> tasks;  ///< each waits for the one before it, the first for the last of an earlier step
};
/// Nothing for plans with a barrier, for those whose steps do not settle to one period, for graphs of more than some
/// thousand tasks, and for plans that cannot run.
[[nodiscard]] std::optional<PacingCycle> pacing_cycle_of(const Profile&, const Cluster&, const PlanSpec&);

}  // namespace stepcast
