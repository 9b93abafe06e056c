#pragma once
// Room step_nodes: one step of a layout as what each device of a pipeline does, message by message.
//
//   device 0   F0 unit 3 | all_reduce | F0 unit 4 | all_reduce | send F0 -> 1 ...
//   device 1   receive F0 | all_gather | F0 unit 5 | ...
//
// It may include base, cluster, plan, schedule, pipeline, layout, workload, parallelism, prediction and pace.
//
// What the prediction has as sums is here as nodes that wait for one another: compute unit by unit, every collective of
// a unit, sharded parameters and gradients, sends between stages and within a context group, gradients under the last
// backward pass, gathers before the first forward pass, ties, update. All ranks that are one device of a pipeline do
// the same, each within groups of its own and with neighbours of its own (`members_of`, `peer_of`). Invariants: nodes
// wait for earlier nodes of their device alone, and a receive for its send; every send has one receive with its tag;
// bytes are those that the prediction prices (unit_messages.hpp, stages.hpp, gradients.hpp), where gradients of experts
// travel as their own bytes in their own group; a node's time is what the prediction gives it, contention included.
// What a last backward pass takes longer beside gradients is behind what it hands on, as the prediction has it. The
// nodes alone take `end`, which differs from the predicted step where that is a steady state (messages that the next
// forward pass waits for) or a single figure: codecs in a last pass that other stages wait for, sums over replicas
// under reductions within groups, links that are busy all the time. Internal to the library. Not modelled: layouts
// whose units choose for themselves, plans that send between the passes of a step, weight gradients apart from their
// pass beside ZeRO-2 and 3.
#include <stepcast/cluster/collective.hpp>
#include <stepcast/parallelism/layout_prediction.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace stepcast {

/// Ranks that communicate: along axes, inner ones first, or those at one place of some devices of a pipeline.
struct StepGroup {
  std::vector<RankAxis> axes;
  std::vector<std::uint32_t> devices;
  bool operator==(const StepGroup& o) const;
};
struct StepNode {
  enum class Kind : std::uint8_t { compute, collective, send, receive };
  /// Whom a message goes to, or comes from: the rank at the same place of a device of the pipeline, or a neighbour in
  /// the ring of its context group.
  enum class Peer : std::uint8_t { device, next, previous };
  Kind kind = Kind::compute;
  Operation operation = Operation::send;  ///< of a collective
  Peer peer = Peer::device;
  std::uint32_t where = 0;  ///< a collective's group; the device of a message
  std::uint32_t tag = 0;    ///< of a message; both ends have it, and no other message between them
  Bytes size;               ///< the full buffer (collective.hpp)
  Seconds start, time;
  std::string name;
  std::vector<std::uint32_t> after;  ///< earlier nodes of the device
};
struct LayoutStep {
  Layout layout;      ///< resolved
  Seconds iteration;  ///< as predicted
  Seconds end;        ///< of the last node
  std::vector<StepGroup> groups;
  std::vector<std::vector<StepNode>> devices;
  bool on_host = false;  ///< the host computes
};
/// Inapplicable as the prediction, and where the plan sends what is no part of one step.
[[nodiscard]] Answer<LayoutStep> layout_step(const Workload&, const Cluster&, const LayoutPlan&,
                                             const LayoutOptions& = {});
/// Which device of its pipeline a rank is.
[[nodiscard]] std::uint32_t device_of(const Layout& resolved, std::int64_t rank);
/// The ranks of the group that `rank` belongs to, in their order.
[[nodiscard]] std::vector<std::int64_t> members_of(const StepGroup&, const Layout& resolved, std::int64_t rank);
/// The rank at the other end of a message of that device.
[[nodiscard]] std::int64_t peer_of(const StepNode&, const Layout& resolved, std::int64_t rank);

}  // namespace stepcast
