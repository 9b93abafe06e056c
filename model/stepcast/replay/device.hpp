#pragma once
// DeviceSide: what one step put on the device streams, and what each piece waited for on other streams (internal to the
// replay).
//
// Who launched what and the order of every stream are found once for a trace (TraceLinks). The time constants that
// belong to the machine and not to one event (launch latency, turn-around of a stream) are measured over the step.
// Invariants: indices point into the trace; times are nanoseconds on its clock.
#include <stepcast/trace/steps.hpp>
#include <stepcast/trace/trace.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace stepcast::replaying {

/// Where host and device clocks, or rounded times, may disagree.
inline constexpr std::int64_t clock_slack_ns = 2000;

/// Who launched what, and the work of every stream in order, over a whole trace.
struct TraceLinks {
  explicit TraceLinks(const Trace&);

  [[nodiscard]] const Event& event(std::uint32_t e) const { return trace.events[e]; }
  /// Start of the call that launched this work; the beginning of time where the recording lost it.
  [[nodiscard]] std::int64_t launch_time(std::uint32_t work) const;
  /// The device work before this one on its stream.
  [[nodiscard]] std::uint32_t before_on_stream(std::uint32_t work) const;
  /// Events that start within [from, to), by index.
  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> events_within(std::int64_t from, std::int64_t to) const;
  /// Launches that were issued and had not started on the device at this time.
  [[nodiscard]] std::int64_t pending(std::int64_t time) const;

  const Trace& trace;
  std::vector<std::uint32_t> work;                   ///< all device work, in order of start
  std::vector<std::vector<std::uint32_t>> streams;   ///< the device work of each track
  std::vector<std::uint32_t> position;               ///< each event's place in its stream
  std::vector<std::uint32_t> launch_of;              ///< the runtime call that launched each event, else `no_index`
  std::vector<std::uint32_t> first_of_launch;        ///< the first work that each runtime call launched
  std::vector<std::uint32_t> launches;               ///< calls that launched device work, once each
  std::vector<Dependency> stream_waits, host_waits;  ///< what ids in the file prove, sorted by `after`

 private:
  std::vector<std::int64_t> launch_times_, start_times_;  // of all launches, sorted
};

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
  std::uint32_t event = no_index;  ///< the awaited work in the trace
};

class DeviceSide {
 public:
  DeviceSide(const TraceLinks&, const Step&);

  std::vector<DeviceTask> tasks;                    ///< in order of start
  std::vector<std::vector<std::uint32_t>> streams;  ///< tasks of each stream in stream order
  std::vector<StreamWait> stream_waits;
  std::int64_t turn_around_ns = 0;  ///< between two pieces of work that were both queued

  /// From the start of a launch call to the start on an idle stream; 0 if never seen.
  [[nodiscard]] std::int64_t latency_of(std::uint32_t call) const;
  /// The last device work on any stream that ended in (from, to] and had been launched before `launched_before`, or by
  /// the same launch as `mate` and started before it.
  [[nodiscard]] std::uint32_t last_ended(std::int64_t from, std::int64_t to, std::int64_t launched_before,
                                         std::uint32_t mate = no_index) const;
  /// Per stream the work launched last before `time`.
  [[nodiscard]] std::vector<std::uint32_t> last_launched(std::int64_t time) const;
  /// First task that this runtime call launched in this step, else no_index.
  [[nodiscard]] std::uint32_t launched_by(std::uint32_t call) const;
  [[nodiscard]] std::optional<Counterpart> counterpart(std::uint32_t event) const;

 private:
  struct StreamOfStep {
    std::size_t first = 0;   // position in the track of the step's first work
    std::size_t stream = 0;  // index into `streams`
    bool used = false;
  };
  void collect_tasks();
  void measure_constants();
  [[nodiscard]] std::optional<std::int64_t> pure_latency(const DeviceTask&) const;
  void shape_tasks();
  [[nodiscard]] bool is_before(std::uint32_t other, std::int64_t launched_before, std::uint32_t mate) const;
  [[nodiscard]] std::int64_t expected_start(const DeviceTask&) const;
  [[nodiscard]] std::uint32_t draining(const DeviceTask&) const;
  void add_recorded_waits();
  /// Waits that a thread asked for since its last launch, and when it asked for the last of them.
  struct CalledWaits {
    std::int64_t time = 0;
    std::size_t count = 0;
  };
  void add_called_waits();
  /// False where nothing is found that the task may have waited for.
  bool add_called_waits(std::uint32_t task, const CalledWaits&, bool of_another_thread);
  void add_seen_waits();
  void add_seen_wait(std::uint32_t task, std::uint32_t on);
  void add_wait(std::uint32_t task, std::uint32_t on);

  const TraceLinks& links_;
  const Step& step_;
  std::vector<StreamOfStep> of_step_;           // by track
  std::vector<std::uint32_t> task_of_;          // by event
  std::map<StringId, std::int64_t> latencies_;  // by launch function
  std::int64_t latency_ns_ = 0;                 // over all of them
};

}  // namespace stepcast::replaying
