#pragma once
// PlacementCuts: the best contiguous partition of a pipeline's units over devices in a given order.
//
// Dynamic programming over (device, units done) with a frontier of (sum of C + R, largest of C and R) a state: both
// only grow, so that a dominated partition stays dominated, and the last frontier holds the optimum of sum + (m - 1)
// largest. A device may be left out, but not in favour of one that is its like. Invariant: exact for the order given.
#include <stepcast/placement/placement.hpp>

#include <cstdint>
#include <vector>

namespace stepcast {

struct PartitionInput {
  std::span<const PlacedUnit> units;
  const UnequalCluster* cluster = nullptr;
  std::vector<std::uint32_t> order;  ///< devices
  std::vector<std::uint32_t> like;   ///< devices of equal numbers are interchangeable
  double rounds = 1;                 ///< m: micro-batches
  Seconds largest_send;              ///< without compression and latency; cuts with longer ones are not allowed
  Seconds compressed_send;           ///< what a send takes at most, without latency
  Seconds worth_less_than;           ///< partitions whose closed form is not below it are left out
};
struct Partition {
  std::vector<std::uint32_t> device, units;
  Seconds closed_form;
};
/// The partitions that no other one beats in both the sum and the largest part; empty: none fits or is worth it.
[[nodiscard]] std::vector<Partition> best_partitions(const PartitionInput&);

}  // namespace stepcast
