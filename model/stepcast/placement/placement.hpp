#pragma once
// Room placement: pipelines over unequal devices and links.
//
//   units  0 1 2 3 4 5 | 6 7 8 9 | 10 11 12 13
//   device     A100    |   3090  |    2080       cuts where the links between devices carry the least
//
// It may include base, encodings, cluster, schedule, pipeline and workload.
//
// Placement: pipelines over unequal devices and links (FusionLLM, Tang et al., arXiv 2410.12707).
//
// OP-Fence: devices whose links are alike form clusters, the pipeline's order keeps each cluster together, and the cuts
// between clusters, where links are slow, are placed where the model hands on the least. AdaTopK: activations and their
// gradients are sparsified, with the full ratio on the slowest link and in proportion less on faster ones, so that no
// link is made faster than it needs to be. Step: the task graph of pipeline.hpp; the closed form sum(C + R) + (m - 1)
// max(C, R) over stages, which the cuts minimise, is never above it for GPipe, and equal where compute and sends take
// the same share of forward and backward passes. Not modelled: what sparsified activations do to convergence, the time
// to choose the values, links that several pairs of devices share.
//
// Unequal clusters as JSON are read in json.cpp, placements as text are read and written in text.cpp.
#include <stepcast/base/error.hpp>
#include <stepcast/base/units.hpp>
#include <stepcast/pipeline/pipeline.hpp>
#include <stepcast/schedule/schedule.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct Workload;  // workload.hpp

struct UnequalDevice {
  std::string name;
  double speed = 1;  ///< relative to the device that the workload was traced or described on
  Bytes memory;      ///< 0: unknown
};
/// Devices and the links between all pairs (row-major, symmetric).
struct UnequalCluster {
  std::string name;
  std::vector<UnequalDevice> devices;
  std::vector<Seconds> latency;
  std::vector<BytesPerSecond> bandwidth;
  [[nodiscard]] std::size_t pair(std::size_t a, std::size_t b) const { return a * devices.size() + b; }
};
/// Returns `cluster` if it has devices, at most 1024, with positive speeds and a link for each pair, else throws
/// InputError.
[[nodiscard]] UnequalCluster checked(UnequalCluster cluster, std::string_view source);
/// JSON with schema "stepcast.devices/1": groups of devices with a link inside, and links between groups.
[[nodiscard]] UnequalCluster unequal_cluster_of_json(std::string_view text, std::string_view source);
/// OP-Fence: the number of each device's cluster, by first device. The bandwidths that occur are cut in two where two
/// neighbours differ most in ratio; links of the upper part join their ends. Below a factor of 2 all are one cluster.
[[nodiscard]] std::vector<std::uint32_t> link_clusters(const UnequalCluster&);

/// Work of a unit: compute on a device of speed 1, forward and backward, of one micro-batch, and what it hands on.
struct PlacedUnit {
  Seconds forward, backward;
  Bytes boundary;
  Bytes memory;  ///< what it needs on its device
};
/// The units of a workload on one device each, in its order; memory is that of parameters, optimizer state and the
/// activations of `micro_batches`.
[[nodiscard]] Answer<std::vector<PlacedUnit>> placed_units(const Workload&, double micro_batch,
                                                           std::uint32_t micro_batches);

struct Placement {
  std::vector<std::uint32_t> device;  ///< the device of each stage, in pipeline order
  std::vector<std::uint32_t> units;   ///< how many units each stage works on
  std::vector<double> ratio;          ///< AdaTopK's compression on the link after each stage; 1: none
  std::vector<Seconds> compute;       ///< C of each stage: forward and backward pass of a micro-batch
  std::vector<Seconds> send;          ///< R of each stage: activations to the next one, and their gradients back
  std::vector<ChunkTimes> chunks;     ///< passes and sends of each stage, for the task graph
  Seconds iteration;                  ///< the step by the task graph
  Seconds closed_form;                ///< sum(C + R) + (m - 1) max(C, R)
  std::vector<std::string> notes;
};
struct PlacementOptions {
  std::uint32_t micro_batches = 8;
  double ratio = 1;            ///< AdaTopK on the slowest link: values kept are 1 / ratio; 1: no compression
  double bytes_per_value = 4;  ///< of what is sent; a workload says it (placement_report.hpp)
  double bytes_per_index = 8;
  const PipelineSchedule* schedule = nullptr;  ///< a schedule of one chunk a device; null: gpipe
};
/// The step when `units[i]` units run on `device[i]`, i = 0, 1, ... Inapplicable when they do not fit into its memory
/// or the schedule does not suit their number. Requires that the units add up and that no device occurs twice.
[[nodiscard]] Answer<Placement> placement_of(std::span<const PlacedUnit>, const UnequalCluster&,
                                             std::vector<std::uint32_t> device, std::vector<std::uint32_t> units,
                                             const PlacementOptions& = {});
/// The placement with the shortest step of those tried: all orders of up to four clusters (more: each cluster first,
/// then along the fastest links), within a cluster the fastest devices first, and for each order the cuts that are best
/// by the closed form; devices may stay out. Inapplicable when the units do not fit into the devices' memories.
[[nodiscard]] Answer<Placement> placed(std::span<const PlacedUnit>, const UnequalCluster&,
                                       const PlacementOptions& = {});

/// A placement as it is written: `placement(devices=2+0+1, units=4+3+5, mb=2, adatopk=50, schedule=1f1b)`: the devices
/// of the stages in pipeline order, counted from 0 as their file names them, and the units of each.
struct PlacementPlan {
  std::vector<std::uint32_t> device, units;
  std::int64_t micro_batch = 0;                ///< samples; 0: what is fastest of those that divide the batch
  double ratio = 1;                            ///< AdaTopK; 1: no compression
  const PipelineSchedule* schedule = nullptr;  ///< null: gpipe
  bool operator==(const PlacementPlan&) const = default;
};
[[nodiscard]] bool has_placement(std::string_view text);
/// Throws InputError with column and suggestion.
[[nodiscard]] PlacementPlan placement_plan_of(std::string_view text);
/// Reads back to the same value, where "gpipe" counts as none.
[[nodiscard]] std::string text_of(const PlacementPlan&);

/// The task graph of a placement and its timeline; tasks in the order of `pipeline_task_name`.
struct PlacementTimeline {
  TaskGraph graph;
  Timeline timeline;
  PipelineShape shape;
};
[[nodiscard]] Answer<PlacementTimeline> placement_timeline(const Placement&, const PlacementOptions&);

}  // namespace stepcast
