#pragma once
// Priced split: what one micro-batch costs each kind of unit under a layout, collectives priced on the groups' links.
//
// Made once per combination of degrees, rank order, micro-batch and sequence parallelism; everything that a layout adds
// to it (stages, schedule, recomputation, ZeRO) is arithmetic on these numbers. Internal to the layout prediction.
#include <stepcast/cluster/collective.hpp>
#include <stepcast/layout/process_group.hpp>
#include <stepcast/workload/workload.hpp>

#include <array>
#include <string>
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

/// Times of the collectives of one unit in one pass.
struct UnitExchanges {
  Seconds tensor, context, expert;
  [[nodiscard]] Seconds sum() const { return tensor + context + expert; }
};
/// One unit, one micro-batch, one device.
struct PricedUnit {
  Seconds forward, input_gradient, weight_gradient, attention;  ///< compute
  UnitExchanges forward_exchanges, backward_exchanges;
  double parameters = 0, expert_parameters = 0, tied_parameters = 0;
  std::array<Bytes, 3> kept{};
  bool checkpointed = true;
  Bytes working, boundary;
  Seconds send;  ///< sending its boundary to the next stage, with the gathering at the other end
};

struct PricedSplit {
  std::string unsuitable;         ///< why the split does not work; empty: it does
  std::vector<PricedUnit> units;  ///< one for each kind
  PricedGroup data;               ///< context x data: what sums gradients
  PricedGroup expert_data;        ///< replicas of an expert
  PricedGroup ends;               ///< first and last stage: tied parameters
  PricedGroup mirror;             ///< two copies of a stage on the devices of one pipeline
};
/// Of a resolved layout.
[[nodiscard]] PricedSplit priced_split(const Workload&, const Cluster&, const Layout& resolved);

}  // namespace stepcast
