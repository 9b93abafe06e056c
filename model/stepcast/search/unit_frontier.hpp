#pragma once
// Unit frontier: what a device can trade between memory and time when every unit chooses its own tensor degree, ZeRO
// stage and recomputation: TensorOpt's search (frontier.hpp) over the units of a workload (unit_configurations.hpp).
//
// Gradients travel under the backward pass of their own unit. Long frontiers are thinned on the way; the report says
// so. Invariant: memory rises and time falls along the points; the first and the last one are exact even then. Not
// modelled: what unit_configurations.hpp leaves out, pipelines first of all: those are the layout search's.
#include <stepcast/search/unit_configurations.hpp>

#include <cstdint>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct UnitFrontier {
  UnitGraph units;
  AssignmentFrontier frontier;
};
/// Inapplicable when no configuration works for some unit.
[[nodiscard]] Answer<UnitFrontier> unit_frontier(const Workload&, const Cluster&, const LayoutOptions&);

/// The point with the shortest step within the memory; null when none fits. `cap` 0: no limit.
[[nodiscard]] const Assignment* fastest_within(const AssignmentFrontier&, Bytes cap);

/// Neighbouring units that chose the same.
struct UnitRun {
  std::uint32_t first = 0, units = 0;
  UnitConfiguration configuration;
};
[[nodiscard]] std::vector<UnitRun> runs_of(const UnitGraph&, const Assignment&);

}  // namespace stepcast
