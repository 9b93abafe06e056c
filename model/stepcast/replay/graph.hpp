#pragma once
// StepGraph: the tasks of one step of a trace, what each waits for, and what each of them stands for (internal to the
// replay).
//
// Recorded time is a task only where somebody worked. Where a thread waited the recorded time is cut out, and an arc
// from what it waited for takes its place, so that the wait emerges, longer or shorter, when something else changes:
//
//   launch         host ---o--- host            o -> launch latency -> device task
//   synchronise    host ---[ cut ]o--- host     awaited device task -> o
//   hand-over      main ---o[ cut ]o--- main    o -> other thread's burst -> o     (backward pass)
//   collective     main ---o ... [ cut ]o---    o -> collective on its thread -> o (gloo)
//
// Points (o) are tasks without work. Arcs of lag 1 lead from the last task of every thread and stream to its first.
// Not modelled: a thread that polls until the device is done (cudaEventQuery in a loop) counts as busy.
#include <stepcast/replay/device.hpp>
#include <stepcast/replay/host.hpp>
#include <stepcast/schedule/task_graph.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stepcast::replaying {

/// What a task stands for: the same work is found again in other steps by it.
struct TaskRole {
  enum class Part : std::uint8_t { point, host, gap, device, turn_around, latency, hand_over, transfer, inserted };
  Part part = Part::point;
  std::uint32_t track = no_index;  ///< host thread or device stream
  StringId name = 0;               ///< the name of the event; for a gap, of what ran before it
  StringId around = 0;             ///< host work: the outermost operator
  friend auto operator<=>(const TaskRole&, const TaskRole&) = default;
};

/// A task of a host thread in its row, and when it began in the trace.
struct HostPlace {
  std::uint32_t task = no_index;
  std::int64_t began_ns = 0;
};
struct StepGraph {
  TaskGraph graph;
  std::vector<TaskRole> roles;                  ///< one for each task
  std::vector<std::uint32_t> tracks;            ///< the host thread or device stream of each resource, else no_index
  std::uint32_t begin = no_index;               ///< the point at which the main thread begins the step
  std::vector<std::vector<HostPlace>> threads;  ///< the row of each host thread, in its order
};
[[nodiscard]] StepGraph graph_of_step(const TraceLinks&, const Step&);

}  // namespace stepcast::replaying
