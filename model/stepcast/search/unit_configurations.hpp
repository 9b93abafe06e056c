#pragma once
// Unit configurations: the operator graph of a workload for TensorOpt's search: each unit with its own data x tensor
// degrees, ZeRO stage and recomputation, the change of activations between neighbours as edges.
//
// The frontier of this graph is what a device can trade between memory and time when every unit may choose for itself,
// as Mesh-TensorFlow, TensorOpt and Alpa's inner level allow; pipelines are the outer search's (layout_search.hpp). All
// devices work on every unit, each replica on its part of the batch at once. A unit's costs are those of both passes,
// its collectives and its share of the update; its memory is what it keeps until its backward pass, with its state.
// Between units of different degrees the boundary activations (forward) or their gradients (backward) are gathered. Of
// configurations with the same degrees, those that another one beats in both are left out. Invariant: an assignment
// that gives every unit the same configuration changes nothing between them. Not modelled: overlap of communication
// between units; the transient memory of the unit at work; gradient accumulation.
#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/search/frontier.hpp>

#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct UnitConfiguration {
  std::int64_t tensor = 1, data = 1;
  int zero = 0;
  Recomputation recomputation = Recomputation::none;
  bool operator==(const UnitConfiguration&) const = default;
  [[nodiscard]] std::string text() const;  ///< "tp=2 dp=4 zero=1 recompute=full"
};
struct UnitGraph {
  OperatorGraph graph;                             ///< one operator a unit
  std::vector<std::vector<UnitConfiguration>> of;  ///< the configurations of each unit
};
/// Inapplicable when no configuration works for some unit. `overlap_gradients`: the gradients of a unit travel under
/// its own backward pass, and only what is longer than that is exposed.
[[nodiscard]] Answer<UnitGraph> unit_graph(const Workload&, const Cluster&, const LayoutOptions&,
                                           bool overlap_gradients = false);

}  // namespace stepcast
