#pragma once
// Room layout: how a model and its batch are divided over devices, and how that is written.
//
// It may include base, roofline, cluster, plan and pipeline.
//
// Layout: how a model and its batch are divided over devices: data x tensor x pipeline x context degrees, the rank
// order that says which dimension stays inside a machine, and what goes with them: tensor scheme, pipeline schedule and
// chunks, micro-batch, ZeRO stage, recomputation, sequence and expert parallelism, and which transfers overlap.
//
// Written in front of a plan: `layout(tp=8, pp=4, mb=2, zero=1, order=tp-dp-pp)/ddp(bucket=25 MiB)`. The plan's
// strategy is how each stage's gradients travel in the data-parallel dimension. The data degree follows from the number
// of devices, the number of micro-batches from the global batch, unless they are stated. Experts are spread over
// neighbours among the ranks that hold the same stage (`ep`), and each is divided like the other layers or, with
// `etp=1`, whole, so that they are spread over the tensor group, too (Megatron-LM's expert-tensor-parallel-size, its
// paper arXiv 2504.14960). ZeRO divides over all data-parallel ranks, or with `shard` over groups of so
// many neighbours among them, and replicates across these groups (HSDP, MiCS, ZeRO within a machine). What ZeRO++ (Wang
// et al. 2023, arXiv 2306.10209) adds to stage 3 is `hpz`, `qwz` and `qgz`. Invariants (checked by `flaw_of`): degrees
// >= 1 and multiply to the number of devices; the global batch divides into whole micro-batches. Not modelled: layouts
// that differ from stage to stage, except for the number of units, and, without a pipeline, for what each unit chooses
// (UnitChoice).
//
// Layouts as text are read and written in text.cpp.
#include <stepcast/base/error.hpp>
#include <stepcast/base/units.hpp>
#include <stepcast/plan/strategy.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct TensorScheme;      // tensor_scheme.hpp
struct PipelineSchedule;  // pipeline.hpp

enum class Dimension : std::uint8_t { tensor, context, data, pipeline };
inline constexpr std::size_t dimension_count = 4;
/// What the backward pass computes again: nothing, the core of attention, whole blocks, or what torchtitan's selective
/// checkpoints leave out operator by operator: every second product and all that is bound by memory; or modules of the
/// block that Megatron-Core does again one by one (Layout::recomputed_modules).
enum class Recomputation : std::uint8_t { none, selective, full, operators, modules };
inline constexpr std::size_t recomputation_count = 5;
/// How a context group brings queries to all keys: keys and values go around a ring beside attention ("p2p"; Liu et al.
/// 2023, arXiv 2310.01889), are gathered before it ("allgather"; Grattafiori et al. 2024, arXiv 2407.21783, section
/// 3.3.2), or all-to-alls give every device whole sequences of a part of the heads ("a2a"; DeepSpeed-Ulysses, Jacobs et
/// al. 2023, arXiv 2309.14509). The names are Megatron-LM's.
enum class ContextExchange : std::uint8_t { ring, all_gather, all_to_all };
[[nodiscard]] std::string_view name_of(ContextExchange);
/// How tokens get to their experts and back: to each expert a copy ("alltoall"), or to each machine that has some of a
/// token's experts one, which goes on to their devices inside it ("deepep"; DeepEP, DeepSeek-AI 2024, arXiv 2412.19437,
/// section 3.2.2; Megatron-LM's flex dispatcher).
enum class ExpertExchange : std::uint8_t { all_to_all, deduplicated };
[[nodiscard]] std::string_view name_of(ExpertExchange);
[[nodiscard]] std::string_view name_of(Dimension);  ///< "tp", "cp", "dp", "pp"
[[nodiscard]] std::string_view name_of(Recomputation);
/// "layernorm+moe_act": of bits by RecomputedModule.
[[nodiscard]] std::string modules_text(std::uint8_t modules);

/// What of 1-D tensor parallelism's messages runs beside compute: nothing; sums of input gradients, beside the weight
/// gradients of the same product (Megatron-LM's default); with sequence parallelism, besides, what enters and leaves
/// products in as many parts as there are devices, each beside the product of another part (Megatron-LM's
/// --tp-comm-overlap, torchtitan's asynchronous tensor parallelism; Wang et al., ASPLOS 2023).
enum class TensorOverlap : std::uint8_t { nothing, sums, products };
[[nodiscard]] std::string_view name_of(TensorOverlap);  ///< "products"

/// What a layout leaves in the memory of the machine instead of the device's (ZeRO-Offload, Ren et al. 2021, arXiv
/// 2101.06840): the optimizer's state, with which the host updates the parameters; the parameters and gradients that
/// ZeRO-3 divided as well, which come and go unit by unit (ZeRO-Infinity; PyTorch's CPUOffloadPolicy); what blocks keep
/// from their forward to their backward pass.
enum class Offloaded : std::uint8_t { optimizer, parameters, activations };
inline constexpr std::size_t offloaded_count = 3;
[[nodiscard]] std::string_view name_of(Offloaded);

/// What neighbouring units choose for themselves, as TensorOpt's operators do: `units=tp4+16*tp1-zero3-full`. Their
/// data degree is what their tensor degree leaves of the devices.
struct UnitChoice {
  std::uint32_t units = 1;  ///< how many
  std::int64_t tensor = 1;
  int zero = 0;
  Recomputation recomputation = Recomputation::none;
  bool operator==(const UnitChoice&) const = default;
};
/// "tp1-zero3-full": the choice of a unit, without how many.
[[nodiscard]] std::string text_of(const UnitChoice&);

/// Layout::shard of "shard=machine", and backward_shard of "hpz=machine": those data-parallel ranks that share a
/// machine (with_machine_shard).
inline constexpr std::int64_t shard_of_machine = -1;

struct Layout {
  std::int64_t tensor = 1, context = 1, data = 0, pipeline = 1;  ///< data 0: what is left of the devices
  std::int64_t expert = 1;                                       ///< divides expert_ranks()
  std::int64_t expert_tensor = 0;  ///< devices that divide each expert: `tensor` (0), or 1
  std::int64_t chunks = 1;         ///< parts of the model that a stage holds, apart from one another (interleaving)
  std::int64_t micro_batch = 0;    ///< samples; 0: the traced batch, or what is fastest (MicroBatchBy)
  ContextExchange context_exchange = ContextExchange::ring;
  ExpertExchange expert_exchange = ExpertExchange::all_to_all;
  int zero = 0;            ///< ZeRO stage, 0 to 3 (3: FSDP's full shard)
  std::int64_t shard = 0;  ///< neighbouring data-parallel ranks over which ZeRO divides; divides `data`; 0: all
  /// zero=3: neighbouring data-parallel ranks that divide a second copy of the parameters among them, which backward
  /// passes gather (ZeRO++'s hpZ; reshard_after_forward=N of PyTorch's fully_shard); divides `data`; 0: none.
  std::int64_t backward_shard = 0;
  bool quantized_weights = false;  ///< zero=3: parameters are gathered in 8 bits (ZeRO++'s qwZ)
  /// zero=3: gradients are summed in 4 bits, by all-to-alls within machines and then across them (ZeRO++'s qgZ).
  bool quantized_gradients = false;
  std::int64_t units_in_flight = 2;  ///< zero=3: gathered units that are held at a time (FSDP's limit; 1: no prefetch)
  Recomputation recomputation = Recomputation::none;
  /// Of full recomputation: the first so many blocks of each stage (of each of its chunks) only, as Megatron-LM's
  /// method "block" does; 0: all.
  std::int64_t recomputed_blocks = 0;
  /// In place of that: neighbouring blocks that keep one input and are done again together (its method "uniform").
  std::int64_t recomputed_together = 1;
  std::uint8_t recomputed_modules = 0;  ///< of recomputation by modules: which, a bit each (RecomputedModule)
  std::uint8_t offloaded = 0;           ///< what is in the host's memory, a bit each (Offloaded)
  std::int64_t offloaded_blocks = 0;    ///< of activations: those of the first so many blocks of each chunk; 0: all
  bool sequence_parallel = false;
  bool overlap_pipeline = true;  ///< sends between stages run beside compute
  /// Tokens travel to and from experts beside the compute of another micro-batch: where a forward pass follows a
  /// backward pass on its device, both go through their blocks together (Megatron-LM's
  /// --overlap-moe-expert-parallel-comm, DualPipe).
  bool overlap_expert = false;
  TensorOverlap overlap_tensor = TensorOverlap::nothing;
  bool overlap_gradients = true;  ///< gradients travel while the last micro-batch is in its backward pass
  /// zero=1 and 2: updated parameters are gathered unit by unit beside the first forward pass that needs them
  /// (Megatron-LM's --overlap-param-gather; PyTorch's fully_shard), else all of them behind the update (DeepSpeed).
  bool overlap_gather = true;
  /// zero=1: ranks hold the optimizer's state of whole tensors. Whole gradients are summed, as without ZeRO, and behind
  /// the update each rank broadcasts its tensors (PyTorch's ZeroRedundancyOptimizer; InternEvo; fairscale's OSS).
  bool whole_tensors = false;
  const TensorScheme* scheme = nullptr;        ///< null: "1d"
  std::int64_t depth = 1;                      ///< the depth of the grid of scheme 2.5d
  const PipelineSchedule* schedule = nullptr;  ///< null: "1f1b", with chunks "interleaved"
  /// Innermost (neighbouring ranks) first.
  std::array<Dimension, dimension_count> order = {Dimension::tensor, Dimension::context, Dimension::data,
                                                  Dimension::pipeline};
  /// Units of each stage (chunk by chunk); empty: as the program deals them out unless told (`usual_stages`), by time
  /// where it has to be told or the job was traced.
  std::vector<std::uint32_t> stage_units;
  bool stages_by_time = false;  ///< by what units take, where that spares the busiest device anything
  /// In forward order, neighbours different; empty: all units as `tensor`, `zero` and `recomputation` say. Else those
  /// are left as they are, `tensor` is resolved to the least of the units', and there is no other way of dividing.
  std::vector<UnitChoice> unit_choices;

  [[nodiscard]] std::int64_t devices() const { return tensor * context * data * pipeline; }
  [[nodiscard]] std::int64_t degree(Dimension) const;
  [[nodiscard]] constexpr bool offloads(Offloaded part) const {
    return (offloaded >> static_cast<unsigned>(part) & 1) != 0;
  }
  /// Whether experts are whole where other layers are divided.
  [[nodiscard]] bool whole_experts() const { return expert_tensor == 1 && tensor > 1; }
  /// Ranks of a stage among which experts may be spread: of data, beside which those of context and, of whole experts,
  /// of tensor lie in the standard order. Of a layout whose data degree is known.
  [[nodiscard]] std::int64_t expert_ranks() const;
  /// Ranks that hold the same part of the same experts.
  [[nodiscard]] std::int64_t expert_replicas() const;
  /// The ZeRO stage as passes and gradients see it: whole tensors are dealt out behind them.
  [[nodiscard]] constexpr int zero_in_passes() const { return whole_tensors ? 0 : zero; }
  /// Ranks over which ZeRO divides: those of the context dimension, too. Of a resolved layout.
  [[nodiscard]] std::int64_t sharding() const { return (shard > 0 ? shard : data) * context; }
  /// sharding(), of experts.
  [[nodiscard]] std::int64_t expert_sharding() const {
    return expert == 1 && !whole_experts() ? sharding() : expert_replicas();
  }
  bool operator==(const Layout&) const = default;
};

/// Whether a ZeRO stage divides the optimizer's state while parameters stay whole, which are gathered once a step.
[[nodiscard]] constexpr bool gathers_updates(int zero) { return zero == 1 || zero == 2; }

/// Whether the ranks of tensor, context and data that hold one stage are neighbours, in this order.
[[nodiscard]] bool neighbours_hold_a_stage(const Layout&);

/// A layout and the plan for the gradients of its data-parallel dimension.
struct LayoutPlan {
  Layout layout;
  PlanSpec gradients;
};
/// Reads "layout(tp=8, pp=4)/ddp", a plan without a layout, or what frameworks call sharded data parallelism ("fsdp",
/// "hsdp(mb=1)", "zero1(mb=4)/ddp(bucket=5 MiB)"); throws InputError with column and suggestion.
[[nodiscard]] LayoutPlan layout_plan_of(std::string_view text);
/// True when the text has a layout in front, or is such a name.
[[nodiscard]] bool has_layout(std::string_view text);
/// "layout(tp=8, pp=4)": only what differs from the defaults; reads back to the same value, where the names of default
/// scheme and schedule ("1d", "1f1b") count as none.
[[nodiscard]] std::string text_of(const Layout&);
/// Behind "stages=": "3+4+4+3", "by_time"; empty: as the program deals units out.
[[nodiscard]] std::string stages_text(const Layout&);
/// Behind "offload=": "optimizer+activations"; empty: nothing.
[[nodiscard]] std::string offload_text(const Layout&);
/// Behind "recompute=": "full", "layernorm+moe_act".
[[nodiscard]] std::string recomputation_text(const Layout&);
[[nodiscard]] std::string text_of(const LayoutPlan&);
/// What can be said of a layout in its text, with the default behind a semicolon.
struct LayoutField {
  std::string_view name, summary;
  bool is_number = false;  ///< its values are whole numbers: a sweep can take it as an axis
};
[[nodiscard]] std::vector<LayoutField> layout_fields();
/// The layout with one field set from its text: with_field(layout, "tp", "8"). Throws InputError for an unknown name or
/// a value that the field does not take.
[[nodiscard]] Layout with_field(Layout, std::string_view name, std::string_view value);

/// The layout with everything spelled out for `devices` and a global batch: data degree, schedule and scheme; an open
/// micro-batch is all samples of a data-parallel part. Inapplicable with the reason (degrees that do not multiply, a
/// batch that does not divide, a schedule that does not work for these numbers).
[[nodiscard]] Answer<Layout> resolved(Layout, std::int64_t devices, double global_batch);
/// What a layout of an open micro-batch may take, most samples first: all that divide the samples of a data-parallel
/// part. Empty where the micro-batch is said, or degrees or batch do not work.
[[nodiscard]] std::vector<std::int64_t> micro_batch_choices(Layout, std::int64_t devices, double global_batch);
/// Micro-batches per pipeline and step of a resolved layout.
[[nodiscard]] std::int64_t micro_batches(const Layout&, double global_batch);

}  // namespace stepcast
