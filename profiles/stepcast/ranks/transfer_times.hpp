#pragma once
// Transfer times: what the collectives of a traced run took, by operation, group and size, as if a benchmark had run on
// its machines.
//
// A collective's recorded time is transfer and waiting for whoever comes last. With all ranks at hand the waiting is
// known (ranks.hpp) and the median of the rest counts; of one rank alone the least over the trace, and no message takes
// longer than a larger one of the same kind. Messages in flight at the same time over the same links (gloo's threads)
// share these: each counts with its part of every moment. Where a group lies is told by how many devices its machine
// has: ranks fill one machine after the other. Example: five DDP buckets of 8 to 32 MB between 16 ranks on machines of
// 8 devices give one table of five sizes. Not modelled: how much slower a collective is beside kernels, which a job's
// traces contain and a benchmark does not; processes that see one device only, or others than their machine has (not
// known then).
#include <stepcast/anatomy/traced_collectives.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/ranks/ranks.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace stepcast {

/// How many ranks of the collective's group are on each machine, of a run of `world` of them; -1: not as many on each,
/// or nobody knows.
[[nodiscard]] std::int64_t per_machine_of(const Trace&, const TracedCollective&, std::int64_t world);

/// The collectives of the ranks of one run, or of one of them alone, added up rank by rank.
class RunTransfers {
 public:
  void add_alone(const TraceIndex&);
  /// `rank`: its place among those of the run.
  void add(const TraceIndex&, const RunOfRanks&, std::size_t rank);
  /// One for each operation, kind of group (workers, then how many on a machine) and library whose sizes are known, in
  /// order.
  [[nodiscard]] std::vector<TransferTimes> times() const;

  /// Operation, workers, of them on a machine, library.
  using Kind = std::tuple<std::string, std::int64_t, std::int64_t, std::string>;

 private:
  void add(const TraceIndex&, std::int64_t world, const std::unordered_map<std::uint32_t, Seconds>* waiting);

  std::map<Kind, std::map<double, std::vector<double>>> seconds_;  // by bytes
  bool together_ = false;
};

/// Of a run, whose ranks these are, or of the only one that is known; nothing where they are not ranks of one run.
[[nodiscard]] std::vector<TransferTimes> transfer_times_of(std::span<const Trace>);
/// Of the only rank that is known.
[[nodiscard]] inline std::vector<TransferTimes> transfer_times_of(const TraceIndex& index) {
  RunTransfers transfers;
  transfers.add_alone(index);
  return transfers.times();
}

}  // namespace stepcast
