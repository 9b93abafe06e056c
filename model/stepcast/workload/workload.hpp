#pragma once
// Room workload: a model as units that a layout divides, traced or described.
//
//   embedding | block | block | ... | block | head       units of three kinds, each with its cost under a split
//
// It may include profile, roofline, cluster and layout.
//
// Workload: a model as a layout divides it: units in forward order (embedding, equal blocks, head) with what each of
// them costs for a micro-batch under a split, whether the model was traced or described.
//
// From a profile: repeated blocks of layers are recognised (profile/blocks.hpp) and become units; GEMM time scales with
// the work and, where shapes are known, with the device's efficiency on smaller tiles, memory-bound time with the
// bytes, launch-bound time (host issue) not at all. From a description (model_shape.hpp): the device's roofline. Either
// way `assumed` says what was not measured. Invariants: at least one unit; costs finite and >= 0; a split of one device
// gives back the traced times. Not modelled: units whose cost depends on their position beyond their kind.
//
// described.cpp makes the workload of a model shape, traced_units.cpp that of a profile.
#include <stepcast/cluster/collective.hpp>
#include <stepcast/layout/layout.hpp>
#include <stepcast/layout/tensor_scheme.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/roofline/device.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// How one unit is divided, and for how many samples it works.
struct Split {
  double micro_batch = 1;
  const TensorScheme* scheme = nullptr;  ///< null: 1d
  TensorGrid grid{};
  bool sequence_parallel = false;
  std::int64_t context = 1, expert = 1;
  bool whole_experts = false;  ///< not divided by `grid`, whose devices have tokens of their own for them
  ContextExchange context_exchange = ContextExchange::ring;
  bool pipelines_products = false;  ///< TensorOverlap::products
  bool operator==(const Split&) const = default;
};

/// A sum of input gradients that can run beside the weight gradient of the same product.
struct InputSum {
  TensorTransfer transfer;
  Seconds weight_gradient;
};

/// A product whose rows are gathered, or whose results are summed, part by part: a part for each member of the
/// transfer, beside the product of another one.
struct PipelinedProduct {
  TensorTransfer transfer;
  Seconds whole, in_parts;  ///< the product alone
  bool unread = false;      ///< the transfer is one of UnitCost::unread_tensor
};

/// One unit, one micro-batch, one device.
struct UnitCost {
  Seconds forward, input_gradient, weight_gradient;  ///< elapsed compute: the larger of host issue and device
  /// What of it the device waits for the host: described, of the unit by itself; traced, where the host sets the pace
  /// of the step and never waits itself: messages and copies run meanwhile, whenever they are ready. Below zero of a
  /// traced unit whose kernels take longer than their issue.
  Seconds forward_idle, backward_idle;
  Seconds forward_issue, backward_issue;  ///< what the host needs to issue its kernels on a device
  /// Forward the host waits for the device: for how many tokens go to each expert, which sizes what it issues next.
  bool waits_forward = false;
  Seconds paced;               ///< described: of both passes, those that last as long as that
  Seconds attention;           ///< part of `forward` that selective recomputation runs again
  Seconds attention_backward;  ///< what `attention` takes of the backward pass
  Seconds operators;           ///< part of `forward` that recomputation by operators runs again
  Seconds unread;              ///< part of `forward` that full recomputation leaves out
  std::array<Seconds, recomputed_module_count> modules{};       ///< parts of `forward` that these modules take
  std::vector<TensorTransfer> forward_tensor, backward_tensor;  ///< on the critical path, over the tensor group
  std::vector<TensorTransfer> unread_tensor;  ///< those in `forward_tensor` that full recomputation does not send again
  std::vector<InputSum> input_sums;           ///< those in `backward_tensor` that TensorOverlap::sums may hide
  std::vector<PipelinedProduct> forward_products, backward_products;  ///< where Split::pipelines_products
  /// Over the context group, one exchange of the ring a count, each beside the attention to one block.
  std::vector<TensorTransfer> context_forward, context_backward;
  /// Over the context group, before and behind attention, which waits.
  std::vector<TensorTransfer> context_first_forward, context_first_backward;
  std::vector<TensorTransfer> expert_transfers;  ///< per pass, over the expert group
  /// Where there are such: parts of the passes' compute that work on the tokens of experts.
  Seconds experts_forward, experts_input_gradient, experts_weight_gradient;
  double parameters = 0;         ///< elements on this device, experts included
  double expert_parameters = 0;  ///< the part of `parameters` whose gradients only data / expert replicas share
  double tied_parameters = 0;    ///< shared with the first unit, not in `parameters`: held again on another stage
  /// Activations between forward and backward, by Recomputation; of modules as without any.
  std::array<Bytes, recomputation_count> kept;
  std::array<Bytes, recomputed_module_count> of_module{};  ///< what of it is not kept where one of these is done again
  /// Full recomputation does it again, but for `unread`; not the first and the last unit, as frameworks do.
  bool checkpointed = true;
  Bytes working;            ///< the largest transient of its passes (one unit's full activations)
  Bytes gradient_at_work;   ///< beside it, of a weight
  Bytes standing_gradient;  ///< gradients of its weights that nothing is added up in, which such units share
  Bytes boundary;           ///< what it hands on, per device
};

/// A parameter tensor of a traced unit.
struct TracedTensor {
  std::uint32_t layer = 0;            ///< its gradient is ready when the backward pass of this layer ends; in the unit
  double divided = 0, other = 0;      ///< elements, as those of the unit
  std::vector<std::int64_t> shape{};  ///< of the whole tensor; empty when only the size is known
  std::uint8_t divided_extent = 0;    ///< the extent of `shape` that tensor parallelism divides
};
/// A traced unit from within: its layers in forward order, and its tensors in the order of their gradients.
struct TracedInside {
  struct Shares {
    double forward = 0, backward = 0;
  };
  std::vector<Shares> layers;                 ///< each layer's share of the passes' time
  std::vector<std::uint32_t> backward_order;  ///< layers in the order of their backward passes
  std::vector<TracedTensor> tensors;
};

/// A kind of unit; described or traced.
struct UnitKind {
  std::string name;
  std::optional<UnitShape> shape;     ///< described
  std::vector<std::uint32_t> layers;  ///< traced: the layers of the first unit of this kind
  TracedInside inside;                ///< those layers from within
  PassCost forward, backward;         ///< traced: mean over the units of this kind, for `traced_batch`
  double divided_parameters = 0, other_parameters = 0, expert_parameters = 0, tied_parameters = 0;
  std::vector<MatrixProduct> products;  ///< traced: forward products that the tensors' shapes tell, for one sample
  std::vector<Division> divisions;      ///< how each of the products is divided
  double divided_share = 0;             ///< traced: of the time outside products, what tensor parallelism divides
  double product_share = 0;             ///< traced without a device: of the host's time, what products take
  double attention_share = 0;           ///< traced: of `forward`, what selective recomputation runs again
  KeptActivations kept;                 ///< per sample
  Bytes boundary;                       ///< per sample
  int tensor_reductions = 0, expert_exchanges = 0;
};

struct Workload {
  std::string name;
  std::vector<UnitKind> kinds;
  std::vector<std::uint32_t> units;  ///< forward order; index into kinds
  std::optional<ModelShape> shape;
  std::optional<Device> device;    ///< roofline; traced workloads may do without
  DataType dtype = DataType::f32;  ///< the type of activations, weights and gradients on the wire
  double traced_batch = 0;         ///< samples; 0: described
  /// Traced on a computer without a device: no stream runs beside the thread that computes, which waits for each
  /// collective of sharded parameters and gradients where it issues it (FSDP's are not asynchronous).
  bool on_host = false;
  /// Traced, or estimated of one worker: seconds in which a byte of a gradient gets into a bucket, and out of it.
  double copy_in = 0, copy_out = 0;
  double sharding = 0;      ///< traced under FSDP: what it does beyond that for a byte that is gathered or scattered
  bool host_waits = false;  ///< the host waits for the device in every step, and cannot run ahead into the next
  bool sharded = false;     ///< traced under FSDP or ZeRO: the host's part of it is in the units' times
  /// The host sets the pace of the update: a kernel for every tensor, which dividing each of them leaves as many.
  bool host_updates = false;
  double sequence = 0, hidden = 0;  ///< 0 when unknown: schemes that need them are inapplicable
  double experts_per_token = 1;
  double bytes_of_state = 16;  ///< per parameter: weights, gradient and optimizer state (mixed precision Adam: 16)
  double bytes_of_weight = 2, bytes_of_gradient = 2;
  Seconds update;                             ///< optimizer on all parameters of one device; divided with them
  Seconds gradient_passes, gradient_scaling;  ///< described: over whole gradients; the latter with other ranks only
  Seconds step_overhead;                      ///< what every step takes beyond its units
  PassCost besides;  ///< traced on a device: update, input and everything else of a step, host and device
  /// Of the traced batch on every device: what the step waits for its input, and how often a loader beside it delivers.
  /// The loaders of a machine are shared by the replicas that it feeds.
  Seconds input, input_period;
  double relative_error = 0;
  RatesOf rates = RatesOf::steps;  ///< described, on a device of which no step was measured
  Bytes transient;                 ///< traced: of one sample, what a pass takes beyond what is kept
  bool activations_known = false;  ///< else memory counts weights and state only, and says so
  std::vector<std::string> assumed;

  [[nodiscard]] double parameters() const;
};

[[nodiscard]] Workload workload_of(const ModelShape&, const Device&);
/// Inapplicable for a profile that cannot be divided at all (one layer); what cannot be known is `assumed`.
[[nodiscard]] Answer<Workload> workload_of(const Profile&, const Device* device = nullptr);
/// Cost of one unit of a kind. Inapplicable when the split does not work for it (heads that do not divide, ...).
[[nodiscard]] Answer<UnitCost> unit_cost(const Workload&, std::uint32_t kind, const Split&);

}  // namespace stepcast
