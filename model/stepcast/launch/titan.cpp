// torchtitan 0.3: degrees, schedule, recomputation and precision as arguments of its configuration.
#include <stepcast/launch/frameworks.hpp>

#include <optional>
#include <string>

namespace stepcast {
namespace {

/// What torchtitan is told of the units of a stage, where embedding and head count as a block each: nothing where its
/// own number of stages is the layout's, else the number that makes as many stages of them; 0: there is none.
std::optional<std::int64_t> blocks_of_a_stage(const LaunchInput& in) {
  const std::int64_t own = in.schedule() == "gpipe" || in.schedule() == "1f1b" ? 1 : 2;
  if (in.layout.chunks == own) return std::nullopt;
  const std::int64_t stages = in.layout.pipeline * in.layout.chunks, units = in.blocks() + 2;
  for (std::int64_t blocks = 1; blocks <= units; ++blocks)
    if ((units + blocks - 1) / blocks == stages) return blocks;
  return 0;
}

class TitanArguments {
 public:
  void option(const std::string& name, const std::string& value) { text_ += " \\\n--" + name + " " + value; }
  void option(const std::string& name, std::int64_t value) { option(name, std::to_string(value)); }
  void flag(const std::string& name) { text_ += " \\\n--" + name; }
  /// One of a union of configurations, which stands behind all options.
  void choice(const std::string& name, const std::string& value) { text_ += " \\\n" + name + ":" + value; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Whether it can capture a step in a CUDA graph: not with pipelines, nor with most ways of sending tokens to experts.
bool records(const LaunchInput& in) { return in.layout.pipeline == 1 && in.layout.expert == 1; }

/// Whether it gathers weights in every micro-batch that zero=2 gathers once a step.
bool gathers_again(const LaunchInput& in) {
  const Layout& l = in.layout;
  return l.zero == 2 && l.data * l.context > 1 && l.pipeline == 1 && in.micro_batches > 1;
}

void add_parallelism(const LaunchInput& in, TitanArguments& out) {
  const Layout& l = in.layout;
  const std::string p = "parallelism.";
  const std::int64_t shard = l.zero == 0 ? 1 : l.shard > 0 ? l.shard : l.data;
  out.option(p + "data_parallel_replicate_degree", l.data / shard);
  out.option(p + "data_parallel_shard_degree", shard);
  if (l.zero > 0) out.option(p + "fsdp_reshard_after_forward", l.zero == 3 ? "always" : "never");
  if (l.tensor > 1) out.option(p + "tensor_parallel_degree", l.tensor);
  // What is compiled: blocks and loss, but for what the model has eager; messages beside products are the compiler's.
  const bool overlaps = l.overlap_tensor == TensorOverlap::products && l.tensor > 1,
             described = in.workload.shape.has_value();
  const bool blocks = overlaps || (described && !is_eager(in.workload.shape->kernels));
  const bool loss = described ? !is_eager(in.workload.shape->loss) : overlaps;
  if (blocks || loss) out.flag("compile.enable");
  if (blocks != loss) out.option("compile.components", blocks ? "model" : "loss");
  if (overlaps) out.flag("compile.enable_async_tensor_parallel");
  if (l.context > 1) out.option(p + "context_parallel_degree", l.context);
  if (l.expert > 1) out.option(p + "expert_parallel_degree", l.expert);
  // It captures a step in a CUDA graph unless told not to, which has to be told where that is not what was predicted.
  if (!in.recorded()) out.flag("training.disable_cuda_graphs");
  if (l.pipeline == 1) return;
  out.option(p + "pipeline_parallel_degree", l.pipeline);
  out.option(p + "pipeline_parallel_schedule", std::string(torch_schedule(in)));
  out.option(p + "pipeline_parallel_microbatch_size", l.micro_batch);
  if (const auto blocks = blocks_of_a_stage(in)) out.option(p + "pipeline_parallel_layers_per_stage", *blocks);
}

}  // namespace

std::string why_not_titan(const LaunchInput& in) {
  const Layout& l = in.layout;
  if (std::string why = units_differ(l); !why.empty()) return why;
  if (in.workload.shape && in.workload.shape->optimizer != Optimizer::adam)
    return "its configuration knows Adam alone; another optimizer is code of your own";
  if (in.workload.shape ? in.workload.shape->heads == 0 || in.workload.shape->name.starts_with("bert")
                        : in.workload.hidden == 0)
    return "it trains decoders";
  if (in.workload.dtype == DataType::f16) return "it trains in bfloat16 or float32";
  if (in.workload.dtype == DataType::bf16 && in.workload.bytes_of_gradient <= 2) return "it sums gradients in float32";
  if (in.scheme() != "1d") return "its tensor parallelism is 1-D, not " + std::string(in.scheme());
  if (l.expert > 1 && l.tensor > 1 && !l.whole_experts())
    return "it spreads whole experts over the tensor group, too, and divides none (etp=1)";
  if (l.expert == 1 && l.whole_experts())
    return "without expert parallelism it divides experts as other layers (etp=tp)";
  if (l.tensor > 1 && !l.sequence_parallel) return "its tensor parallelism divides the sequence, too (sp=on)";
  if (l.tensor > 1 && l.overlap_tensor == TensorOverlap::sums)
    return "it waits for sums of input gradients; what it hides are gathers and sums beside products "
           "(overlap_tp=products)";
  if (l.tensor > 1 && l.overlap_tensor == TensorOverlap::products && in.workload.shape &&
      is_eager(in.workload.shape->kernels))
    return "its compiler is what takes products apart (overlap_tp=products with kernels=compiled in the model)";
  if (in.recorded() && !records(in))
    return "it records no step of pipelines, nor of spread experts (launch=async in the model)";
  if (l.overlap_expert)
    return "its schedules with whole backward passes wait for the tokens of experts (overlap_ep=off)";
  if (l.context_exchange == ContextExchange::all_to_all)
    return "its context parallelism gathers keys and values, and exchanges no heads (cp_comm=a2a)";
  if (l.zero > 1 && l.pipeline > 1 && l.data * l.context > 1)
    return "its pipelines keep whole gradients until a stage's last micro-batch (zero=1)";
  if (l.zero > 0 && l.zero < 3 && l.data * l.context > 1 && !l.overlap_gather)
    return "it gathers the weights of each block ahead of its first forward pass (overlap_gather=on)";
  if (gathers_again(in))
    return "behind each micro-batch it frees the weights that zero=2 keeps for the step (zero=3, or one micro-batch)";
  if (l.zero == 0 && l.data * l.context > 1 && l.tensor * l.context * l.pipeline > 1)
    return "its replicas without sharding (zero=0) go with no other dimension";
  if (std::string why = why_not_scheduled(in); !why.empty()) return why;
  if (l.pipeline > 1 && blocks_of_a_stage(in) == 0)
    return "no number of layers a stage makes " + std::to_string(l.pipeline * l.chunks) + " stages of " +
           std::to_string(in.blocks() + 2) + ", as it counts embedding and head";
  if (stages_differ(in, StageRule::equal_units))
    return "it deals equal numbers of layers to stages, embedding and head among them (without stages=, with kernels "
           "of its own in the model)";
  if (l.offloads(Offloaded::activations)) return "it does not offload activations";
  if (l.offloaded != 0 && (!l.offloads(Offloaded::parameters) || l.data * l.context == 1))
    return "what it leaves to the host are the parameters that FSDP divides, with the optimizer (offload=parameters)";
  if (std::string why = modules_alone(l); !why.empty()) return why;
  if (std::string why = plain_zero(l); !why.empty()) return why;
  if (l.recomputation == Recomputation::selective)
    return "its selective recomputation keeps what this one does again, the core of attention; its own is recompute=op";
  if (l.recomputed_blocks > 0 || l.recomputed_together > 1)
    return "its full recomputation is of every block by itself, not of the first blocks of a stage or of groups";
  // Its trainer never turns synchronisation off (trainer.py).
  if (l.zero <= 1 && l.pipeline == 1 && in.micro_batches > 1 && l.data * l.context > 1)
    return "it reduces gradients in every micro-batch (zero=3, or one micro-batch) except in pipelines";
  if (l.shard > 0 && l.pipeline == 1 && in.micro_batches > 1)
    return "it sums gradients across the groups in every micro-batch, not once a step (shard=0, or one micro-batch)";
  // _post_backward of torch/distributed/pipelining/stage.py
  if (l.pipeline > 1 && l.zero > 0 && l.data * l.context > 1 && l.overlap_gradients)
    return "it reduces gradients behind a stage's last backward pass, not beside it (overlap_dp=off)";
  if (!own_way_of(in, "torchtitan").empty())
    return "gradients travel as it sends them, not by " + text_of(in.plan.gradients);
  return {};
}

std::string titan_text(const LaunchInput& in) {
  const Layout& l = in.layout;
  TitanArguments out;
  add_parallelism(in, out);
  if (l.offloads(Offloaded::parameters)) out.flag("training.enable_cpu_offload");
  out.option("training.local_batch_size", l.pipeline > 1 ? l.micro_batch * in.micro_batches : l.micro_batch);
  out.option("training.global_batch_size", in.global_batch());
  if (in.workload.sequence > 0) out.option("training.seq_len", std::int64_t(in.workload.sequence));
  out.option("training.mixed_precision_param", in.workload.dtype == DataType::bf16 ? "bfloat16" : "float32");
  out.option("training.mixed_precision_reduce", "float32");
  out.choice("activation_checkpoint", l.recomputation == Recomputation::full        ? "full"
                                      : l.recomputation == Recomputation::operators ? "selective"
                                                                                    : "none");
  return "# torchtitan 0.3 on " + std::to_string(l.devices()) + " devices, with the configuration of your model\n" +
         (!in.workload.shape || in.recorded() ? "" : "# predicted without CUDA graphs (launch=graphs in the model)\n") +
         (in.workload.shape && linear_type(*in.workload.shape)
              ? "# with its float8 converter of linear layers in that configuration\n"
              : "") +
         (in.workload.shape && in.workload.shape->loss_chunks > 1
              ? "# with its ChunkedLossWrapper of " + std::to_string(in.workload.shape->loss_chunks) +
                    " chunks in that configuration\n"
              : "") +
         (in.workload.shape && in.workload.shape->documents > 0
              ? "# with attention that keeps to documents (block_causal masks) in that configuration\n"
              : "") +
         (l.expert_exchange == ExpertExchange::deduplicated
              ? "# with comm_backend 'deepep' of its experts in that configuration\n"
              : "") +
         "MODULE=... CONFIG=... ./run_train.sh" + out.text();
}

}  // namespace stepcast
