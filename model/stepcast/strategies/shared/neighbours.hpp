#pragma once
// Neighbours: who sends to whom in decentralised training, and what that puts on a cluster's links.
//
// Workers stand on a ring in the order of their machines. A worker of degree d sends to the d nearest ones, in turn to
// the right and to the left (d = 2: the ring itself; d = P - 1: everybody). All links of a kind carry the same, so that
// the busiest one is a machine's cards, which its devices share, the uplinks of a level, which its machines share, or a
// device's own link inside the machine. Invariant: neither the messages nor the bytes of the busiest link ever shrink
// when the degree grows. Not modelled: other overlays and routes over several hops; who has those can give the number
// of flows on the busiest link.
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/plan/strategy.hpp>

#include <cstdint>
#include <string_view>

namespace stepcast {

[[nodiscard]] constexpr OptionSpec degree_option(std::string_view summary = "neighbours of a worker on the ring") {
  return {.name = "degree", .kind = OptionKind::count, .standard = 2, .low = 1, .high = 4096, .summary = summary};
}

/// One message from every worker to each of its neighbours, as the busiest link sees it.
struct NeighbourLoad {
  double messages = 0;  ///< how many the link carries in one direction
  double scale = 1;     ///< what it takes for a byte, in times that Operation::send takes
  [[nodiscard]] double flows() const { return messages * scale; }
};
[[nodiscard]] NeighbourLoad neighbour_load(const Cluster&, std::int64_t degree);

/// Every worker's weights go to neighbours beside the passes of the same step, whose update mixes what came in:
/// x' = sum_j W_ij x_j - eta g(x_i). `flows`: models on the busiest link a step.
[[nodiscard]] CommPlan mixed_beside_compute(const StrategyInput&, double flows);

}  // namespace stepcast
