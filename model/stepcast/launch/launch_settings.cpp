// All programs are asked in turn; each says its settings or why it cannot.
#include <stepcast/base/error.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/launch/frameworks.hpp>
#include <stepcast/layout/process_group.hpp>
#include <stepcast/parallelism/priced_split.hpp>

#include <algorithm>
#include <array>

namespace stepcast {
namespace {

struct Program {
  std::string_view framework, title;
  std::string (*why_not)(const LaunchInput&);
  std::string (*text)(const LaunchInput&);
  std::string (*in_code)(const LaunchInput&) = nullptr;
};
constexpr std::array programs = {Program{"pytorch", "PyTorch DDP", why_not_ddp, ddp_text},
                                 Program{"pytorch", "PyTorch FSDP", why_not_fsdp, fsdp_text},
                                 Program{"pytorch", "PyTorch pipelining", why_not_torch_pipeline, torch_pipeline_text},
                                 Program{"torchtitan", "torchtitan", why_not_titan, titan_text},
                                 Program{"megatron", "Megatron-LM", why_not_megatron, megatron_text},
                                 Program{"deepspeed", "DeepSpeed", why_not_deepspeed, deepspeed_text, deepspeed_code},
                                 Program{"horovod", "Horovod", why_not_horovod, horovod_text}};

std::string why_not(const Program& program, const LaunchInput& in) {
  const bool in_four_bits = in.workload.shape && linear_type(*in.workload.shape) == DataType::f4;
  if (in_four_bits && program.framework != "megatron")
    return "linear layers in NVFP4 (linear=f4) are Transformer Engine's, which Megatron-LM runs";
  if (in.recorded() && program.framework != "megatron" && program.framework != "torchtitan")
    return "a CUDA graph of all passes (launch=graphs) is code of your own with it (torch.cuda.graphs)";
  if (program.framework != "megatron" && !same_ranks(in.layout, Layout{}.order))
    return "it numbers ranks tp-cp-dp-pp (order=)";
  return program.why_not(in);
}

/// Horovod's last release is older than PyTorch 2.1: it is for who asks for it, or for its way of sending gradients.
bool asked(const Program& program, std::string_view framework, const PlanSpec& gradients) {
  if (!framework.empty()) return program.framework == framework;
  return program.framework != "horovod" || (gradients.strategy != nullptr && gradients.strategy->name == "horovod");
}

}  // namespace

std::vector<std::string> launch_frameworks() {
  std::vector<std::string> names;
  for (const Program& program : programs)
    if (names.empty() || names.back() != program.framework) names.emplace_back(program.framework);
  return names;
}

std::string launch_framework_of(const std::string& text, const char* where) {
  const std::vector<std::string> names = launch_frameworks();
  if (!text.empty() && std::find(names.begin(), names.end(), text) == names.end())
    throw InputError(where, "one of " + listed(names), in_quotes(text), did_you_mean(text, names));
  return text;
}

std::string model_run_by(const std::string& description, std::string_view framework) {
  const std::string_view kernels = framework == "pytorch" || framework == "horovod" ? "eager"
                                   : framework == "torchtitan"                      ? "compiled"
                                   : framework == "deepspeed"                       ? "deepspeed"
                                                                                    : "";
  const ModelShape shape = model_shape_of(description);
  if (kernels.empty() || shape.heads == 0) return description;
  std::string out = shape.name;
  if (!shape.kernels_given) out = with_word(std::move(out), "kernels", kernels);
  // Its configurations compute the loss of Llama 3, Qwen3, DeepSeek-V3 and others in so many parts (loss.py).
  constexpr std::int64_t titan_chunks = 8;
  const bool decoder = !shape.name.starts_with("bert");
  if (framework == "torchtitan" && decoder && !shape.loss_chunks_given && shape.sequence % titan_chunks == 0)
    out = with_word(std::move(out), "loss_chunks", std::to_string(titan_chunks));
  if (!has_fused_attention(shape) || attention_kernel(shape)) return out;
  return with_word(std::move(out), "attention", "flash2");
}

MemoryOptions memory_options_of(std::string_view framework) { return {.autocast = framework == "pytorch"}; }

std::vector<LaunchSettings> launch_settings(const Workload& workload, const LayoutPrediction& prediction,
                                            std::string_view framework, Bytes device_memory,
                                            std::span<const OwnKernels> own, Bytes planned) {
  LaunchInput in{workload,
                 prediction.plan,
                 prediction.plan.layout,
                 std::max<std::int64_t>(1, prediction.micro_batches),
                 prediction.stage_units,
                 prediction.memory,
                 memory_options_of(framework).autocast || has_copies(workload),
                 device_memory};
  std::vector<LaunchSettings> all;
  for (const Program& program : programs) {
    if (!asked(program, framework, prediction.plan.gradients)) continue;
    const auto by = std::ranges::find(own, program.framework, &OwnKernels::framework);
    in.by_own_kernels = by != own.end() ? by->memory : Bytes(0);
    LaunchSettings settings{program.title, {}, why_not(program, in)};
    const bool fits = in.by_own_kernels <= device_memory;
    if (settings.cannot.empty() && device_memory > Bytes(0) &&
        (!fits || (planned > Bytes(0) && in.by_own_kernels > planned)))
      settings.cannot = "by its own kernels a device holds " + text_of(in.by_own_kernels) +
                        (fits ? ", and searches plan with " + text_of(planned) : " of " + text_of(device_memory)) +
                        " (--framework " + std::string(program.framework) + ")";
    if (settings.cannot.empty()) settings.text = program.text(in);
    if (settings.cannot.empty() && program.in_code != nullptr) settings.in_code = program.in_code(in);
    all.push_back(std::move(settings));
  }
  return all;
}

std::string why_not_launched(const Workload& workload, const LayoutPlan& plan, std::int64_t micro_batches,
                             std::string_view framework) {
  const LaunchInput in{workload, plan, plan.layout, std::max<std::int64_t>(1, micro_batches)};
  std::vector<std::pair<std::string, std::string>> refusals;  // reasons, and which programs have them
  for (const Program& program : programs) {
    if (!asked(program, framework, plan.gradients)) continue;
    std::string why = why_not(program, in);
    if (why.empty()) return {};
    const auto same = std::ranges::find(refusals, why, &std::pair<std::string, std::string>::first);
    if (same != refusals.end()) same->second += ", " + std::string(program.title);
    else if (refusals.empty() || !framework.empty()) refusals.emplace_back(std::move(why), program.title);
  }
  std::string text;
  for (const auto& [why, titles] : refusals) text += (text.empty() ? "" : "; ") + titles + ": " + why;
  return text;
}

}  // namespace stepcast
