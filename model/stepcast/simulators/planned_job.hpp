#pragma once
// Room simulators: a planned job, written for simulators of networks.
//
//   profile + plan + cluster -> run.0.et ... run.63.et, run.network.yml, run.system.json, run.memory.json
//
// It may include base, formats/chakra, profile, cluster, plan, schedule, prediction, layout, workload, parallelism and
// step_nodes.
//
// Planned job: one step of a plan as Chakra execution traces, and the cluster as ASTRA-sim's input files.
//
// Every rank of a data-parallel plan does the same, so that one text serves all ranks. Each task of the plan's graph is
// a node: compute is a COMP_NODE with its time, on the host or on the device; a collective is a COMM_COLL_NODE with
// what goes into it, in bytes (of an all-gather a rank's share), and the time that was predicted for it. data_deps are
// the arcs of the plan, and on a channel that serves one message at a time the message before, in the order that was
// predicted. Times are whole microseconds, as the format has them, rounded so that their sum along a resource stays
// right; attributes duration_ns say them exactly.
//
// The network has a dimension for the devices of a machine and for each level between machines; its bandwidth is what a
// device has of a level while all devices send across it, its latency that of one step, each to its neighbour on a
// ring. ASTRA-sim's GB is 2^30 bytes. The system runs one chunk at a time without a delay at its ends, which is what
// closed forms assume.
//
// Example: 8 ranks with a 10 MB bucket over 1 GB/s: 14 steps of 1.25 MB, 17.5 ms, of which ASTRA-sim exposes what the
// backward pass does not hide. Invariants: dependencies lead from earlier nodes to later ones; the same bytes as the
// plan. Layouts, whose stages differ by rank: planned_layout.hpp. Not modelled: messages to servers and neighbours;
// what a step waits for of the step before it.
#include <stepcast/base/error.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/plan/strategy.hpp>
#include <stepcast/profile/profile.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct PlannedJob {
  std::string execution_trace;          ///< of every rank
  std::string network, system, memory;  ///< ASTRA-sim's: YAML, JSON, JSON
  std::size_t nodes = 0, collectives = 0;
  Seconds compute, communication;    ///< sums of what is predicted for them
  std::vector<std::string> remarks;  ///< where ASTRA-sim runs something else than the plan
};

/// Inapplicable when the plan is, or when it sends what no collective of ASTRA-sim stands for.
[[nodiscard]] Answer<PlannedJob> planned_job(const Profile&, const Cluster&, const PlanSpec&);

}  // namespace stepcast
