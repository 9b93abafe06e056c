#pragma once
// Replay parts: one step of a trace, taken apart into what a replay schedules (internal to the replay).
//
// The device side is the work that the step launched, per stream, and what each piece waited for on other streams. The
// host side is every thread as a row of spans: what ran innermost, or nothing. The time constants that belong to the
// machine and not to one event (launch latency, turn-around of a stream) are measured over the step. Invariants:
// indices point into the trace; times are nanoseconds on its clock.
#include <stepcast/profile_of.hpp>
#include <stepcast/task_graph.hpp>
#include <stepcast/trace.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace stepcast::replaying {

/// Where host and device clocks, or rounded times, may disagree.
inline constexpr std::int64_t clock_slack_ns = 2000;

/// A kernel, copy or fill that the step launched.
struct DeviceTask {
  std::uint32_t event = no_index;
  std::uint32_t launch = no_index;  ///< runtime call; none where the recording lost it
  std::int64_t work_ns = 0;         ///< recorded duration; up to the successor's start where the two overlap
  std::int64_t turn_ns = 0;         ///< the stream's turn-around before it
};
/// A device task of this step, or (lag 1) its copy of the step before.
struct Counterpart {
  std::uint32_t task = no_index;
  std::uint32_t lag = 0;
};
/// `task` started only after `on` had ended on another stream.
struct StreamWait {
  Counterpart on;
  std::uint32_t task = no_index;
};

class DeviceSide {
 public:
  DeviceSide(const Trace&, const Step&);

  std::vector<DeviceTask> tasks;                    ///< in order of start
  std::vector<std::vector<std::uint32_t>> streams;  ///< tasks of each stream in stream order
  std::vector<StreamWait> stream_waits;
  std::int64_t latency_ns = 0;      ///< from the start of a launch call to the start on an idle stream; 0 if never seen
  std::int64_t turn_around_ns = 0;  ///< between two pieces of work that were both queued

  /// The last device work on any stream that ended in (from, to] and had been launched before `launched_before`.
  [[nodiscard]] std::uint32_t last_ended(std::int64_t from, std::int64_t to, std::int64_t launched_before) const;
  /// Per stream the work launched last before `time`.
  [[nodiscard]] std::vector<std::uint32_t> last_launched(std::int64_t time) const;
  /// The device work before this event on its stream, over the whole trace.
  [[nodiscard]] std::uint32_t before_on_stream(std::uint32_t event) const;
  /// First task that this runtime call launched in this step, else no_index.
  [[nodiscard]] std::uint32_t launched_by(std::uint32_t call) const { return task_of_launch_[call]; }
  [[nodiscard]] std::optional<Counterpart> counterpart(std::uint32_t event) const;
  /// Every runtime call of the trace that launched device work.
  [[nodiscard]] const std::vector<std::uint32_t>& launches() const { return launches_; }
  /// Launches that were issued and had not started on the device at this time.
  [[nodiscard]] std::int64_t pending(std::int64_t time) const;

 private:
  struct StreamRow {  // all work of one stream over the whole trace
    std::vector<std::uint32_t> events;
    std::size_t first_of_step = 0;  // position of the step's first work
    std::size_t stream = 0;         // index into `streams`, if the step has work on it
    bool used = false;
  };
  void link();
  void collect_tasks();
  void measure_constants();
  [[nodiscard]] std::optional<std::int64_t> pure_latency(const DeviceTask&) const;
  void shape_tasks();
  void find_stream_waits();
  [[nodiscard]] std::int64_t launch_time(std::uint32_t event) const;
  [[nodiscard]] std::int64_t expected_start(const DeviceTask&) const;
  [[nodiscard]] std::uint32_t draining(const DeviceTask&) const;
  void add_wait(std::uint32_t task, std::uint32_t on);

  const Trace& trace_;
  const Step& step_;
  std::vector<StreamRow> rows_;           // by track
  std::vector<std::uint32_t> position_;   // by event: place in its row
  std::vector<std::uint32_t> launch_of_;  // by event
  std::vector<std::uint32_t> task_of_;    // by event
  std::vector<std::uint32_t> task_of_launch_;
  std::vector<std::uint32_t> launches_;
  std::vector<std::int64_t> launch_times_, start_times_;  // of all launched work, sorted
};

/// A stretch of host time of one thread in which the innermost running event does not change.
struct HostSpan {
  std::int64_t begin = 0, end = 0;
  std::uint32_t event = no_index;      ///< innermost operator or runtime call; none: a gap
  std::uint32_t outermost = no_index;  ///< the operator around it that has none around itself
  bool quiet = false;                  ///< nothing runs, or an operator between two of its parts: the thread may wait
};
struct HostThread {
  std::uint32_t track = 0;
  std::vector<std::uint32_t> events;  ///< operators and runtime calls that start within the step
  std::vector<HostSpan> spans;        ///< without holes from the step's start to its end
};
/// The threads that the step depends on: first the one that carries the step marks, then those that run operators or
/// launch device work. Threads that only poll (watchdogs) are left out.
[[nodiscard]] std::vector<HostThread> host_threads_of(const Trace&, const Step&, const DeviceSide&);

/// Collectives that worker threads of the communication library ran (gloo), in order of start.
[[nodiscard]] std::vector<std::uint32_t> host_collectives_of(const Trace&, const Step&,
                                                             std::span<const HostThread> threads);

/// The operators that issue collectives, in order: the library's queue is first in, first out.
struct CollectiveIssue {
  std::size_t thread = 0;
  std::uint32_t event = no_index;
};
[[nodiscard]] std::vector<CollectiveIssue> collective_issues_of(const Trace&, std::span<const HostThread> threads);

/// A thread stood still from `from` until collective number `collective` had ended.
struct CollectiveWait {
  std::size_t thread = 0, collective = 0;
  std::int64_t from = 0, until = 0;
};
/// A quiet span that ends when a collective ends was spent waiting for it.
[[nodiscard]] std::vector<CollectiveWait> collective_waits_of(const Trace&, std::span<const HostThread> threads,
                                                              std::span<const std::uint32_t> collectives);

/// A run of activity of a thread. It fills a quiet span of the main thread (its number), or runs beside it (-1).
struct Burst {
  std::int64_t begin = 0, end = 0;
  std::ptrdiff_t quiet = -1;
  std::uint32_t first = no_index;  ///< event
};
[[nodiscard]] std::vector<Burst> bursts_of(const HostThread& main, const HostThread& thread);

/// The tasks of one step and what each waits for; the step ends with its marker task.
[[nodiscard]] TaskGraph graph_of_step(const Trace&, const Step&);

}  // namespace stepcast::replaying
