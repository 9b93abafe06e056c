// The choice of the calibration step, and its graph.
#include <stepcast/replay/calibration.hpp>

#include <algorithm>
#include <vector>

namespace stepcast::replaying {
namespace {

/// The scheduler counts picoseconds in 64 bits; a step of over a day is damage, not training.
constexpr double longest_ns = 1e14;

/// The undistorted steps, else those that the allocator did not stall; the farther from both ends the sooner.
std::vector<std::size_t> candidates_of(const std::vector<Step>& steps) {
  std::vector<std::size_t> usable;
  const bool all_distorted = std::ranges::all_of(steps, &Step::distorted);
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (all_distorted ? !steps[i].stalled : !steps[i].distorted) usable.push_back(i);
  const std::size_t middle = usable[(usable.size() - 1) / 2];
  std::ranges::stable_sort(usable, {}, [middle](std::size_t i) { return i < middle ? middle - i : i - middle; });
  return usable;
}

}  // namespace

Answer<std::unique_ptr<Calibration>> calibration_of(const Trace& trace) {
  const Inapplicable too_long{"the trace's times span more than a day"};
  for (const Event& e : trace.events)
    if (static_cast<double>(e.end_ns()) - static_cast<double>(trace.events.front().start_ns) > longest_ns)
      return too_long;
  auto built = std::make_unique<Calibration>(trace);
  if (built->steps.empty()) return Inapplicable{"the trace has no annotated steps (ProfilerStep#N)"};
  bool sound = false;
  for (const std::size_t candidate : candidates_of(built->steps)) {
    built->number = candidate;
    built->taken_apart = graph_of_step(built->links, built->step());
    sound = flaw_of(built->taken_apart.graph).empty();
    if (sound) break;
  }
  if (!sound)
    return Inapplicable{
        "work waits for itself: events are lost, or the clocks of host and device contradict each other"};
  double work_ns = 0;
  for (const Task& task : built->taken_apart.graph.tasks) work_ns += static_cast<double>(task.work) / 1000;
  if (work_ns > longest_ns) return too_long;
  return built;
}

}  // namespace stepcast::replaying
