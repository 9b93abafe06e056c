#pragma once
// Traced links: the collectives of a job's own traces as measured tables, as if a benchmark had run on its machines.
//
// A collective's recorded time is transfer and waiting for whoever comes last. With all ranks at hand the waiting is
// known (ranks.hpp) and the median of the rest counts; of one rank alone the least over the steps, and no message takes
// longer than a larger one of the same kind. Example: five DDP buckets of 8 to 32 MB give a table of five sizes. Not
// modelled: how much slower a collective is beside kernels, which a job's traces contain and a benchmark does not.
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/trace/trace.hpp>

#include <span>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// One table for each operation and group size, of the collectives whose size and group the traces (the ranks of one
/// run) tell. Throws InputError where there is none.
[[nodiscard]] std::vector<MeasuredCollective> collectives_of_traces(std::span<const Trace> ranks);

}  // namespace stepcast
