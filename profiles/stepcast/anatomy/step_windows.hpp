#pragma once
// StepWindows: which stretches of a trace are training steps, and how long each took.
//
// Annotated steps (steps_of) if there are any: the undistorted ones, and next to fewer than two of those the
// distorted ones too, because a median over one step is that step's accidents. An annotation that holds several passes
// with an update behind each, all of one structure, holds as many steps, of equal length. Else from update to update;
// else from forward pass to forward pass; else the whole trace, whose duration says nothing. Not modelled: steps of
// varying kind (evaluation between training steps); they have other operators and are sorted out by profile_of.
#include <stepcast/anatomy/step_operators.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/trace/trace.hpp>

#include <string>
#include <vector>

namespace stepcast {

struct MeasuredWindow {
  StepWindow window;
  Seconds duration;        ///< 0 when it cannot be told
  bool distorted = false;  ///< good for a median of its parts, not for its duration
};

struct StepWindows {
  std::vector<MeasuredWindow> steps;
  std::vector<Seconds> measured;  ///< the durations whose median is the step time, if all steps are alike; may be empty
  std::size_t in_each_mark = 1;   ///< training steps between one annotation's start and its end
  std::string recognised;         ///< in words, for the user; may be empty
  std::string assumed;
};

[[nodiscard]] StepWindows step_windows(const TraceIndex&);

}  // namespace stepcast
