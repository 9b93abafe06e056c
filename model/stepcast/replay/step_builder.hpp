#pragma once
// StepBuilder: the growing graph of one step, and every host thread as a chain with points threaded in and waits cut
// out (internal to the replay; see graph.hpp).
//
// A thread's chain is its recorded spans, less what was cut out; a point is a task without work that the thread passes
// at a time. Example: of a thread that waited from 3 ms to 5 ms, `resume(thread, 3 ms, 5 ms, ...)` cuts the wait out
// and returns the point at which the thread goes on.
#include <stepcast/replay/device.hpp>
#include <stepcast/replay/graph.hpp>
#include <stepcast/replay/host.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stepcast::replaying {

/// Clocks are coarse: of points at one time the order of their events decides.
[[nodiscard]] constexpr std::int64_t just_before(std::uint32_t event) { return 2 * std::int64_t{event} - 1; }
[[nodiscard]] constexpr std::int64_t at(std::uint32_t event) { return 2 * std::int64_t{event}; }
[[nodiscard]] constexpr std::int64_t just_after(std::uint32_t event) { return 2 * std::int64_t{event} + 1; }

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
  [[nodiscard]] std::uint32_t last_of(std::size_t thread) const {
    return plans_[thread].row.empty() ? no_index : plans_[thread].row.back().task;
  }
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
    std::vector<HostPlace> row;  ///< tasks of the chain
  };
  struct Chain;
  void chain(std::size_t thread);

  std::vector<Plan> plans_;
  TaskGraphBuilder builder_;
  std::vector<TaskRole> roles_;
  std::vector<std::uint32_t> tracks_;
};

}  // namespace stepcast::replaying
