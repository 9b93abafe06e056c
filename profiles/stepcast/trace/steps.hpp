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
  bool distorted = false;                 ///< first or last of the recording, or visibly disturbed by the profiler
};

/// The annotated steps in order; empty when there is no annotation.
[[nodiscard]] std::vector<Step> steps_of(const Trace&);
/// How these steps are annotated: "ProfilerStep#N", "step N", ...; empty when there are none.
[[nodiscard]] std::string step_annotation_of(const Trace&);
/// `StepTimes::durations` alone.
[[nodiscard]] std::vector<Seconds> step_durations(const Trace&, std::span<const Step>);

/// The durations of annotated steps, by host and by device.
struct StepTimes {
  /// Of each step: the host annotation or, where the host runs ahead of the device, the start-to-start time of kernels
  /// that occur once a step; 0 where it cannot be told.
  std::vector<Seconds> durations;
  /// Those of `durations` whose median is the step time: all annotations when there are `enough_for_all` (the median
  /// does not see the two distorted ones) or fewer than two undistorted ones (a single step is an accident), else the
  /// undistorted ones. Where the host runs ahead the first period is that of a queue which still fills, and left out if
  /// possible.
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
