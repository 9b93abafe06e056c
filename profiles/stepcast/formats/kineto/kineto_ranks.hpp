#pragma once
// KinetoRanks: one trace for each rank, from a file into which somebody merged several.
//
// Ranks number their correlation ids alike, so nothing may be joined across them. A merged file tells them apart by an
// argument or the text of the process (the rank of each track), or at least by the host processes: those with steps of
// their own are ranks, and device work belongs to the process whose launch has its correlation id. Where processes
// reuse the same ids nothing tells whose the device work is, and the file is refused. Tools that merge tag every event:
// an argument of a few is none of theirs.
#include <stepcast/formats/kineto/sync_records.hpp>
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace stepcast {

/// `rank_of_track`: -1 where the file does not say. Throws InputError when the ranks cannot be told apart.
[[nodiscard]] std::vector<Trace> traces_by_rank(Trace, std::span<const std::int64_t> rank_of_track,
                                                std::span<const SyncRecord>);

}  // namespace stepcast
