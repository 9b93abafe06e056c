#pragma once
// Planned layout: one step of a layout as Chakra execution traces, a rank each, for ASTRA-sim.
//
//   workload + layout + cluster -> run.0.et ... run.63.et, run.groups.json, and the files of planned_job.hpp
//
// The nodes are those of layout_step.hpp: compute unit by unit as COMP_NODE, collectives as COMM_COLL_NODE with the id
// of their group (pg_name), messages between stages and in a ring as COMM_SEND_NODE and COMM_RECV_NODE with the ranks
// at both ends and a tag that nothing else between the two has. Bytes are what goes into a collective (of an all-gather
// a rank's share), durations what is predicted, rounded as in planned_job.hpp; attributes duration_ns say them exactly.
// A receive has the duration of its send. The groups are ASTRA-sim's communicator groups: from id to ranks, ids from 1.
//
// The ranks that are one device of their pipelines have one text but for groups and neighbours: it is kept once, and
// the file of a rank is put together when it is asked for. Invariants: those of layout_step.hpp; a group's members have
// the same collectives on it in the same order. Not modelled: what planned_job.hpp leaves out of the network.
#include <stepcast/parallelism/layout_prediction.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// Execution traces of all ranks.
class RankTraces {
 public:
  struct [[gnu::visibility("hidden")]] State;
  explicit RankTraces(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  [[nodiscard]] std::int64_t ranks() const;
  /// Requires 0 <= rank < ranks().
  [[nodiscard]] std::string of(std::int64_t rank) const;
  /// Of all ranks together, about.
  [[nodiscard]] Bytes size() const;

 private:
  std::shared_ptr<const State> state_;
};

/// More than that is not written.
inline constexpr Bytes most_file_bytes{16.0 * (1 << 30)};

struct PlannedLayout {
  RankTraces traces;
  std::string network, system, memory;  ///< as PlannedJob's
  std::string groups;                   ///< JSON
  std::int64_t group_count = 0;
  std::size_t most_nodes = 0, most_messages = 0;  ///< of a rank; messages are collectives, sends and receives
  Seconds iteration;                              ///< as predicted
  Seconds end;                                    ///< of the nodes alone
  std::vector<std::string> remarks;
};

/// Inapplicable when the layout is, when it sends what ASTRA-sim does not run, or when its files would be too large.
[[nodiscard]] Answer<PlannedLayout> planned_layout(const Workload&, const Cluster&, const LayoutPlan&,
                                                   const LayoutOptions& = {});

}  // namespace stepcast
