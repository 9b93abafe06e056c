#pragma once
// Room launch: settings of frameworks for a layout, to paste.
//
// Example: tp=8, pp=4 for Megatron-LM: --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4.
//
// It may include base, pipeline, layout, prediction and parallelism.
//
// Launch settings: a predicted layout as the options of the frameworks that can run it, to paste.
//
// PyTorch DDP and FSDP (code), Megatron-LM (arguments), DeepSpeed (config JSON), Horovod (environment and code). A
// framework that cannot run the layout says why instead. Not modelled: options that do not change the step time.
#include <stepcast/parallelism/layout_prediction.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct LaunchSettings {
  std::string_view framework;
  std::string text, cannot;
};
[[nodiscard]] std::vector<LaunchSettings> launch_settings(const Workload&, const LayoutPrediction&);

}  // namespace stepcast

namespace stepcast {

template <>
inline constexpr auto result_fields<LaunchSettings> =
    std::tuple{ResultField{"framework", &LaunchSettings::framework, "\"Megatron-LM\""},
               ResultField{"text", &LaunchSettings::text, "to paste; empty when it cannot", ShownAs::known},
               ResultField{"cannot", &LaunchSettings::cannot, "why there is nothing to paste", ShownAs::known}};

}  // namespace stepcast
