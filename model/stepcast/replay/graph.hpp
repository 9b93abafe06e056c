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
  enum class Part : std::uint8_t { point, host, gap, device, turn_around, latency, hand_over, transfer };
  Part part = Part::point;
  std::uint32_t track = no_index;  ///< host thread or device stream
  StringId name = 0;               ///< of the event; of a gap: what ran before it
  StringId around = 0;             ///< host work: the outermost operator
  friend auto operator<=>(const TaskRole&, const TaskRole&) = default;
};

struct StepGraph {
  TaskGraph graph;
  std::vector<TaskRole> roles;        ///< by task
  std::vector<std::uint32_t> tracks;  ///< by resource: host thread or device stream, else no_index
  std::uint32_t begin = no_index;     ///< the point at which the main thread begins the step
};
[[nodiscard]] StepGraph graph_of_step(const TraceLinks&, const Step&);

// The parts that build it.

/// Clocks are coarse: of points at one time the order of their events decides.
[[nodiscard]] constexpr std::int64_t just_before(std::uint32_t event) { return 2 * std::int64_t{event} - 1; }
[[nodiscard]] constexpr std::int64_t at(std::uint32_t event) { return 2 * std::int64_t{event}; }
[[nodiscard]] constexpr std::int64_t just_after(std::uint32_t event) { return 2 * std::int64_t{event} + 1; }

/// The growing graph, and every host thread as a chain with points threaded in and waits cut out.
class StepBuilder {
 public:
  using Part = TaskRole::Part;
  StepBuilder(const TraceLinks&, const Step&, std::vector<HostThread> threads);

  std::uint32_t add_resource(const std::string& name, ResourceClass kind, std::uint32_t track);
  std::uint32_t add(Part part, TaskKind kind, std::uint32_t resource, std::int64_t work_ns, std::uint32_t event);
  void add_arc(std::uint32_t from, std::uint32_t to, std::uint32_t lag = 0) { builder_.add_arc(from, to, lag); }
  /// At `time` the thread passes a new task without work.
  std::uint32_t add_point(std::size_t thread, std::int64_t time, std::int64_t order, std::uint32_t event);
  /// Recorded waiting of a thread.
  void cut(std::size_t thread, std::int64_t from, std::int64_t to);
  /// Cuts [from, to) out of a thread and returns the point at which it goes on.
  std::uint32_t resume(std::size_t thread, std::int64_t from, std::int64_t to, std::int64_t order, std::uint32_t event);
  /// `gap_ns` of the thread's time between two tasks, outside its chain.
  void add_gap_between(std::uint32_t from, std::uint32_t to, std::int64_t gap_ns, std::size_t thread);

  /// Lays out every thread: its spans less what was cut out, its points at their times.
  void chain_threads();
  [[nodiscard]] std::uint32_t last_of(std::size_t thread) const { return plans_[thread].last; }
  [[nodiscard]] std::uint32_t resource_of(std::size_t thread) const { return plans_[thread].resource; }
  [[nodiscard]] StepGraph build(std::uint32_t marker, std::uint32_t begin);

  const TraceLinks& links;
  const Step& step;
  const std::vector<HostThread> threads;

 private:
  struct HostPoint {
    std::int64_t time = 0, order = 0;
    std::uint32_t task = no_index;
  };
  struct Cut {
    std::int64_t begin = 0, end = 0;
  };
  struct Plan {
    std::vector<HostPoint> points;
    std::vector<Cut> cuts;
    std::uint32_t resource = 0;
    std::uint32_t first = no_index, last = no_index;  ///< tasks of the chain
  };
  struct Chain;
  void chain(std::size_t thread);

  std::vector<Plan> plans_;
  TaskGraphBuilder builder_;
  std::vector<TaskRole> roles_;
  std::vector<std::uint32_t> tracks_;
};

/// When a launch reaches its stream: this long after a point of the thread that called.
struct Release {
  std::uint32_t point = no_index;
  std::int64_t latency_ns = 0;
};
/// What the runtime calls of all threads do: launch, copy, synchronise. Adds their points and waits; returns the
/// release of each launch by runtime call (sorted). `device_tasks` are the graph's tasks of the device side.
[[nodiscard]] std::vector<std::pair<std::uint32_t, Release>> add_device_calls(
    StepBuilder&, const DeviceSide&, const std::vector<std::uint32_t>& device_tasks);

/// Collectives that ran on threads of the communication library. `end` is the point at which the main thread ends the
/// step.
void add_host_collectives(StepBuilder&, std::uint32_t end);

}  // namespace stepcast::replaying
