#pragma once
// Steps: where one training step ends and the next begins, and how long each took.
//
// Steps are what the framework or its user annotated ("ProfilerStep#3", "step 3", the ranges that frameworks put around
// each batch). Invariant: steps are in order of time and do not overlap; a duration that cannot be told is 0, never a
// guess. Not modelled: steps that nobody annotated (step_windows.hpp looks for those that repeat).
#include <stepcast/base/units.hpp>
#include <stepcast/trace/trace.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// A training step in a trace.
struct Step {
  std::int64_t number = -1;
  std::int64_t start_ns = 0, end_ns = 0;  ///< host annotation; a user's own numbered range: until the next begins
  bool distorted = false;  ///< first or last of the recording, visibly disturbed by the profiler, or stalled
  bool stalled = false;    ///< the allocator got memory from the device or gave it back, which waits for the device
};

/// The annotated steps in order; empty when there is no annotation.
[[nodiscard]] std::vector<Step> steps_of(const Trace&);
/// How these steps are annotated: "ProfilerStep#N", "step N", ...; empty when there are none.
[[nodiscard]] std::string step_annotation_of(const Trace&);
/// `StepTimes::durations` alone.
[[nodiscard]] std::vector<Seconds> step_durations(const Trace&, std::span<const Step>);

/// What tells how long a step takes.
enum class Pace : std::uint8_t {
  marks,        ///< the host annotations
  periods,      ///< start-to-start times of kernels that occur once a step
  device_work,  ///< the annotations, but no less than the work that a step puts on the busiest stream
};

/// The durations of annotated steps, by host and by device.
struct StepTimes {
  /// Of each step, by `pace`; 0 where it cannot be told.
  std::vector<Seconds> durations;
  /// Periods where the host runs ahead of the device, or where they scatter less than half as much as the annotations;
  /// device work where the annotation of a step is shorter and no period is known.
  Pace pace = Pace::marks;
  /// Those of `durations` whose median is the step time: all annotations when there are `enough_for_all` (the median
  /// does not see the two distorted ones) or fewer than two undistorted ones (a single step is an accident), else the
  /// undistorted ones. The first period is that of a queue which still fills, and left out if possible.
  std::vector<Seconds> measured;
  Seconds host;                  ///< median annotation; 0: none
  Seconds device_period;         ///< median start-to-start time of kernels that occur exactly once a step; 0: none
  bool host_runs_ahead = false;  ///< most device work starts after the annotation of its step has ended
  static constexpr std::size_t enough_for_all = 5;

  /// The step time: median of `measured`; 0 when it cannot be told.
  [[nodiscard]] Seconds step() const;
};
[[nodiscard]] StepTimes step_times_of(const Trace&, std::span<const Step>);

}  // namespace stepcast
