#pragma once
// Room launch: settings of frameworks for a layout, to paste.
//
// Example: tp=8, pp=4 for Megatron-LM: --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4.
//
// It may include base, pipeline, layout, prediction and parallelism.
//
// Launch settings: a predicted layout as the options of the frameworks that can run it, to paste.
//
// PyTorch DDP, FSDP and pipelining (code), torchtitan and Megatron-LM (arguments), DeepSpeed (config JSON), Horovod
// (environment and code). A program that cannot run the layout says why instead; whether one can is asked apart, since
// a search asks it of every layout. Not modelled: options that do not change the step time.
#include <stepcast/parallelism/layout_prediction.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct LaunchSettings {
  std::string_view framework;
  std::string text, cannot;
  std::string in_code{};  ///< what belongs into the model's code beside it
};
/// What a plan may be asked to run on: "pytorch" (DDP, fully_shard, pipelining), "torchtitan", "megatron", "deepspeed",
/// "horovod".
[[nodiscard]] std::vector<std::string> launch_frameworks();
/// One of them as somebody wrote it, or empty. Throws InputError, which names `where`.
[[nodiscard]] std::string launch_framework_of(const std::string& text, const char* where);
/// A described model with the kernels that this framework runs, where the description leaves them open: of pytorch and
/// horovod eager ones, of deepspeed eager ones over its two-byte weights, of torchtitan compiled blocks; and as fused
/// attention PyTorch's own (FlashAttention 2).
[[nodiscard]] std::string model_run_by(const std::string& description, std::string_view framework);
/// How the memory of layouts is counted that this framework is to run (empty: any, the one that holds least).
[[nodiscard]] MemoryOptions memory_options_of(std::string_view framework);
/// A layout by the kernels that a framework runs of a model which leaves them open (`model_run_by`).
struct OwnKernels {
  std::string framework;  ///< one of `launch_frameworks()`
  Seconds iteration;
  Bytes memory;  ///< what a device holds then
};
/// Of all programs, or those of one of `launch_frameworks()`, whose memory was counted. A program that holds more than
/// was predicted says how much, and why it cannot where that is more than `device_memory` (0: unknown). `own`: what
/// frameworks hold by kernels that are not the predicted ones; a program is judged by those of its framework, and by
/// `planned`, the memory that was searched within (0: the device's).
[[nodiscard]] std::vector<LaunchSettings> launch_settings(const Workload&, const LayoutPrediction&,
                                                          std::string_view framework = {}, Bytes device_memory = {},
                                                          std::span<const OwnKernels> own = {}, Bytes planned = {});
/// Why no program of the framework runs a resolved layout, the reasons of all its programs (of the first one where no
/// framework is asked for); empty where one does.
[[nodiscard]] std::string why_not_launched(const Workload&, const LayoutPlan&, std::int64_t micro_batches,
                                           std::string_view framework = {});

}  // namespace stepcast

namespace stepcast {

template <>
inline constexpr auto result_fields<LaunchSettings> = std::tuple{
    ResultField{"framework", &LaunchSettings::framework, "\"Megatron-LM\""},
    ResultField{"text", &LaunchSettings::text, "to paste; empty when it cannot", ShownAs::known},
    ResultField{"cannot", &LaunchSettings::cannot, "why there is nothing to paste", ShownAs::known},
    ResultField{"in_code", &LaunchSettings::in_code, "what belongs into the model's code beside it", ShownAs::known}};
template <>
inline constexpr auto result_fields<OwnKernels> =
    std::tuple{ResultField{"iteration_s", &OwnKernels::iteration, "the step by its own kernels and optimizer"},
               ResultField{"memory_bytes", &OwnKernels::memory, "what a device holds then"}};

}  // namespace stepcast
