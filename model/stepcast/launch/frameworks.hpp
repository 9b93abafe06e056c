#pragma once
// Frameworks: the settings of launch_settings.hpp, one function a framework (internal to the library).
//
// torch.cpp: DistributedDataParallel, FullyShardedDataParallel and torch.distributed.pipelining. megatron.cpp:
// Megatron-LM. deepspeed.cpp: DeepSpeed. What all are asked for, and Horovod, is in frameworks.cpp.
#include <stepcast/launch/launch_settings.hpp>

#include <string>
#include <string_view>

namespace stepcast {

/// What every framework is asked for.
struct LaunchInput {
  const Workload& workload;
  const LayoutPrediction& prediction;
  const Layout& layout;
  std::int64_t micro_batches = 1;  ///< per pipeline and step

  [[nodiscard]] std::int64_t global_batch() const { return layout.micro_batch * micro_batches * layout.data; }
  [[nodiscard]] std::string_view scheme() const;
  [[nodiscard]] std::string_view schedule() const;
  /// Blocks of equal cost (transformer layers) of the model; 0: nothing repeats.
  [[nodiscard]] std::int64_t blocks() const;
  /// The buckets in which all-reduce sends gradients, in elements; 0: the plan sends them otherwise.
  [[nodiscard]] double bucket_elements() const;
};

/// Why a framework whose options are those of all layers alike cannot; empty where no unit chooses for itself.
[[nodiscard]] std::string units_differ(const Layout&);
/// A comment where the plan's gradients travel in a way that `framework` does not know: it sends them in its own.
[[nodiscard]] std::string own_way_of(const LaunchInput&, std::string_view framework);

[[nodiscard]] LaunchSettings ddp_settings(const LaunchInput&);
[[nodiscard]] LaunchSettings fsdp_settings(const LaunchInput&);
[[nodiscard]] LaunchSettings torch_pipeline_settings(const LaunchInput&);
[[nodiscard]] LaunchSettings megatron_settings(const LaunchInput&);
[[nodiscard]] LaunchSettings deepspeed_settings(const LaunchInput&);
[[nodiscard]] LaunchSettings horovod_settings(const LaunchInput&);

}  // namespace stepcast
