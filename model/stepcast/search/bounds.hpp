#pragma once
// Layout search bounds: what no layout of a branch of the search can go below, in time and in memory.
//
// Of a family, from sums over the units alone: the devices' mean load (micro-batches times all passes, over the
// devices, with the way to and from each device), the largest unit's load, the path of one micro-batch. Of a layout,
// from the stages as they are dealt out, with the times of sharding and sends:
//
//     last backward of the first device  >=  way to d + work of d + way back from d                    for each d
//     last backward of d                 >=  way to d + work of d
//     step  >=  last backward + exposed gradients + update of either
//
// which for even stages under 1F1B is the step itself. Exposed gradients are those of the first device, known exactly,
// and dear enough to be asked for only where the rest does not settle it. Memory is that of each device with the
// micro-batches that its schedule keeps at least. Full recomputation of the fewest blocks that fit is at least as long
// as none and needs at least as much as that of all; where these do not settle it, the fewest whose bound fits tell
// more, exposed gradients aside. Invariant (tested on random layouts): a bound is never above the
// prediction of any layout that it covers. Not modelled: transfers that hold up a schedule with few micro-batches in
// flight; gradients of other devices than the first.
#include <stepcast/parallelism/tables.hpp>
#include <stepcast/search/families.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace stepcast {

struct LayoutBound {
  Seconds iteration;
  Bytes memory;
};

class LayoutBounds {
 public:
  /// The references have to outlive this.
  LayoutBounds(const LayoutFamilies&, LayoutTables&);
  /// Of all members. Inapplicable when no unit can be divided so.
  [[nodiscard]] Answer<LayoutBound> of(const LayoutFamily&);
  /// Of one member by sums over the units alone, which is less than `of` and a small part of its work. Requires that
  /// `of` the family is applicable.
  [[nodiscard]] LayoutBound by_sums(const LayoutFamily&, const LayoutSwitches&);
  /// Of one member, exposed gradients aside. Fast when asked for one family after the other. Requires that `of` the
  /// family is applicable.
  [[nodiscard]] LayoutBound of(const LayoutFamily&, const LayoutSwitches&);
  /// With the exposed gradients of the first device. Inapplicable when they are.
  [[nodiscard]] Answer<LayoutBound> with_gradients(const LayoutFamily&, const LayoutSwitches&);
  /// Of a member that does some blocks again: how many of each stage it does at least, so that it may fit, and most,
  /// one less than all.
  struct BlockCounts {
    std::int64_t least = 1, most = 0;
  };
  [[nodiscard]] BlockCounts blocks_of(const LayoutFamily&, const LayoutSwitches&);

 private:
  /// What a member's stages take, whatever its gradients.
  struct Staged {
    StagedSplit split;
    std::array<Seconds, 2> first_end, iteration;  ///< by overlap of sends: last backward of the first device; the step
    Bytes memory;
    std::vector<std::uint32_t> first_content;  ///< units of the first device, by kind
    Seconds update;                            ///< what the first device takes to update
    Seconds meanwhile;                         ///< what of all behind the passes may run while it waits for the host
  };
  void enter(const LayoutFamily&);
  Staged staged_as(const LayoutFamily&, const LayoutSwitches&, const Layout&);
  /// Blocks of the stage that has most of them, less one: where all are done again it is another member.
  [[nodiscard]] std::int64_t most_blocks(const LayoutFamily&, const LayoutSwitches&);
  /// The memory of that many blocks of each stage done again.
  Bytes memory_of_blocks(const LayoutFamily&, const LayoutSwitches&, std::int64_t blocks);
  /// With so many blocks of each stage done again.
  Staged with_blocks(const LayoutFamily&, const LayoutSwitches&, std::int64_t blocks);
  const PricedSplit& split_of(const LayoutFamily&, const LayoutSwitches&);
  const Staged& staged(const LayoutFamily&, const LayoutSwitches&);
  void bound_times(const LayoutFamily&, const Layout&, Staged&) const;
  void bound_memory(const LayoutFamily&, const Layout&, Staged&) const;
  [[nodiscard]] PipelineShape shape_of(const LayoutFamily&) const;
  [[nodiscard]] Seconds update_of(const Layout&, double parameters) const;
  [[nodiscard]] bool returns_input_gradients(const PipelineSchedule&);

  const LayoutFamilies& families_;
  LayoutTables& tables_;
  std::vector<std::int64_t> units_of_kind_;
  std::uint64_t entered_;  ///< first member of the family that is held
  static constexpr std::size_t tensor_overlaps = 3;
  /// The priced splits of that family, by what of tensor parallelism is hidden, whether modules are done again, and
  /// what of ZeRO stays within machines; made when first asked for.
  std::array<const PricedSplit*, tensor_overlaps * 2 * 3> splits_{};
  std::array<std::vector<std::uint32_t>, tensor_overlaps * recomputation_count>
      divisions_;  ///< units of each stage, by the first of these and recomputation
  std::array<std::optional<Staged>, 3 * tensor_overlaps * recomputation_count * 8>
      staged_;  ///< and by ZeRO stage, its groups and overlap
  /// What stages hold by the first of these and by their recomputed blocks, whatever ZeRO divides.
  std::map<std::pair<TensorOverlap, std::int64_t>, Staged> held_;
  std::vector<std::pair<const PipelineSchedule*, bool>> splitting_;  ///< schedules that split the backward pass
  HotLoop loop_;
};

}  // namespace stepcast
