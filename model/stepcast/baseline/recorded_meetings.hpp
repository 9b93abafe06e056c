#pragma once
// Meetings of a recorded job: which collectives of its ranks begin together (internal to the recorded job).
//
// Ranks are matched by what their traces show (ranks.hpp). Invariant: all ranks come to their meetings in the same
// order, with the recorded messages of gradients and with any others, so that lockstep (schedule/lockstep.hpp) never
// waits crosswise. Not modelled: messages from one rank to another, which make nobody wait but the receiver.
#include <stepcast/baseline/recorded_job.hpp>

#include <cstdint>
#include <vector>

namespace stepcast {

struct RunOfRanks;  // ranks.hpp

/// The collectives of the calibration step that ranks show together get their meetings, as far as all ranks come to
/// them in the same order; on several threads of one library they may not. Sets `in_lockstep`.
void let_meet(RecordedJob&, const RunOfRanks&);
/// The meeting of each free task of a rank: the first part of each collective that is not exchanged, and the messages
/// behind their last gradients; none of these where the recorded ones are in place (nullptr).
[[nodiscard]] std::vector<std::uint32_t> meetings_of(const RecordedRank&, const std::vector<GradientMessage>* messages);

}  // namespace stepcast
