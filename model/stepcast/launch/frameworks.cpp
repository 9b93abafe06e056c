// What all frameworks are asked for, and Horovod, which knows data parallelism alone.
#include <stepcast/base/words.hpp>
#include <stepcast/launch/frameworks.hpp>
#include <stepcast/layout/tensor_scheme.hpp>
#include <stepcast/parallelism/priced_split.hpp>
#include <stepcast/pipeline/pipeline.hpp>
#include <stepcast/prediction/recommend.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace stepcast {

std::string_view LaunchInput::scheme() const { return layout.scheme == nullptr ? "1d" : layout.scheme->name; }
std::string_view LaunchInput::schedule() const {
  if (layout.schedule != nullptr) return layout.schedule->name;
  return layout.chunks > 1 ? "interleaved" : "1f1b";
}
std::int64_t LaunchInput::blocks() const {
  if (workload.shape && workload.shape->layers > 0) return workload.shape->layers;
  std::map<std::uint32_t, std::int64_t> count;
  for (const std::uint32_t unit : workload.units) ++count[unit];
  std::int64_t most = 0;
  for (const auto& [kind, n] : count) most = std::max(most, n);
  return most > 1 ? most : 0;
}

double LaunchInput::bucket_elements() const {
  const PlanSpec& gradient_plan = plan.gradients;
  const Strategy* strategy = gradient_plan.strategy;
  const OptionValues& options = gradient_plan.options;
  if (strategy == nullptr || strategy->name != "ddp" || workload.bytes_of_gradient <= 0) return 0;
  for (std::size_t i = 0; i < strategy->options.size(); ++i)
    if (strategy->options[i].name == "bucket" && std::isfinite(options[i]) && options[i] >= 1)
      return std::floor(options[i] / workload.bytes_of_gradient);
  return 0;
}

bool LaunchInput::states_gradient_options() const {
  const Strategy* strategy = plan.gradients.strategy;
  return strategy != nullptr && plan.gradients.options != standard_options(*strategy);
}

bool LaunchInput::sums_in_bf16() const {
  return has_copies(workload) && workload.dtype == DataType::bf16 && workload.bytes_of_gradient < 4;
}

Bytes LaunchInput::memory_under_autocast() const {
  const bool casts = workload.shape && workload.bytes_of_weight < 4;
  if (!casts || memory.total() == Bytes(0) || by_own_kernels > Bytes(0)) return {};
  if (autocast_counted) return memory.total();
  const BytesPerParameter bytes{workload.bytes_of_weight, workload.bytes_of_gradient, workload.bytes_of_state};
  return under_autocast(memory, bytes, layout.data > 1).total();
}

std::string modules_alone(const Layout& l) {
  if (l.recomputation != Recomputation::modules) return {};
  return "modules that are done again by themselves (recompute=" + recomputation_text(l) + ") are Megatron-LM's";
}

std::string plain_zero(const Layout& l, bool has_second_copy) {
  if (l.backward_shard > 0 && !has_second_copy)
    return "it has no second copy of the parameters for the backward pass (hpz=)";
  if (l.whole_tensors) return "it divides all tensors evenly (whole_tensors=off)";
  if (l.quantized_weights) return "parameters in 8 bits (qwz=on) are DeepSpeed's ZeRO++";
  if (l.quantized_gradients) return "gradients in 4 bits (qgz=on) are DeepSpeed's ZeRO++";
  return {};
}

std::string leaves_nothing_to_host(const Layout& l) {
  if (l.offloaded == 0) return {};
  return "it leaves nothing to the host (offload=" + offload_text(l) + ")";
}

std::string units_differ(const Layout& l) {
  return l.unit_choices.empty() ? "" : "its options are those of all layers, and these units are divided differently";
}

bool stages_differ(const LaunchInput& in, StageRule rule) {
  const Layout& l = in.layout;
  if (l.pipeline == 1) return false;
  if (!in.workload.shape) return !l.stage_units.empty();
  const std::vector<std::uint32_t> own = usual_stages(*in.workload.shape, rule, l.pipeline * l.chunks);
  if (!in.stage_units.empty()) return !std::ranges::equal(in.stage_units, own);
  if (!l.stage_units.empty()) return l.stage_units != own;
  return l.stages_by_time || usual_stages(*in.workload.shape, l.pipeline * l.chunks) != own;
}

std::string own_way_of(const LaunchInput& in, std::string_view framework) {
  const PlanSpec& plan = in.plan.gradients;
  if (plan.strategy == nullptr || in.layout.data == 1 || in.layout.zero > 1) return {};
  const bool all_reduce = plan.strategy->name == "ddp" && plan.modifiers.empty() && plan.collective.empty();
  if (all_reduce || plan.strategy->name == framework) return {};
  return "# gradients travel as " + std::string(framework) + " sends them, not by " + text_of(plan) + "\n";
}

std::string why_not_horovod(const LaunchInput& in) {
  const Layout& l = in.layout;
  if (std::string why = units_differ(l); !why.empty()) return why;
  if (std::string why = leaves_nothing_to_host(l); !why.empty()) return why;
  if (l.tensor * l.context * l.pipeline > 1) return "it replicates the whole model on every device";
  if (l.expert > 1) return "it does not spread experts";
  if (l.zero > 0) return "it does not divide parameters, gradients or optimizer state";
  if (in.workload.shape && linear_type(*in.workload.shape)) return "8-bit linear layers are the model's own (torchao)";
  if (in.sums_in_bf16()) return "under autocast it sends gradients in float32 (gradients=f32)";
  if (std::string why = modules_alone(l); !why.empty()) return why;
  if (l.recomputation == Recomputation::operators)
    return "which operators are done again (recompute=op) says a policy of the model's own";
  return {};
}

std::string horovod_text(const LaunchInput& in) {
  const Layout& l = in.layout;
  const PlanSpec& plan = in.plan.gradients;
  const bool own = plan.strategy != nullptr && plan.strategy->name == "horovod";
  std::string text = own ? settings_of(plan) + " " : own_way_of(in, "Horovod");
  text += "horovodrun -np " + std::to_string(l.devices()) + " python train.py\n";
  text += "optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters()";
  if (in.micro_batches > 1) text += ", backward_passes_per_step=" + std::to_string(in.micro_batches);
  text += ")\n# batches of " + counted(l.micro_batch, "sample") + " a device";
  if (in.micro_batches > 1) text += ", " + std::to_string(in.micro_batches) + " of them a step";
  if (in.workload.shape && in.workload.shape->kernels == KernelSet::compiled)
    text += "\n# each block compiled: block.compile()";
  if (in.workload.shape && in.workload.shape->loss_chunks > 1)
    text += "\n# head and loss in " + std::to_string(in.workload.shape->loss_chunks) + " parts of the sequence";
  if (in.workload.shape && in.workload.shape->loss == KernelSet::compiled)
    text += "\n# what makes the loss of the logits compiled: torch.compile";
  if (l.recomputation != Recomputation::none)
    text += "\n# recomputation: torch.utils.checkpoint around " +
            (l.recomputed_blocks > 0 ? "each of the first " + std::to_string(l.recomputed_blocks) + " blocks"
             : l.recomputed_together > 1
                 ? std::to_string(l.recomputed_together) + " blocks at a time (checkpoint_sequential)"
                 : std::string(l.recomputation == Recomputation::full ? "each block" : "the core of attention"));
  return text;
}

std::string_view torch_schedule(const LaunchInput& in) {
  if (in.schedule() == "gpipe") return "GPipe";
  if (in.schedule() == "zb_v") return "ZBVZeroBubble";
  return in.schedule() == "1f1b" ? "1F1B" : "Interleaved1F1B";
}

std::string why_not_scheduled(const LaunchInput& in) {
  const std::string_view schedule = in.schedule();
  if (schedule == "zb_v") {
    // stage_backward_weight of torch/distributed/pipelining/_backward.py asks for gradients group by group.
    if (in.layout.recomputation != Recomputation::none)
      return "its zero-bubble schedules would do a checkpointed block again for every group of parameters "
             "(recompute=none)";
    const bool compiled = in.workload.shape && in.workload.shape->kernels == KernelSet::compiled;
    return compiled ? "its zero-bubble schedules split backward passes, which compiled blocks do not (kernels=eager)"
                    : "";
  }
  if (schedule != "gpipe" && schedule != "1f1b" && schedule != "interleaved")
    return "it has no schedule " + std::string(schedule);
  if (schedule == "interleaved" && in.layout.chunks > 1 && !torch_interleaves(in))
    return "its interleaved schedule needs micro-batches in whole rounds of the pipeline's stages or more";
  return {};
}

bool torch_interleaves(const LaunchInput& in) {
  const std::int64_t rounds = std::max<std::int64_t>(1, in.micro_batches / in.layout.pipeline);
  return in.micro_batches % rounds == 0;
}

}  // namespace stepcast
