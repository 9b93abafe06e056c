// DeepSpeed: its configuration as JSON. Batches keep its identity: train_batch_size = train_micro_batch_size_per_gpu *
// gradient_accumulation_steps * data-parallel degree; the first is left out where its tensor parallelism is used.
#include <stepcast/base/words.hpp>
#include <stepcast/launch/frameworks.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

/// The bucket of the plan, or else DeepSpeed's own, in elements.
double bucket_elements(const LaunchInput& in) {
  constexpr double standard = 5e8;
  const double bucket = in.bucket_elements();
  return bucket > 0 ? bucket : standard;
}

Json zero_of(const LaunchInput& in) {
  const Layout& l = in.layout;
  const double bucket = bucket_elements(in);
  Json zero{{"stage", l.zero}, {"overlap_comm", l.overlap_gradients}, {"contiguous_gradients", true}};
  zero["reduce_bucket_size"] = std::int64_t(bucket);
  if (l.backward_shard > 0) zero["zero_hpz_partition_size"] = l.backward_shard;
  if (l.quantized_weights) zero["zero_quantized_weights"] = true;
  if (l.quantized_gradients) zero["zero_quantized_gradients"] = true;
  const Json host{{"device", "cpu"}, {"pin_memory", true}};
  if (l.offloads(Offloaded::optimizer)) zero["offload_optimizer"] = host;
  if (l.offloads(Offloaded::parameters)) zero["offload_param"] = host;
  if (l.zero < 3) {
    zero["reduce_scatter"] = true;
    zero["allgather_bucket_size"] = std::int64_t(bucket);
    return zero;
  }
  double largest = 0;
  for (const UnitKind& kind : in.workload.kinds)
    largest = std::max(largest, kind.divided_parameters + kind.other_parameters + kind.expert_parameters);
  // What may be gathered ahead of its use, and be held at a time, in elements.
  zero["stage3_prefetch_bucket_size"] = l.units_in_flight > 1 ? std::int64_t(largest) : 0;
  zero["stage3_max_live_parameters"] = std::int64_t(largest * double(l.units_in_flight));
  return zero;
}

/// Gradients are added up in four bytes beside two-byte weights.
bool adds_up_whole(const LaunchInput& in) {
  return in.workload.shape && in.workload.bytes_of_weight < 4 && in.workload.bytes_of_gradient > 2;
}

/// Why none of its optimizers does what was predicted, of the pairs of types that it tells apart
/// (runtime/engine.py, _do_optimizer_sanity_check, version 0.19).
std::string why_no_optimizer(const LaunchInput& in) {
  const Layout& l = in.layout;
  const bool bf16 = in.workload.shape && in.workload.dtype == DataType::bf16;
  if (l.zero == 0 && adds_up_whole(in))
    return "without ZeRO it adds gradients up in the type of the weights (gradients=" +
           std::string(name_of(in.workload.dtype)) + " in the model)";
  if (l.zero == 1 && bf16 && adds_up_whole(in) && !l.offloads(Offloaded::optimizer))
    return "its ZeRO-1 with gradients in f32 sums whole ones behind the backward pass and keeps bf16 ones beside them "
           "(BF16_Optimizer): zero=2, or gradients=bf16 in the model";
  if (l.zero == 0 && bf16 && l.pipeline > 1)
    return "its pipelines in bf16 without ZeRO divide the optimizer's state and hold gradients twice (BF16_Optimizer): "
           "zero=1";
  return {};
}

}  // namespace

std::string deepspeed_code(const LaunchInput& in) {
  const Layout& l = in.layout;
  std::string text;
  // Its pipelines checkpoint by themselves, at an interval.
  if (l.pipeline > 1) {
    add_to_list(text, "PipelineModule(..., num_stages=" + std::to_string(l.pipeline) + ")");
  } else if (l.recomputation != Recomputation::none) {
    const bool every = l.recomputation == Recomputation::full && l.recomputed_together == 1;
    add_to_list(text, "deepspeed.checkpointing.checkpoint around " +
                          (l.recomputation != Recomputation::full ? std::string("the core of attention")
                           : l.recomputed_together > 1 ? std::to_string(l.recomputed_together) + " blocks at a time"
                                                       : std::string("every block")) +
                          (every && !l.offloads(Offloaded::activations)
                               ? " (of Hugging Face's models gradient_checkpointing_enable())"
                               : ""));
  }
  if (!in.workload.shape) return text;
  if (in.workload.shape->loss_chunks > 1)
    add_to_list(text, "head and loss in " + std::to_string(in.workload.shape->loss_chunks) + " parts of the sequence");
  if (in.workload.shape->loss == KernelSet::compiled)
    add_to_list(text, "torch.compile of what makes the loss of the logits");
  return text;
}

std::string why_not_deepspeed(const LaunchInput& in) {
  const Layout& l = in.layout;
  if (std::string why = units_differ(l); !why.empty()) return why;
  if (l.tensor > 1 && (l.pipeline > 1 || l.zero > 2 || in.scheme() != "1d" || l.sequence_parallel ||
                       l.overlap_tensor != TensorOverlap::nothing))
    return "its tensor parallelism (autotp_size) is 1-D, goes with ZeRO stages 0 to 2 and divides no activations and "
           "hides no sums";
  if (l.whole_tensors) return "it divides all tensors evenly (whole_tensors=off)";
  const bool by_itself =
      in.by_own_kernels > Bytes(0) || (in.workload.shape && in.workload.shape->kernels == KernelSet::deepspeed);
  if (gathers_updates(l.zero) && l.data > 1 && l.overlap_gather && l.overlap_gradients && !by_itself)
    return "it gathers all updated parameters behind the update (overlap_gather=off)";
  if (l.shard > 0)
    return "it has no ZeRO within groups: MiCS was removed from it, and ZeRO++ divides the optimizer over all (hpz=" +
           std::to_string(l.shard) + ")";
  if (in.workload.shape && linear_type(*in.workload.shape))
    return "8-bit linear layers are the model's own (Transformer Engine, torchao)";
  if (std::string why = modules_alone(l); !why.empty()) return why;
  if (l.recomputation == Recomputation::operators) return "its checkpoints are of whole blocks, not of operators";
  if (l.context > 1)
    return l.context_exchange == ContextExchange::all_to_all
               ? "its sequence parallelism (Ulysses) is set up in the model's code, around its attention"
               : "its sequence parallelism (Ulysses) exchanges heads (cp_comm=a2a), not keys and values";
  if (l.expert > 1) return "experts are spread by its MoE layer (ep_size) in the model's code";
  if (l.offloaded_blocks > 0) return "it offloads the inputs of all checkpoints (without offload_blocks=)";
  if (l.offloads(Offloaded::activations) && l.recomputation != Recomputation::full)
    return "of activations it offloads the inputs of checkpoints alone (recompute=full)";
  if (l.offloads(Offloaded::optimizer) && in.workload.shape && in.workload.shape->optimizer != Optimizer::adam)
    return "its hosts update by Adam (DeepSpeedCPUAdam)";
  if (l.offloaded != 0 && (l.zero == 0 || l.pipeline > 1))
    return "its hosts update what ZeRO divides, without pipelines (zero=1 and more)";
  if (l.pipeline > 1 && l.zero > 1) return "its pipelines work with ZeRO stages 0 and 1 only";
  if (l.pipeline > 1 && l.data > 1 && l.overlap_gradients)
    return "its pipelines reduce behind the last backward pass (overlap_dp=off)";
  if (l.pipeline > 1 && l.recomputation == Recomputation::selective)
    return "its pipelines do whole layers again (recompute=full)";
  if (stages_differ(in, StageRule::by_parameters))
    return "its pipelines deal layers out by their parameters unless the model's code says otherwise (without stages=, "
           "with kernels of its own in the model)";
  if (l.pipeline > 1 && in.schedule() != "1f1b") return "its pipelines run 1F1B, not " + std::string(in.schedule());
  if (l.recomputed_blocks > 0)
    return "the model's code says which blocks it does again; its pipelines do all again, by an interval";
  if (std::string why = why_no_optimizer(in); !why.empty()) return why;
  if (!own_way_of(in, "DeepSpeed").empty())
    return "gradients travel as it sends them, not by " + text_of(in.plan.gradients);
  return {};
}

std::string deepspeed_text(const LaunchInput& in) {
  const Layout& l = in.layout;
  Json config;
  // With autotp_size it counts all devices as replicas, unless the caller brings a grid, and refuses what it is told.
  if (l.tensor == 1) config["train_batch_size"] = in.global_batch();
  config["train_micro_batch_size_per_gpu"] = l.micro_batch;
  config["gradient_accumulation_steps"] = in.micro_batches;
  const bool whole_gradients = adds_up_whole(in);
  if (in.workload.shape && (in.workload.dtype == DataType::bf16 || in.workload.dtype == DataType::f16)) {
    const std::string half = in.workload.dtype == DataType::bf16 ? "bf16" : "fp16";
    config["communication_data_type"] = whole_gradients ? "fp32" : half;
    config["data_types"] = Json{{"grad_accum_dtype", whole_gradients ? "fp32" : half}};
  }
  if (in.workload.dtype == DataType::bf16) config["bf16"] = Json{{"enabled", true}};
  if (in.workload.dtype == DataType::f16) config["fp16"] = Json{{"enabled", true}};
  // It refuses to offload any optimizer but its own (engine.py), which it makes where this is said; "params" has the
  // learning rate.
  if (l.offloads(Offloaded::optimizer)) config["optimizer"] = Json{{"type", "AdamW"}};
  if (l.tensor > 1) config["tensor_parallel"] = Json{{"autotp_size", l.tensor}};
  config["zero_optimization"] = zero_of(in);
  const bool full = l.recomputation == Recomputation::full;
  if (l.recomputation != Recomputation::none) {
    config["activation_checkpointing"] =
        Json{{"partition_activations", false}, {"contiguous_memory_optimization", false}};
    // Beside compute, on a stream of its own (offload_activations.py).
    if (l.offloads(Offloaded::activations)) config["activation_checkpointing"]["cpu_checkpointing"] = true;
    if (full && in.blocks() > 0)
      config["activation_checkpointing"]["number_checkpoints"] =
          (in.blocks() + l.recomputed_together - 1) / l.recomputed_together;
  }
  if (l.pipeline > 1) config["pipeline"] = Json{{"activation_checkpoint_interval", full ? l.recomputed_together : 0}};
  return config.dump(2);
}

}  // namespace stepcast
