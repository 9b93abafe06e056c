// StepWindows: one function a way of finding steps; see step_windows.hpp for their order.
#include <stepcast/anatomy/step_anatomy.hpp>
#include <stepcast/anatomy/step_windows.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/trace/steps.hpp>

#include <algorithm>
#include <span>
#include <utility>

namespace stepcast {
namespace {

/// One alone is that step's accidents.
constexpr std::size_t enough_steps = 2;

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
  if (times.pace == Pace::device_work)
    out.assumed += (out.assumed.empty() ? "" : "; ") + std::string("their annotations (") + text_of(times.host) +
                   ") end before their kernels do: a step takes as long as its kernels keep a stream busy";
  out.measured = std::move(times.measured);
  const std::string annotation = step_annotation_of(trace);
  const std::string how = annotation.starts_with("ProfilerStep") ? "" : " (" + annotation + ")";
  out.recognised =
      std::to_string(steps.size()) + " annotated steps" + how + ", " + std::to_string(good) + " of them undistorted";
  return out;
}

/// Where in a mark one step ends and the next begins: at the last update between two passes. Without an update behind
/// the last pass there are none, since passes without one add up their gradients.
std::vector<std::int64_t> ends_of_steps(const TraceIndex& index, const std::vector<StepWindow>& all_updates,
                                        const StepWindow& mark) {
  const auto first = std::ranges::lower_bound(all_updates, mark.start_ns, {}, &StepWindow::start_ns);
  const std::span<const StepWindow> updates(
      first, std::ranges::lower_bound(first, all_updates.end(), mark.end_ns, {}, &StepWindow::start_ns));
  if (updates.size() < 2) return {};
  std::vector<std::int64_t> passes = step_operators(index, mark).pass_starts_ns;
  passes.push_back(mark.end_ns);
  std::vector<std::int64_t> ends;
  for (std::size_t p = 0; p + 1 < passes.size(); ++p) {
    std::int64_t end = -1;
    for (const StepWindow& update : updates)
      if (update.start_ns >= passes[p] && update.start_ns < passes[p + 1]) end = std::max(end, update.end_ns);
    if (end >= 0) ends.push_back(end);
    else if (p + 2 == passes.size()) return {};
  }
  return ends;
}

/// Marks that hold several steps of one structure each (those of two networks that train in turn differ), taken apart.
StepWindows with_marks_taken_apart(const TraceIndex& index, StepWindows marks) {
  std::vector<StepWindow> updates;
  for (std::uint32_t i = 0; i < index.trace.events.size(); ++i)
    if (index.is_operator(i) && index.facts(i).role == naming::Role::optimizer)
      updates.push_back({index.trace.events[i].start_ns, index.trace.events[i].end_ns()});
  std::vector<MeasuredWindow> steps;
  std::size_t in_each = 0;
  for (const MeasuredWindow& mark : marks.steps) {
    const std::vector<std::int64_t> ends = ends_of_steps(index, updates, mark.window);
    if (ends.size() < 2 || (in_each > 0 && ends.size() != in_each)) return marks;
    in_each = ends.size();
    std::int64_t from = mark.window.start_ns;
    for (const std::int64_t end : ends) {
      steps.push_back({{from, end == ends.back() ? mark.window.end_ns : end},
                       mark.duration / static_cast<double>(in_each),
                       mark.distorted});
      from = end;
    }
  }
  if (steps.empty()) return marks;
  const StepAnatomy first = anatomy_of(index, steps.front().window);
  for (std::size_t i = 1; i < in_each; ++i)
    if (!anatomy_of(index, steps[i].window).same_structure(first)) return marks;
  marks.steps = std::move(steps);
  for (Seconds& measured : marks.measured) measured = measured / static_cast<double>(in_each);
  marks.in_each_mark = in_each;
  marks.recognised += "; each holds " + std::to_string(in_each) + " steps, one for each update";
  return marks;
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
  StepWindows out = with_marks_taken_apart(index, annotated_windows(index.trace));
  if (out.steps.empty()) out = updated_windows(index);
  if (out.steps.empty()) out = pass_windows(index);
  return out;
}

}  // namespace stepcast
