#pragma once
// Unit configurations: the operator graph of a workload for TensorOpt's search: each unit with its own data x tensor
// degrees, ZeRO stage and recomputation, the change of activations between neighbours as edges.
//
// The frontier of this graph is what a device can trade between memory and time when every unit may choose for itself,
// as Mesh-TensorFlow, TensorOpt and Alpa's inner level allow; pipelines are the outer search's (layout_search.hpp).
// Not modelled: overlap of gradient communication across units (each unit's share is exposed or hidden by the switch).
#include <stepcast/frontier.hpp>
#include <stepcast/layout_prediction.hpp>

#include <string>
#include <vector>

namespace stepcast {

struct UnitConfiguration {
  std::int64_t tensor = 1, data = 1;
  int zero = 0;
  Recomputation recomputation = Recomputation::none;
  [[nodiscard]] std::string text() const;  ///< "tp=2 dp=4 zero=1 recompute=full"
};
struct UnitGraph {
  OperatorGraph graph;                             ///< one operator a unit
  std::vector<std::vector<UnitConfiguration>> of;  ///< the configurations of each unit
};
/// Inapplicable when no configuration works for some unit.
[[nodiscard]] Answer<UnitGraph> unit_graph(const Workload&, const Cluster&, const LayoutOptions&);

}  // namespace stepcast
