#pragma once
// Room calibration: clusters and devices from measurements.
//
//   logs of nccl-tests, or a job's own traces -> tables -> links of a cluster;  measured steps or a trace -> rates of a
//   device;  measured steps of a traced job -> links, and what they take from compute
//
// It may include base, encodings, profile, trace, roofline, anatomy, ranks, cluster, plan, prediction, layout and
// parallelism.
//
// Calibration: the links of a cluster, fitted to measured all-reduces.
//
// Latency and bandwidth of the link inside a machine and of the one between machines are those with which the closed
// forms of the cluster's algorithm come nearest to all measured sizes (least squares on the relative error). The
// measured tables stay in the cluster as well. The algorithm `nccl` is fitted to all operations at all counts at once
// (nccl_fit.hpp); tables of one operation on one count become one, the median of each size, and those of the link
// itself stay out of the cluster, since no library exchanged there. Example: tables of 2 and 16 workers on machines of
// 8 devices give both links. Not modelled: links that differ from machine to machine.
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/cluster/fit.hpp>

#include <span>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct Calibration {
  Cluster cluster;  ///< base cluster with fitted links and the measured tables
  struct Entry {
    MeasuredCollective measured;
    Fit fit;
    /// What the fitted links say, one time a size; empty for one worker, and for all but all-reduces unless the
    /// algorithm is `nccl`.
    std::vector<Seconds> by_links{};
  };
  std::vector<Entry> entries;  ///< one per table, with residuals
  /// Root mean square of what the links alone miss over all measured sizes (`by_links`), where a table may answer
  /// better; 0 where no entry has any.
  double residual_of_links = 0;
  std::vector<std::string> notes;
};
/// Fits the links of `base` (its nodes, devices per node and names are kept) to measured all-reduces (`nccl`: any
/// operations) of one or several world sizes with the cluster's algorithm ("table": with the ring). What `provenance`
/// says of a replaced number goes. Throws InputError for measurements that no one cluster makes: forms that miss them
/// by more than 100 % (root mean square), or that would need a latency below 10 ns though small messages were measured.
[[nodiscard]] Calibration calibrated(Cluster base, std::span<const MeasuredCollective> measured);
/// Throws InputError where no benchmark of a log went on to messages that bandwidth bounds: links fitted to it would be
/// invented. A table (`all_reduce` "table") needs none. Transfers of traces are as large as the job's.
void refuse_small_messages(std::span<const MeasuredCollective> measured, const Cluster& base);

}  // namespace stepcast
