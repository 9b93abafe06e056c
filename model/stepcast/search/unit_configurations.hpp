#pragma once
// Unit configurations: the operator graph of a workload for TensorOpt's search: each unit with its own data x tensor
// degrees, ZeRO stage and recomputation, the change of activations between neighbours as edges.
//
// The frontier of this graph is what a device can trade between memory and time when every unit may choose for itself,
// as Mesh-TensorFlow, TensorOpt and Alpa's inner level allow; pipelines are the outer search's (layout_search.hpp). All
// devices work on every unit, each replica on its part of the batch at once. Units and changes are priced as a layout's
// are (priced_split.hpp): a unit's costs are those of both passes of all micro-batches, its collectives and its share
// of the update; its memory is what it keeps until its backward pass, with its state. What such a graph cannot say,
// because it is no sum over units, is left to the prediction of what it finds (unit_frontier.hpp): communication that
// overlaps the passes of other units, buckets of several units, the transient memory of the unit at work. Of
// configurations with the same degrees, those that another one beats in both are left out. Invariant: an assignment
// that gives every unit the same configuration changes nothing between them.
#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/search/frontier.hpp>

#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct UnitGraph {
  OperatorGraph graph;                      ///< one operator a unit
  std::vector<std::vector<UnitChoice>> of;  ///< the configurations of each unit
};
struct UnitGraphOptions {
  std::int64_t micro_batches = 1;  ///< one after the other in a step, on all devices
  /// The gradients of a unit travel under its own backward pass, and only what is longer than that is exposed.
  bool overlap_gradients = false;
  bool dominated = false;  ///< keep configurations that another one of the same degrees beats
};
/// Inapplicable when no configuration works for some unit.
[[nodiscard]] Answer<UnitGraph> unit_graph(const Workload&, const Cluster&, const LayoutOptions&,
                                           const UnitGraphOptions& = {});

}  // namespace stepcast
