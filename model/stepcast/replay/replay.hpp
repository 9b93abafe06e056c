#pragma once
// Room replay: the self-check: a trace's step rebuilt from its tasks, scored on its other steps.
//
//   step 3 -> tasks and dependencies -> rebuilt step 201.3 ms;  measured steps 4 to 9: median 200.1 ms, error +0.6 %
//
// It may include base, trace, ranks, extraction, documents and schedule.
//
// Replay: the self-check. One step of the trace is rebuilt from its tasks and dependencies, and scored on the others.
//
// Tasks are the host events and the gaps between them of *one* calibration step, and the device work that they launch;
// dependencies are host program order, launch -> device, stream order, and synchronisation (a synchronising call ends
// when the device work that it waits for ends). Time in which the device idles or a host call waits is *not* a task: it
// has to emerge. The rebuilt steady-state step predicts every other step that does the same work. A step whose work
// differs (an optimizer that runs every second step) is rebuilt from its own work, which is its events and their order,
// with the calibration step's times; of what the calibration step never does, with the mean of the steps around it, the
// predicted one left out. The score compares the medians over the other undistorted steps. A recording that lost events
// is marked as doubtful.
// Not modelled: other ranks; a collective keeps its recorded duration, which includes waiting for late peers.
#include <stepcast/schedule/schedule.hpp>
#include <stepcast/trace/steps.hpp>
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct Replay {
  std::string source;
  Seconds measured;           ///< median of the other undistorted steps
  Seconds replayed;           ///< median of the same steps, rebuilt from the calibration step
  double relative_error = 0;  ///< (replayed - measured) / measured
  bool scored = false;        ///< false: fewer than four annotated steps; the reason is in `note`
  bool doubtful = false;      ///< the recording lost events; `note` says which
  std::string note;
  double noise = 0;               ///< interquartile range of the measured steps / median
  double recorded_gap_share = 0;  ///< share of the rebuilt step that is recorded host gap on its critical path
  std::int64_t calibration_step = -1;
  std::vector<Step> steps;
  std::vector<Seconds> step_times;
  std::vector<Seconds>
      rebuilt;  ///< each step as rebuilt; 0: not predicted (distorted, or work of which no other step tells)

  /// rebuilt / measured - 1 of each step; 0 where one of them is unknown.
  [[nodiscard]] std::vector<double> step_errors() const;
};

/// Inapplicable when the trace has no annotated steps.
[[nodiscard]] Answer<Replay> replay_of(const Trace&);

}  // namespace stepcast
