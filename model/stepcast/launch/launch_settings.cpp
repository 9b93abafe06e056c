// All frameworks are asked in turn; each says its settings or why it cannot.
#include <stepcast/launch/frameworks.hpp>

#include <algorithm>

namespace stepcast {

std::vector<LaunchSettings> launch_settings(const Workload& workload, const LayoutPrediction& prediction) {
  const LaunchInput in{workload, prediction, prediction.plan.layout,
                       std::max<std::int64_t>(1, prediction.micro_batches)};
  return {ddp_settings(in),      fsdp_settings(in),      torch_pipeline_settings(in),
          megatron_settings(in), deepspeed_settings(in), horovod_settings(in)};
}

}  // namespace stepcast
