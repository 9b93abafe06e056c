#pragma once
// Placement: pipelines over unequal devices and links (FusionLLM, Tang et al., arXiv 2410.12707).
//
// OP-Fence: devices whose links are alike form clusters, the pipeline's order keeps each cluster together, and the cuts
// between clusters, where links are slow, are placed where the model hands on the least. AdaTopK: activations and their
// gradients are sparsified, with the full ratio on the slowest link and in proportion less on faster ones, so that no
// link is made faster than it needs to be. Step: sum over stages of compute and send, plus (micro-batches - 1) times
// the slowest of them (section 29); the task graph of pipeline.hpp checks it. Not modelled: what sparsified activations
// do to convergence.
#include <stepcast/error.hpp>
#include <stepcast/pipeline.hpp>
#include <stepcast/units.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace stepcast {

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
/// JSON with schema "stepcast.devices/1": groups of devices with a link inside, and links between groups.
[[nodiscard]] UnequalCluster unequal_cluster_of_json(std::string_view text, std::string_view source);

/// Work of a unit: compute on a device of speed 1, forward and backward, of one micro-batch, and what it hands on.
struct PlacedUnit {
  Seconds forward, backward;
  Bytes boundary;
  Bytes memory;  ///< that it needs on its device
};
struct Placement {
  std::vector<std::uint32_t> device;  ///< of each stage, in pipeline order
  std::vector<std::uint32_t> units;   ///< of each stage
  std::vector<double> ratio;          ///< AdaTopK's compression on the link after each stage; 1: none
  Seconds iteration;                  ///< by the task graph (GPipe or 1F1B)
  Seconds closed_form;                ///< sum(C + R) + (m - 1) max(C, R)
  std::vector<std::string> notes;
};
struct PlacementOptions {
  std::uint32_t micro_batches = 8;
  double ratio = 1;  ///< AdaTopK on the slowest link: values kept are 1 / ratio; 1: no compression
  double bytes_per_value = 4, bytes_per_index = 8;
};
/// Inapplicable when the units do not fit into the devices' memories.
[[nodiscard]] Answer<Placement> placed(std::span<const PlacedUnit>, const UnequalCluster&,
                                       const PlacementOptions& = {});

}  // namespace stepcast
