#pragma once
// Traced links: the collectives of a job's own traces as measured tables, as if a benchmark had run on its machines.
//
// They are its transfer times (ranks/transfer_times.hpp): of several ranks without waiting, of one rank alone the least
// of each size. Of groups of one size those lie closest together that a benchmark would have: where a trace tells
// several kinds apart, the one with most ranks on a machine is taken. Not modelled: how much slower a collective is
// beside kernels, which a job's traces contain and a benchmark does not.
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/trace/trace.hpp>

#include <span>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// One table for each operation and group size, of the collectives whose size and group the traces (the ranks of one
/// run) tell. Throws InputError where there is none.
[[nodiscard]] std::vector<MeasuredCollective> collectives_of_traces(std::span<const Trace> ranks);

}  // namespace stepcast
