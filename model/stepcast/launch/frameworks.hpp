#pragma once
// Frameworks: the settings of launch_settings.hpp, two functions a program: why it cannot, and what to paste (internal
// to the library).
//
// torch.cpp: DistributedDataParallel, fully_shard and torch.distributed.pipelining. titan.cpp: torchtitan.
// megatron.cpp: Megatron-LM. deepspeed.cpp: DeepSpeed. What all are asked for, and Horovod, is in frameworks.cpp.
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/parallelism/stage_division.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

/// What every framework is asked for.
struct LaunchInput {
  const Workload& workload;
  const LayoutPlan& plan;
  const Layout& layout;
  std::int64_t micro_batches = 1;                ///< per pipeline and step
  std::span<const std::uint32_t> stage_units{};  ///< of each stage, chunk by chunk; empty: not known
  MemoryUse memory{};                            ///< as predicted; empty: not known
  bool autocast_counted = false;                 ///< `memory` has what DistributedDataParallel holds (`under_autocast`)
  Bytes device_memory{};                         ///< 0: not known
  Bytes by_own_kernels{};  ///< what its own kernels hold, where they are not the predicted ones; 0: they are

  [[nodiscard]] std::int64_t global_batch() const { return layout.micro_batch * micro_batches * layout.data; }
  [[nodiscard]] std::string_view scheme() const;
  [[nodiscard]] std::string_view schedule() const;
  /// Blocks of equal cost (transformer layers) of the model; 0: nothing repeats.
  [[nodiscard]] std::int64_t blocks() const;
  /// The buckets in which all-reduce sends gradients, in elements; 0: the plan sends them otherwise.
  [[nodiscard]] double bucket_elements() const;
  /// The plan says how large they are, or anything else of the gradients' way, that is not its strategy's standard.
  [[nodiscard]] bool states_gradient_options() const;
  /// Its passes are recorded as a CUDA graph (launch=graphs).
  [[nodiscard]] bool recorded() const { return workload.shape && workload.shape->launch == KernelLaunch::graphs; }
  /// Gradients of weights that autocast casts travel in bfloat16 (gradients=bf16).
  [[nodiscard]] bool sums_in_bf16() const;
  /// What DistributedDataParallel holds under autocast of the predicted kernels; 0: no more than predicted, that is not
  /// known, or its own are others.
  [[nodiscard]] Bytes memory_under_autocast() const;
};

/// Why a framework whose options are those of all layers alike cannot; empty where no unit chooses for itself.
[[nodiscard]] std::string units_differ(const Layout&);
/// Why a framework that leaves nothing to the host cannot; empty where the layout does not ask for it.
[[nodiscard]] std::string leaves_nothing_to_host(const Layout&);
/// Why no framework but Megatron-LM does modules of a block again by themselves; empty where the layout does not.
[[nodiscard]] std::string modules_alone(const Layout&);
/// Why not where it does not do what ZeRO++ adds to stage 3 (hpz=, qwz=, qgz=), a second copy of the parameters apart
/// where it has that; empty: nothing is asked for.
[[nodiscard]] std::string plain_zero(const Layout&, bool has_second_copy = false);
/// Whether units are dealt to the stages of a pipeline otherwise than by this rule.
[[nodiscard]] bool stages_differ(const LaunchInput&, StageRule);
/// A comment where the plan's gradients travel in a way that `framework` does not know: it sends them in its own.
[[nodiscard]] std::string own_way_of(const LaunchInput&, std::string_view framework);

/// The ways in which Megatron-LM's attention (Transformer Engine's) exchanges keys and values of such a model over the
/// context group: windows not around a ring, latent attention in no other way, and GPT-OSS's sinks with heads
/// exchanged. Source: attn_forward_func_with_cp and get_attention_backend of TransformerEngine 2.
[[nodiscard]] std::vector<ContextExchange> context_exchanges_of(const ModelShape&);

/// Whether torch.distributed.pipelining's interleaved schedule takes so many micro-batches: whole rounds of at least a
/// micro-batch a stage.
[[nodiscard]] bool torch_interleaves(const LaunchInput&);
/// Why torch.distributed.pipelining does not run the layout's schedule so; empty: it does.
[[nodiscard]] std::string why_not_scheduled(const LaunchInput&);
/// What it calls the schedule: "1F1B", "ZBVZeroBubble".
[[nodiscard]] std::string_view torch_schedule(const LaunchInput&);

/// Why a program cannot run the layout, empty where it can; then what to paste.
[[nodiscard]] std::string why_not_ddp(const LaunchInput&);
[[nodiscard]] std::string ddp_text(const LaunchInput&);
[[nodiscard]] std::string why_not_fsdp(const LaunchInput&);
[[nodiscard]] std::string fsdp_text(const LaunchInput&);
[[nodiscard]] std::string why_not_torch_pipeline(const LaunchInput&);
[[nodiscard]] std::string torch_pipeline_text(const LaunchInput&);
[[nodiscard]] std::string why_not_titan(const LaunchInput&);
[[nodiscard]] std::string titan_text(const LaunchInput&);
[[nodiscard]] std::string why_not_megatron(const LaunchInput&);
[[nodiscard]] std::string megatron_text(const LaunchInput&);
[[nodiscard]] std::string why_not_deepspeed(const LaunchInput&);
[[nodiscard]] std::string deepspeed_text(const LaunchInput&);
/// What its configuration does not reach.
[[nodiscard]] std::string deepspeed_code(const LaunchInput&);
[[nodiscard]] std::string why_not_horovod(const LaunchInput&);
[[nodiscard]] std::string horovod_text(const LaunchInput&);

}  // namespace stepcast
