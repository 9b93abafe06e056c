#pragma once
// Layout gradients: what a stage's gradients take beyond its backward pass.
//
// Without ZeRO the plan's strategy sends them: the existing prediction of a profile made of the units of the stage's
// last micro-batch, on the data group's cluster, less its compute. With ZeRO they are reduce-scattered in buckets under
// the backward pass (stage 1; 2 and 3 do so in every micro-batch, stages.hpp) and the updated parameters are
// gathered after the update (1 and 2), or ranks update whole tensors and broadcast them (whole_tensors), as the plan's
// modifiers change that (sharded_messages.hpp). A unit's gradients become ready evenly over its backward pass. Units
// that choose for themselves: those without sharded gradients travel by the strategy, or as stage 1's do if none is
// left undivided, over the group of most of them; what travels over another group, or by another collective, counts as
// the bytes that take as long there. Internal to the layout prediction. Gathers under the next forward pass are in
// stages.hpp. Not modelled: broadcasts of neighbours in the ring that run one behind the other along it.
#include <stepcast/parallelism/stages.hpp>
#include <stepcast/prediction/hot_loop.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace stepcast {

/// Units of one device as indices into the priced units (kinds, or variants), in forward order.
using StageContent = std::vector<std::uint32_t>;

/// Whether the tensors of a stage's profile have the shapes of what a device holds of them. Only codecs ask for them,
/// and a search makes thousands of such profiles.
enum class TensorShapes : std::uint8_t { known, left_out };

/// Last micro-batch of a stage as a profile: what the plan's strategy sees of it. `layers_to`: is given the end of each
/// unit's layers. `again`: what each unit does again; empty: what the layout says of all.
[[nodiscard]] Profile stage_profile(const Workload&, const PricedSplit&, const Layout& resolved,
                                    std::span<const std::uint32_t> units,
                                    std::vector<std::uint32_t>* layers_to = nullptr,
                                    std::span<const Recomputation> again = {}, TensorShapes = TensorShapes::known);

/// A bucket of ZeRO's gradients under the last backward pass. What is 0 is not sent.
struct GradientBucket {
  std::uint32_t layers = 0;      ///< how many of Profile::backward_order are done when it is full
  Seconds compute{}, packing{};  ///< of the layers since the bucket before; of what is sent, with codecs
  Seconds beside{};              ///< both beside transfers, which slow them
  Bytes scattered{}, shard{};    ///< reduce-scattered over the sharding group; its shard, summed over the replicas
  Seconds reduce{}, across{};    ///< what these take
};
struct GradientBuckets {
  std::vector<GradientBucket> buckets;
  Seconds exposed;
  bool own_links = true;  ///< reductions and sums over replicas run beside each other; else one after the other
};
/// Of ZeRO-1, or what is left of ZeRO-2 and 3 within groups (shard=), `profile` that of the stage. Inapplicable when
/// the plan does not go with ZeRO. `layers_to`: behind the last layer of each unit; fully_shard sends unit by unit,
/// other programs by the plan's buckets.
[[nodiscard]] Answer<GradientBuckets> zero_buckets(const Workload&, const Profile&,
                                                   std::span<const std::uint32_t> layers_to, const PricedSplit&,
                                                   const Layout& resolved, const PlanSpec&);
/// All-gather of the updated parameters of a device (ZeRO-1 and 2).
struct GatheredParameters {
  Bytes dense, expert;  ///< as ShardedMessage's
  Seconds dense_time, expert_time, overhead;
  [[nodiscard]] Seconds time() const { return dense_time + expert_time + overhead; }
};
/// Of the `units` whose gradients travel over `split`, as large as the gradients where those have the parameters' type;
/// `of`: the split that the units are numbered in.
[[nodiscard]] Answer<GatheredParameters> gathered_parameters(const Workload&, const PricedSplit& of,
                                                             const PricedSplit& split, const PlanSpec&,
                                                             std::span<const std::uint32_t> units, const Profile&);
/// Whole tensors of a device as they are dealt to the ranks that ZeRO divides over (Layout::whole_tensors): the largest
/// first, each to the rank that has the least (_partition_parameters of PyTorch's zero_redundancy_optimizer.py).
struct DealtTensors {
  struct Part {
    double elements = 0;
    Bytes size{};  ///< of its updated parameters, which it broadcasts: as they are held, in four bytes by PyTorch
    Seconds broadcast{};
  };
  std::vector<Part> parts;  ///< of the ranks that have any: their broadcasts follow one another
  [[nodiscard]] double most() const;
  [[nodiscard]] Seconds broadcasts() const;
};
/// `profile`: that of the device; `tied`: elements of a weight that it holds beside it, the copy of another device's.
/// Inapplicable where the cluster's collective has no broadcast.
[[nodiscard]] Answer<DealtTensors> dealt_tensors(const Workload&, const PricedSplit&, const Profile& profile,
                                                 double tied = 0);
/// Gradient bytes of a unit: all, as the data group sees them, and of experts those that their own group sends, which
/// count there as the bytes that take as long.
struct UnitGradients {
  Bytes counted, expert, expert_counted;
};
[[nodiscard]] UnitGradients unit_gradients(const Workload&, const PricedSplit& own, const PricedUnit&);

/// Exposed after the last backward pass. Inapplicable when the plan is, or does not go with ZeRO.
[[nodiscard]] Answer<Seconds> exposed_gradients(const Workload&, const PricedSplit&, const Layout& resolved,
                                                const PlanSpec&, std::span<const std::uint32_t> units, HotLoop&,
                                                std::span<const Recomputation> again = {});
/// Of that what the device does to bring whole gradients, or those of ZeRO-1, into buckets and out of them.
[[nodiscard]] Seconds bucket_copies(const Workload&, const PricedSplit&, const Layout& resolved, const PlanSpec&,
                                    std::span<const std::uint32_t> units, std::span<const Recomputation> again = {});

}  // namespace stepcast
