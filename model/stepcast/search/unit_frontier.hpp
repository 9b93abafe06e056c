#pragma once
// Unit frontier: what a device can trade between memory and time when every unit chooses its own tensor degree, ZeRO
// stage and recomputation, and the step its micro-batches: TensorOpt's search (frontier.hpp) over the units of a
// workload (unit_configurations.hpp).
//
// A point is a plan, `layout(mb=2, units=tp4+16*tp1-zero3-full)/ddp`, and its memory and time are those of its
// prediction (layout_prediction.hpp): the search adds up the costs of units and changes, once as if gradients hid under
// the passes of their own unit and once as if they did not, for each number of micro-batches; what it finds, and every
// layout whose units all choose the same, is predicted, and what nothing beats in both is the frontier. Where there are
// few combinations all of them are predicted. Invariants: memory rises and time falls along the points; no layout of
// one choice without a pipeline lies below the frontier; asking for a point's plan gives the point. Not modelled:
// pipelines, which are the layout search's.
#include <stepcast/search/layout_search.hpp>
#include <stepcast/search/unit_configurations.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// One way of choosing for all units.
struct UnitPoint {
  LayoutPlan plan;  ///< with its micro-batch; a plain layout where all units choose the same
  Bytes memory;
  Seconds iteration;
};
struct UnitFrontier {
  std::vector<UnitPoint> points;  ///< memory rises, time falls
  std::uint32_t units = 0;
  double digits = 0;   ///< decimal logarithm of the number of combinations
  bool exact = false;  ///< all combinations were predicted
};
/// Of the plan's way of sending gradients. Inapplicable when no configuration works for some unit.
[[nodiscard]] Answer<UnitFrontier> unit_frontier(const Workload&, const Cluster&, const LayoutOptions&,
                                                 const PlanSpec& gradients);

/// The point with the shortest step within the memory; null when none fits. `cap` 0: no limit.
[[nodiscard]] const UnitPoint* fastest_within(const UnitFrontier&, Bytes cap);

/// Neighbouring units that choose the same, of all `units` of a model under a layout with its micro-batch.
struct UnitRun {
  std::uint32_t first = 0;
  UnitChoice choice;  ///< with how many
};
[[nodiscard]] std::vector<UnitRun> runs_of(const Layout&, std::uint32_t units);

/// The same model on one number of devices.
struct DeviceCount {
  Cluster cluster;
  LayoutOptions options;
  Answer<UnitFrontier> found = Inapplicable{};
};
/// TensorOpt's modes over numbers of devices: `shortest_step` (mini-time) the fastest point that fits on one of them,
/// `fewest_devices` (mini-parallelism) the fastest on the fewest devices where one fits, `least_memory` the point that
/// needs least; each within the memory, and with a step of at most `step` (0: any). The frontiers themselves are its
/// profiling.
struct DeviceChoice {
  const DeviceCount* devices = nullptr;  ///< null: none does
  const UnitPoint* point = nullptr;
};
/// `counts` by rising number of devices. Requires an objective other than `cheapest`.
[[nodiscard]] DeviceChoice chosen(std::span<const DeviceCount> counts, Objective, Seconds step);

}  // namespace stepcast
