#pragma once
// Fit of the algorithm `nccl`: links and shares of a cluster from logs of nccl-tests, at any counts of devices.
//
// Every number of the forms (latency and bandwidth of both links, NcclTuning) is a factor with a prior: what is typical
// of machines with public logs, and how far they lie apart. The fit is the least sum of a robust loss of the logarithm
// of fitted over measured time (Huber, quadratic below 25 %) and of the squared distance from the priors, so that
// numbers that no log tells stay where they are. Sizes count by band (to 8 KiB, 1 MiB, 64 MiB and above), each as much
// as the others: latency comes from small messages, bandwidth from large ones, however many of each were measured.
// Benchmarks of the link itself (ib_write_bw, MPI between two ranks) tell its bandwidth, by the sizes that reach nine
// tenths of their best rate, and nothing of NCCL: neither its latency nor the share that a pair reaches. Tables across
// machines weigh five times those of one machine, whose misfit their own residual mends. Sums in the switch of a
// machine (NVLS) are taken for given where they explain the tables better by a tenth.
//
// Example: logs of 2, 4, 8 and 16 A100 give 133 GB/s between machines and 1.9 times NCCL's hop there. Not modelled:
// links that differ from machine to machine; times that the host's launches bound (one process with several devices:
// sizes below which times do not grow) are left out.
#include <stepcast/cluster/cluster.hpp>

#include <span>
#include <vector>

namespace stepcast {

/// `base` with links and NcclTuning fitted to tables of at least two workers each; network cards and machines stay.
/// Requires a table.
[[nodiscard]] Cluster fitted_nccl(Cluster base, std::span<const MeasuredCollective> tables);
/// Which points of a table tell something of NCCL: not those that the host's launches bound, nor, of a benchmark of the
/// link itself, those below its plateau.
[[nodiscard]] std::vector<bool> nccl_is_fitted_to(const MeasuredCollective&);

}  // namespace stepcast
