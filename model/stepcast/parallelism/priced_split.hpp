#pragma once
// Priced split: what one micro-batch costs each kind of unit under a layout, collectives priced on the groups' links.
//
// Made once per combination of degrees, rank order, micro-batch and sequence parallelism; everything that a layout adds
// to it (stages, schedule, recomputation, ZeRO) is arithmetic on these numbers. Internal to the layout prediction.
#include <stepcast/cluster/collective.hpp>
#include <stepcast/layout/process_group.hpp>
#include <stepcast/workload/workload.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace stepcast {

/// A group of devices and what it costs them to communicate.
struct PricedGroup {
  Cluster cluster;
  CommunicationCost cost;
  std::int64_t members = 1;
};
/// On the cluster's own algorithm, or on the ring where that is unsuitable for the group.
[[nodiscard]] PricedGroup priced(Cluster group);
/// The groups of one cluster, each shape priced once: what a group is priced on is a copy of the cluster with its
/// tables, and thousands of splits have a few dozen shapes among them. Refers to the cluster. Not thread-safe.
class PricedGroups {
 public:
  explicit PricedGroups(const Cluster& cluster) : cluster_(&cluster) {}
  PricedGroups(const PricedGroups&) = delete;
  PricedGroups& operator=(const PricedGroups&) = delete;
  [[nodiscard]] const Cluster& cluster() const { return *cluster_; }
  [[nodiscard]] std::shared_ptr<const PricedGroup> of(const GroupShape&);

 private:
  const Cluster* cluster_;
  std::map<std::vector<std::int64_t>, std::shared_ptr<const PricedGroup>> known_;
};

/// The units of one workload, costed once under each split: thousands of layouts have a few splits among them. Refers
/// to the workload. Not thread-safe.
class CostedUnits {
 public:
  explicit CostedUnits(const Workload& workload) : workload_(&workload) {}
  CostedUnits(const CostedUnits&) = delete;
  CostedUnits& operator=(const CostedUnits&) = delete;
  [[nodiscard]] const Workload& workload() const { return *workload_; }
  /// By kind; valid until the next call.
  [[nodiscard]] std::span<const Answer<UnitCost>> of(const Split&);

 private:
  struct Hash {
    std::size_t operator()(const Split&) const;
  };
  const Workload* workload_;
  std::unordered_map<Split, std::vector<Answer<UnitCost>>, Hash> known_;
};

/// Times of the collectives of one unit in one pass.
struct UnitExchanges {
  Seconds tensor, context, expert;
  [[nodiscard]] Seconds sum() const { return tensor + context + expert; }
};
/// What the device does to send a unit's parameters in 8 bits and its gradients in 4 (ZeRO++), and in how many
/// messages.
struct UnitQuantizing {
  Seconds gather, gather_again, reduce;  ///< `again`: before the backward pass, of what a group of its own has
  double matrices = 0, scales = 0;       ///< tensors of which each is summed by itself; scales that go with their bits
};
/// One unit, one micro-batch, one device.
struct PricedUnit {
  Seconds forward, input_gradient, weight_gradient, attention, operators;  ///< compute
  Seconds forward_idle, backward_idle;                                     ///< UnitCost's: waits for the host
  Seconds forward_issue, backward_issue;                                   ///< UnitCost's: of the host
  Seconds paced;                                                           ///< UnitCost's: by the host
  bool waits_forward = false;                                              ///< UnitCost's
  Seconds forward_hooks, backward_hooks;  ///< what the host does besides under PyTorch's fully_shard
  std::array<Seconds, recomputed_module_count> module_times{};  ///< parts of `forward`
  Seconds modules;                                              ///< their sum over those that the layout does again
  Seconds gathered_again;               ///< what recomputation by operators sends over the tensor group
  Seconds unread, unread_tensor;        ///< of `forward` and its exchanges, what full recomputation leaves out
  Seconds forward_ring, backward_ring;  ///< sends of the context group, of which `context` are the exposed parts
  UnitExchanges forward_exchanges, backward_exchanges;
  /// By which the passes are shorter where tokens travel beside the other one (Layout::overlap_expert).
  Seconds beside_forward, beside_backward;
  /// By ZeRO stage: what PyTorch and DeepSpeed copy and cast of weights before a pass, and of their gradients behind
  /// it.
  std::array<Seconds, 4> copies_forward{}, copies_backward{};
  Seconds copies_once;  ///< beside the gather of a step, under fully_shard that keeps what it gathered (ZeRO-1)
  UnitQuantizing quantizing;
  double parameters = 0, expert_parameters = 0, tied_parameters = 0;
  std::array<Bytes, recomputation_count> kept{};
  std::array<Bytes, recomputed_module_count> of_module{};  ///< of what is kept, what these modules gave
  bool checkpointed = true;
  Bytes working, gradient_at_work, standing_gradient, boundary;
  /// Of units that choose for themselves: gathers before the forward and behind the backward pass where the unit before
  /// is divided otherwise.
  Seconds change_forward, change_backward;
  std::string unsuitable;  ///< why this kind cannot be split so; empty: it can
  Seconds send;            ///< sending its boundary to the next stage, with the gathering at the other end
};

/// The same unit without what its device waits for the host.
[[nodiscard]] PricedUnit on_device(PricedUnit);

struct PricedSplit;
/// Units of one kind that choose the same behind units that choose the same.
struct UnitVariant {
  std::uint32_t kind = 0;
  Layout layout;                     ///< resolved, as if all units chose this
  const PricedSplit* own = nullptr;  ///< the split of that layout: what gradients of this variant travel over
};
struct PricedSplit {
  std::string unsuitable;                 ///< why the split does not work; empty: it does
  std::vector<PricedUnit> units;          ///< one for each kind, or for each variant
  std::vector<UnitVariant> variants;      ///< beside `units`, of units that choose for themselves; else empty
  std::vector<std::uint32_t> variant_of;  ///< by unit, where there are variants
  using Group = std::shared_ptr<const PricedGroup>;
  Group data;         ///< context x data: what sums gradients
  Group expert_data;  ///< replicas of an expert
  Group ends;         ///< first and last stage: tied parameters
  Group shard;        ///< context x a group's part of data, where ZeRO divides within groups; else null
  Group replicas;     ///< beside it: the ranks that hold the same shard
  Group backward;     ///< context x hpz's part of data, over which backward passes gather; else null
  Group machine;      ///< where gradients are summed in 4 bits: context x the part of data on a machine; else null
  Group machines;     ///< beside it: the ranks that sum the same part of the gradients
  Group mirror;       ///< two copies of a stage on the devices of one pipeline

  /// What ZeRO divides over: all that sum gradients, or their group; the same of experts.
  [[nodiscard]] const PricedGroup& sharding() const { return shard ? *shard : *data; }
  [[nodiscard]] const PricedGroup& expert_sharding() const { return shard ? *shard : *expert_data; }
  /// For each unit of the workload its index in `units`.
  [[nodiscard]] std::span<const std::uint32_t> sequence(const Workload&) const;
  [[nodiscard]] std::uint32_t kind(std::uint32_t unit) const { return variants.empty() ? unit : variants[unit].kind; }
  /// What the unit is divided by; `all` where none chooses for itself.
  [[nodiscard]] const Layout& layout(std::uint32_t unit, const Layout& all) const {
    return variants.empty() ? all : variants[unit].layout;
  }
  [[nodiscard]] const PricedSplit& own(std::uint32_t unit) const {
    return variants.empty() ? *this : *variants[unit].own;
  }
};
/// Of described models: the host waits for the device somewhere in a step, and is no step ahead. Devices of a pipeline
/// wait for one another between passes, and their hosts with them.
[[nodiscard]] bool host_waits(const Workload&, const PricedSplit&, const Layout& resolved);
/// How a resolved layout divides a unit.
[[nodiscard]] Split split_of(const Layout& resolved);
/// What a kind of unit costs so, with the copies of tokens that its way of exchanging them sends on this cluster.
[[nodiscard]] Answer<UnitCost> unit_cost(const Workload&, const Cluster&, const Layout& resolved, std::uint32_t kind);
/// The ranks of its groups, inner ones first: those that sum gradients, those of an expert; of context and so many
/// neighbours of data, and beside such a group those at the same place of the others.
[[nodiscard]] std::vector<RankAxis> data_axes(const Layout& resolved);
[[nodiscard]] std::vector<RankAxis> expert_data_axes(const Layout& resolved);
[[nodiscard]] std::vector<RankAxis> part_axes(const Layout& resolved, std::int64_t part);
[[nodiscard]] RankAxis across_parts(const Layout& resolved, std::int64_t part);

/// Of a resolved layout.
[[nodiscard]] PricedSplit priced_split(CostedUnits&, PricedGroups&, const Layout& resolved);
[[nodiscard]] PricedSplit priced_split(const Workload&, const Cluster&, const Layout& resolved);
/// The same with what adding whole gradients to those of the micro-batches before takes (accumulated_gradient).
[[nodiscard]] PricedSplit with_accumulation(const Workload&, PricedSplit, const Cluster&, std::int64_t micro_batches);
/// The split of the same layout without `shard`, with the groups that this makes.
[[nodiscard]] PricedSplit with_shards(const Workload&, PricedSplit, PricedGroups&, const Layout& resolved);
/// The split of the same layout without `hpz`, `qwz` and `qgz`, with what these need.
[[nodiscard]] PricedSplit with_zero_plus(const Workload&, PricedSplit, PricedGroups&, const Layout& resolved);
/// Whether its kernels are of weights in four bytes, which are cast for every pass: PyTorch's.
[[nodiscard]] bool has_copies(const Workload&);
/// What is copied and cast of weights and gradients differs from ZeRO stage to stage (PyTorch's, DeepSpeed's).
[[nodiscard]] bool copies_differ_by_stage(const Workload&);
/// The same where these modules (a bit each) are done again.
[[nodiscard]] PricedSplit with_modules(PricedSplit, std::uint8_t modules);

/// The layout that all units would have if they chose as `choice`, of a resolved one.
[[nodiscard]] Layout layout_of_choice(const Layout& resolved, const UnitChoice& choice);
/// Times of the gathers between two units of which `from` hands on `sample` bytes of each sample, undivided: from d to
/// e parts of the batch, what the consumer's part needs and the producer does not have comes from the devices that
/// share it in gcd(d, e) parts; gradients the same with the roles exchanged.
struct UnitChange {
  Seconds forward, backward;
};
[[nodiscard]] UnitChange unit_change(const Cluster&, const Layout& from, const Layout& to, Bytes sample);
/// Of a layout whose units choose for themselves; `own`: the split of each of its choices, which has to outlive it.
[[nodiscard]] PricedSplit priced_split(const Workload&, const Cluster&, const Layout& resolved,
                                       std::span<const PricedSplit* const> own);

}  // namespace stepcast
