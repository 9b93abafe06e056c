#pragma once
// Layout stages: the units of a priced split dealt to the virtual stages of a pipeline, with the times of their passes.
//
// The parts of both passes of one micro-batch sum to them: compute, recomputation, collectives on the critical path,
// and what sharding (ZeRO-2 and 3) adds beyond what its transfers hide under compute. Internal to the layout
// prediction.
#include <stepcast/parallelism/layout_memory.hpp>
#include <stepcast/parallelism/priced_split.hpp>
#include <stepcast/parallelism/sharded_messages.hpp>
#include <stepcast/pipeline/pipeline.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace stepcast {

/// Parts of the two passes of one micro-batch through one virtual stage. `copies` are those of what is sharded, and
/// what sharding is besides on the host, where it computes, too; elsewhere they are part of `sharding`.
struct PassParts {
  Seconds compute, recomputation, tensor, context, expert, sharding, copies;
  Seconds ring;   ///< all sends of context parallelism, those beside attention as well: no part of the passes
  Seconds idle;   ///< of `compute`, what the device waits for the host
  Seconds paced;  ///< of `compute`, passes of described models that last as long as the host issues their kernels
  /// Of `idle`, described: the host is a step ahead, and what is behind the passes of a step runs meanwhile.
  Seconds meanwhile;
  PassParts& operator+=(const PassParts&);
};
/// Times of both passes: of a unit compute and collectives.
struct UnitPasses {
  Seconds forward, backward;
};
struct VirtualStage {
  std::uint32_t first = 0, units = 0;
  PassParts parts;
  UnitPasses waits;  ///< for the host, which `parts.idle` sums up
  /// By which the forward pass of a step's first micro-batch takes longer than the others, since parameters are
  /// gathered in it. Those of ZeRO-1 and 2 are on their way from the beginning of the step.
  Seconds longer_first;
  Seconds gathered_first;  ///< all that it gathers there
  UnitPasses copies;       ///< by which copies of offloaded activations make a pass longer; in `parts.copies`
  double parameters = 0, expert_parameters = 0, tied_parameters = 0, largest_unit = 0;
  Bytes kept, working, boundary;  ///< bytes of one micro-batch; `working` is what goes beyond `kept`
  Bytes largest_boundary;         ///< of what its units hand on
  Bytes standing_gradient;        ///< UnitCost's, of the unit that has most
  ShardedUnits sharded;
};
/// Adds a unit to what a stage holds and takes.
void add(VirtualStage&, ChunkTimes&, const PricedUnit&, Recomputation, int zero);
/// The blocks of a model, which frameworks checkpoint: of a described one all units but the ends, of a traced one those
/// of the kind that there is most of.
class Blocks {
 public:
  /// The references have to outlive this.
  Blocks(const Workload&, const PricedSplit&);
  /// Of a virtual stage, the units [first, first + units) of the model.
  [[nodiscard]] std::int64_t among(std::uint32_t first, std::uint32_t units) const;
  /// What each of these units does again: the first `recomputed` blocks themselves, all else nothing.
  [[nodiscard]] std::vector<Recomputation> again(std::int64_t recomputed, std::uint32_t first,
                                                 std::uint32_t units) const;

 private:
  [[nodiscard]] bool is_block(std::uint32_t unit) const;
  const Workload& workload_;
  const PricedSplit& split_;
  std::uint32_t most_ = 0;
};
/// Adds what a stage holds to what its device does.
void add(StageMemoryInput& device, const VirtualStage&);
/// A copy of weights that a head shares with an embedding on another device.
void add_tied(StageMemoryInput& device, double elements);
struct StagedSplit {
  std::string unsuitable;  ///< why the plan does not go with sharding, or the stages with the layout; empty: it does
  std::vector<VirtualStage> stages;
  std::vector<ChunkTimes> chunks;  ///< the same stages, for the pipeline
  bool told_by_time = false;       ///< by time, where the program would deal units out otherwise
};

/// `zero`: the ZeRO stage whose copies belong to it; without one they are left out.
[[nodiscard]] UnitPasses unit_passes(const PricedUnit&, Recomputation, std::optional<int> zero);
/// Whether some unit's gradients are reduced in every micro-batch (ZeRO-2 and 3), or parameters are with the host.
[[nodiscard]] bool divides_gradients(const PricedSplit&, const Layout& resolved);
/// Whether ZeRO-1 and 2 gather updated parameters unit by unit beside the first forward pass of the next step; else all
/// of them behind the update, as DeepSpeed's optimizers do (all_gather_dp_groups of runtime/utils.py).
[[nodiscard]] bool gathers_ahead(const Workload&, const Layout&);
/// How many units are gathered at a time in the first forward pass of a step: there is room for all where they stay.
[[nodiscard]] inline std::int64_t first_in_flight(const Layout& l) {
  const bool frees =
      l.zero == 3 || std::ranges::any_of(l.unit_choices, [](const UnitChoice& c) { return c.zero == 3; });
  return frees ? l.units_in_flight : std::numeric_limits<std::int64_t>::max();
}
/// Whether PyTorch's fully_shard runs what ZeRO-1 and 2 divide: unit by unit, whatever buckets a plan has.
[[nodiscard]] bool by_fully_shard(const Workload&, const Layout&);
/// Whether the passes of some unit send what ZeRO divides: gradients, parameters, or both.
[[nodiscard]] bool sends_in_passes(const Workload&, const PricedSplit&, const Layout& resolved);
/// Time of a collective on `bytes` in the group; `hidden`: while the devices compute, which may slow it down.
[[nodiscard]] Seconds exchange(const PricedGroup&, Operation, Bytes, bool hidden);

/// Over which ranks: all that ZeRO divides over, those of a second copy (hpz), of a machine, or across machines.
enum class ShardedOver : std::uint8_t { all, backward, machine, machines };
/// What sharding sends of one unit in a pass of one micro-batch, and what is done beside the bytes.
struct ShardedMessage {
  ShardedOver over = ShardedOver::all;
  Operation operation = Operation::all_gather;
  Bytes dense{}, expert{};  ///< over all, as PricedSplit::sharding() and expert_sharding() of the unit's own split
  Seconds dense_time{}, expert_time{}, overhead{};
  Seconds copies{};  ///< those of the device; of the rank's own part to the host, or from it, where that is there
  [[nodiscard]] Seconds time() const { return dense_time + expert_time + overhead + copies; }
};
struct ShardedTransfers {
  ShardedMessage gather;  ///< of its parameters, in the forward pass (ZeRO-3)
  ShardedMessage first;   ///< the same in the first micro-batch of a step (ZeRO-1 and 2 as well: gathers_ahead)
  ShardedMessage again;   ///< in the backward pass
  ShardedMessage reduce;  ///< of its gradients, in the backward pass (ZeRO-2 and 3)
  ShardedMessage across;  ///< behind that, of what was summed within machines (qgz)
  Seconds codec;          ///< on the device, before it is reduced
};
/// Of the unit `number` in forward order; `unit`: its index in the split.
[[nodiscard]] ShardedTransfers sharded_transfers(const Workload&, const PricedSplit&, const Layout& resolved,
                                                 std::uint32_t number, std::uint32_t unit, const ShardedMessages&);
/// Whether a second copy of the parameters (hpz) is there until the update, so that all passes but the first of a step
/// gather from it: DeepSpeed's (invalidate_secondary_tensor of zero/stage3.py). PyTorch's is made behind every forward
/// pass.
[[nodiscard]] inline bool keeps_second_copy(const Workload& w) {
  return w.shape && w.shape->kernels == KernelSet::deepspeed;
}
/// Whether such transfers run beside compute; else the pass waits for each.
[[nodiscard]] inline bool overlaps_sharding(const Workload& w, const Layout& l) {
  return l.overlap_gradients && !w.on_host;
}

/// Whether it depends on which device holds which chunk how units are dealt out.
[[nodiscard]] bool deals_by_device(const Layout& resolved);
/// Requires that the split is suitable and at most as many virtual stages as units; `layout.stage_units`, if there,
/// fit.
[[nodiscard]] StagedSplit staged_split(const Workload&, const PricedSplit&, const Layout& resolved,
                                       std::uint32_t virtual_stages, const ShardedMessages& = {});

}  // namespace stepcast
