#pragma once
// Placement report: which device runs which part of a pipeline over unequal devices, and what that gains.
//
// The micro-batch is the one with the shortest step of those that were allowed. Beside the placement stands what one
// would do without it: all devices in the order in which they were named, the units dealt evenly, nothing compressed.
//
// placement_report.cpp chooses, text/placement.cpp writes text and JSON.
#include <stepcast/placement/placement.hpp>
#include <stepcast/workload/workload.hpp>

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct PlacementChoice {
  Placement placement;
  PlacementOptions options;
  std::int64_t micro_batch = 1;
  std::optional<Placement> naive;  ///< the plain placement of the same micro-batches
  std::string no_naive;            ///< why there is none
};
/// `micro_batches`: samples of a micro-batch to choose from; empty: the powers of two that divide the batch.
/// Inapplicable when nothing fits, or nothing divides the batch.
[[nodiscard]] Answer<PlacementChoice> best_placement(const Workload&, const UnequalCluster&, std::int64_t global_batch,
                                                     std::vector<std::int64_t> micro_batches,
                                                     const PlacementOptions& = {});

/// What somebody asks for by its text, of a batch. Inapplicable when it names devices or units that there are not, does
/// not divide the batch, or does not fit.
[[nodiscard]] Answer<PlacementChoice> given_placement(const Workload&, const UnequalCluster&, std::int64_t global_batch,
                                                      const PlacementPlan&);
/// The text of a choice: asked for again, it gives the same step.
[[nodiscard]] PlacementPlan plan_of(const PlacementChoice&);

struct PlacementTimelineReport {
  const Workload& workload;
  const UnequalCluster& cluster;
  const PlacementTimeline& detail;
  PlacementPlan plan;
  Seconds iteration;
};

struct PlacementReport {
  const Workload& workload;
  const UnequalCluster& cluster;
  std::int64_t global_batch = 0;
  const PlacementChoice& choice;
};
void write_placement_text(std::ostream&, const PlacementReport&);
void write_placement_json(std::ostream&, const PlacementReport&);

}  // namespace stepcast
