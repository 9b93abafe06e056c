#pragma once
// Lockstep: the steps of several ranks whose collectives begin together.
//
// Each rank has blocks of its own (step_blocks.hpp). A free task of one may be the same collective as one of another:
// their *meeting*. It begins on all of them when the last one has reached it:
//
//   rank 0   rows ... reaches all-reduce 1 at 4 ms   | waits until 7 ms, and goes on at 7 ms + its time
//   rank 1   rows ... reaches all-reduce 1 at 7 ms   |             goes on at 7 ms + its time
//
// So who is late, and by how much, follows from what the ranks do, whatever the collectives take: on a slow network
// they queue, and nobody waits for a late rank any more. Invariant: without meetings each rank has the period of its
// own blocks, and the slowest one decides. Not modelled: collectives whose ranks leave at different times before all
// have come (broadcasts, messages).
#include <stepcast/schedule/step_blocks.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// A free task that meets nobody.
inline constexpr std::uint32_t no_meeting = 0xffffffffu;

/// One of several ranks. What it points to has to outlive it.
struct RankInStep {
  const StepBlocks* blocks = nullptr;
  std::vector<Picoseconds> times{};       ///< of its free tasks, in the order in which they were given
  std::vector<std::uint32_t> meetings{};  ///< of its free tasks: a number that ranks share, or no_meeting
};

/// True where each rank gets to the end of its step: no two of them wait for one another in different meetings.
[[nodiscard]] bool can_meet(std::span<const RankInStep>);
/// The time between two steps in the long run, that of the slowest rank where they do not meet, as StepBlocks::period.
/// Requires ranks that can meet.
[[nodiscard]] Picoseconds period_in_lockstep(std::span<const RankInStep>);
/// How long each free task of each rank waits for the others that meet it, in the step that period_in_lockstep ends
/// with. Requires what that does.
[[nodiscard]] std::vector<std::vector<Picoseconds>> waits_in_lockstep(std::span<const RankInStep>);

}  // namespace stepcast
