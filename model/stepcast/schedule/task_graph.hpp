#pragma once
// TaskGraph: the tasks of one iteration and what each waits for, in flat arrays, ready to be scheduled.
//
// One iteration is stored; the scheduler runs as many copies as it needs. A task has an amount of work (the time that
// it takes when nothing disturbs it) on one resource. An arc (from, to, lag) says that `to` of iteration i+lag starts
// after `from` of iteration i ended. Resources that work in program order (a host thread, a device stream) need no
// queue: their order is spelled out as arcs. Times are 64-bit counts of picoseconds, so that equal input gives equal
// output everywhere. Invariants (checked by `flaw_of`): arcs of lag 0 are acyclic; indices in range; work >= 0. Not
// modelled: pre-emption of compute.
#include <stepcast/base/units.hpp>
#include <stepcast/plan/comm_plan.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

using Picoseconds = std::int64_t;
constexpr Seconds seconds_of(Picoseconds ps) { return Seconds(static_cast<double>(ps) * 1e-12); }
/// Rounds to the nearest picosecond. Requires |s| < 9e6 s (about 100 days).
constexpr Picoseconds picoseconds_of(Seconds s) {
  const double ps = s.value() * 1e12;
  const auto whole = static_cast<Picoseconds>(ps);
  const double rest = ps - static_cast<double>(whole);  // exact; std::llround does the same, but as a call
  return whole + (rest >= 0.5) - (rest <= -0.5);
}

enum class TaskKind : std::uint8_t {
  host,  ///< host issue time of compute
  forward,
  backward,
  update,
  other,  ///< compute that belongs to no layer
  input,  ///< waiting for the input batch
  late,   ///< the worker starts its step after the others
  load,   ///< preparing an input batch, beside the step
  transfer,
  arrival,  ///< lost packets of a transfer are sent again, beside the transfers that follow
  codec,    ///< encoding or decoding of a transfer
  timer,
  gap,     ///< recorded host time without an event (replay)
  kernel,  ///< device work (replay)
};
[[nodiscard]] std::string_view name_of(TaskKind);

/// What a resource does, for accounting and for contention.
enum class ResourceClass : std::uint8_t { host, compute, communication, timer };

struct Resource {
  std::string name;
  ResourceClass kind = ResourceClass::compute;
  /// `parallel` also stands for program order, which is spelled out as arcs.
  Discipline discipline = Discipline::parallel;
  std::int64_t credit = 0;  ///< bytes that may be issued ahead; see Channel::credit
  bool preemptive = false;  ///< see Channel::preemptive
};

struct Task {
  Picoseconds work = 0;
  std::uint32_t resource = 0;
  std::int32_t priority = 0;
  std::uint32_t index = 0;  ///< layer or transfer, by kind; for merged compute: the last layer
  TaskKind kind = TaskKind::other;
  std::int64_t bytes = 0;  ///< transfers: bytes that count against the credit
  double slow_down = 1;    ///< factor on its time while the other one of compute and communication runs
};

struct Arc {
  std::uint32_t task = 0;
  std::uint32_t lag = 0;
};

struct TaskGraph {
  std::vector<Resource> resources;
  std::vector<Task> tasks;
  std::vector<std::uint32_t> first_arc;  ///< tasks + 1 entries; arcs of task t: [first_arc[t], first_arc[t+1])
  std::vector<Arc> arcs;                 ///< successors
  /// The task whose end marks the end of an iteration (the common update or the last compute task).
  std::uint32_t marker = 0;
  /// True when no task of iteration i+1 can start before all of iteration i ended: one iteration tells all.
  bool barrier = false;

  [[nodiscard]] std::span<const Arc> successors(std::uint32_t t) const {
    return {arcs.data() + first_arc[t], arcs.data() + first_arc[t + 1]};
  }
};

/// Collects tasks and arcs in any order and packs them (counting sort) into a TaskGraph.
class TaskGraphBuilder {
 public:
  std::uint32_t add_resource(Resource r);
  std::uint32_t add_task(const Task& t) {
    graph_.tasks.push_back(t);
    return static_cast<std::uint32_t>(graph_.tasks.size() - 1);
  }
  void add_arc(std::uint32_t from, std::uint32_t to, std::uint32_t lag = 0) { arcs_.push_back({from, to, lag}); }
  void reserve(std::size_t tasks, std::size_t arcs);
  TaskGraph& graph() { return graph_; }
  /// Begins anew, in the storage of a graph that is no longer needed.
  void begin(TaskGraph&& used);
  /// Packs; the builder is empty afterwards.
  [[nodiscard]] TaskGraph build();

 private:
  struct FullArc {
    std::uint32_t from, to, lag;
  };
  TaskGraph graph_;
  std::vector<FullArc> arcs_;
};

/// What is wrong with the graph, in words (the first task of a cycle is named by number); empty if nothing is.
[[nodiscard]] std::string flaw_of(const TaskGraph&);

}  // namespace stepcast
