// StepWindows: one function a way of finding steps; see step_windows.hpp for their order.
#include <stepcast/anatomy/step_windows.hpp>
#include <stepcast/trace/steps.hpp>

#include <algorithm>
#include <utility>

namespace stepcast {
namespace {

/// A median over fewer is no protection against a disturbed step.
constexpr std::size_t enough_steps = 3;

StepWindows annotated_windows(const Trace& trace) {
  StepWindows out;
  const std::vector<Step> steps = steps_of(trace);
  StepTimes times = step_times_of(trace, steps);
  const auto good = std::size_t(std::count_if(steps.begin(), steps.end(), [](const Step& s) { return !s.distorted; }));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool wanted = !steps[i].distorted || good < enough_steps;
    if (wanted)
      out.steps.push_back({{steps[i].start_ns, steps[i].end_ns}, times.durations[i], steps[i].distorted && good > 0});
  }
  if (steps.empty()) return out;
  if (good == 0) out.assumed = "first and last steps, which the profiler distorts, are all there is";
  else if (good < enough_steps)
    out.assumed = "layer times are medians over all steps, the first and last ones included, for want of others";
  out.measured = std::move(times.measured);
  const std::string annotation = step_annotation_of(trace);
  const std::string how = annotation.starts_with("ProfilerStep") ? "" : " (" + annotation + ")";
  out.recognised =
      std::to_string(steps.size()) + " annotated steps" + how + ", " + std::to_string(good) + " of them undistorted";
  return out;
}

/// Without step annotations: from the end of one update to the end of the next.
StepWindows updated_windows(const TraceIndex& index) {
  StepWindows out;
  std::int64_t from = -1;
  for (std::uint32_t i = 0; i < index.trace.events.size(); ++i) {
    if (!index.is_operator(i) || index.facts(i).role != naming::Role::optimizer) continue;
    const std::int64_t end = index.trace.events[i].end_ns();
    if (from >= 0) out.steps.push_back({{from, end}, Seconds(double(end - from) * 1e-9)});
    from = end;
  }
  out.assumed = "no step annotations: a step is what lies between the ends of two optimizer updates";
  return out;
}

/// Without annotations of any kind: from one forward pass to the next, or all there is.
StepWindows pass_windows(const TraceIndex& index) {
  StepWindows out;
  std::int64_t from = -1, to = -1;
  for (std::uint32_t i = 0; i < index.trace.events.size(); ++i) {
    if (!index.is_operator(i)) continue;
    if (from < 0) from = index.trace.events[i].start_ns;
    to = std::max(to, index.trace.events[i].end_ns());
  }
  if (from < 0) return out;
  const std::vector<std::int64_t> starts = step_operators(index, {from, to}).pass_starts_ns;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i)
    out.steps.push_back({{starts[i], starts[i + 1]}, Seconds(double(starts[i + 1] - starts[i]) * 1e-9)});
  out.assumed =
      "no step annotations and fewer than two updates: a step is what lies between the starts of two forward passes";
  if (!out.steps.empty()) return out;
  out.steps.push_back({{from, to}, Seconds(0)});
  out.assumed = "no step annotations and a single backward pass: the whole trace is taken for one step";
  return out;
}

}  // namespace

StepWindows step_windows(const TraceIndex& index) {
  StepWindows out = annotated_windows(index.trace);
  if (out.steps.empty()) out = updated_windows(index);
  if (out.steps.empty()) out = pass_windows(index);
  return out;
}

}  // namespace stepcast
