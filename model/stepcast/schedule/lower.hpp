#pragma once
// Lowering: (Profile, CommPlan, cost) -> TaskGraph.
//
// Compute becomes a chain of tasks on a device stream, fed by a chain of issue tasks on a host thread where the profile
// has a device (else one chain on the host). Runs of layers at which no transfer starts or waits are merged into one
// block. For a run with host times h_k and device times d_k the device ends at max(device free + sum d, host start +
// W), W = max_k (h_1 + ... + h_k + d_k + ... + d_n); splitting the host's time at W - sum d and letting one device task
// of length sum d wait for the first part gives the same ends (max-plus algebra of a two-machine flow line). This is
// exact unless compute and communication slow one another, where the device's pauses within a block lie before it. The
// host may run ahead of the device by one iteration. A loader beside the step, if the profile has one, prepares a batch
// per `input_period`, at most two ahead of the step that takes them. A late worker begins each iteration
// with as long a task on either stream, which waits for what its stream did before. Transfers become tasks on their
// channels with the duration that the cost model gives them; one of which lost packets are sent again is followed by an
// arrival beside the channel, and what waits for the transfer waits for that.
#include <stepcast/plan/comm_plan.hpp>
#include <stepcast/schedule/task_graph.hpp>

namespace [[gnu::visibility("default")]] stepcast {

struct LowerOptions {
  bool merge = true;  ///< false: one task per layer and pass, for timelines
};

/// Requires flaw_of(plan, profile) to be empty and `cost` to define every operation of the plan (else InputError).
[[nodiscard]] TaskGraph lowered(const Profile& profile, const CommPlan& plan, const CommunicationCost& cost,
                                const Contention& contention, const LowerOptions& options = {});

}  // namespace stepcast
