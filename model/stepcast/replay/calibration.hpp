#pragma once
// The calibration step of a trace, taken apart (internal to the replay).
#include <stepcast/replay/graph.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace stepcast::replaying {

struct Calibration {
  explicit Calibration(const Trace& trace) : steps(steps_of(trace)), links(trace) {}
  [[nodiscard]] const Step& step() const { return steps[number]; }

  const std::vector<Step> steps;
  const TraceLinks links;
  std::size_t number = 0;  ///< the place of the calibration step among `steps`
  StepGraph taken_apart;
};

/// Inapplicable when the trace has no annotated steps. The calibration step is the middle one of the undistorted steps
/// or, where there are none, of those that the allocator did not stall
/// (the earlier of two): farthest from both ends of the recording, chosen before any time is looked at. Where damage
/// lets work wait for itself the next one is taken; Inapplicable when all are so.
[[nodiscard]] Answer<std::unique_ptr<Calibration>> calibration_of(const Trace&);

}  // namespace stepcast::replaying
