// Replay: calibrates on one step of a trace, rebuilds it, and compares with the others.
//
// The calibration step is the middle one of the undistorted steps (the earlier of two): farthest from both ends of the
// recording, chosen before any time is looked at.
#include <stepcast/replay.hpp>
#include <stepcast/replay_parts.hpp>
#include <stepcast/statistics.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace stepcast {
namespace {

/// Index of the calibration step; requires steps.
std::size_t calibration_of(const std::vector<Step>& steps) {
  std::vector<std::size_t> usable;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (!steps[i].distorted) usable.push_back(i);
  if (usable.empty()) return (steps.size() - 1) / 2;
  return usable[(usable.size() - 1) / 2];
}

/// Recorded gaps on the critical path of the last period, as a share of it.
double gap_share(const TaskGraph& graph, const Timeline& timeline) {
  if (timeline.period <= 0) return 0;
  std::uint32_t instance = (timeline.iterations - 1) * timeline.tasks + graph.marker;
  const Picoseconds from = timeline.end[instance] - timeline.period;
  Picoseconds gaps = 0;
  for (; instance != Timeline::no_instance && timeline.end[instance] > from; instance = timeline.cause[instance])
    if (graph.tasks[instance % timeline.tasks].kind == TaskKind::gap)
      gaps += timeline.end[instance] - std::max(from, timeline.start[instance]);
  return static_cast<double>(gaps) / static_cast<double>(timeline.period);
}

void add_note(Replay& replay, const std::string& note) {
  if (!replay.note.empty()) replay.note += "; ";
  replay.note += note;
}

/// Steps that do not do the same work (an optimizer that runs every second step) cannot predict one another.
void note_unequal_steps(const Trace& trace, Replay& replay) {
  constexpr double telling = 0.02;  // fewer differ by allocator calls alone
  std::vector<double> events(replay.steps.size(), 0);
  for (const Event& event : trace.events) {
    if (event.kind != EventKind::host_op && event.kind != EventKind::runtime_call) continue;
    const auto after = std::ranges::upper_bound(replay.steps, event.start_ns, {}, &Step::start_ns);
    if (after != replay.steps.begin()) ++events[static_cast<std::size_t>(after - replay.steps.begin() - 1)];
  }
  std::vector<double> undistorted;
  for (std::size_t i = 0; i < events.size(); ++i)
    if (!replay.steps[i].distorted) undistorted.push_back(events[i]);
  if (undistorted.size() < 2) return;
  const auto [least, most] = std::ranges::minmax(undistorted);
  if (most - least <= telling * most) return;
  add_note(replay, "the steps differ in work: " + std::to_string(std::llround(least)) + " to " +
                       std::to_string(std::llround(most)) + " host events");
}

void compare(Replay& replay, std::size_t calibration) {
  std::vector<double> others, all;
  for (std::size_t i = 0; i < replay.steps.size(); ++i) {
    if (replay.steps[i].distorted || replay.step_times[i] <= Seconds(0)) continue;
    all.push_back(replay.step_times[i].value());
    if (i != calibration) others.push_back(replay.step_times[i].value());
  }
  if (all.size() > 1) replay.noise = (quantile(all, 0.75) - quantile(all, 0.25)) / median(all);
  replay.measured = others.empty() ? replay.step_times[calibration] : Seconds(median(others));
  replay.scored = replay.steps.size() >= 4 && !others.empty();
  if (replay.steps.size() < 4) {
    const std::string count = std::to_string(replay.steps.size());
    add_note(replay, count + (replay.steps.size() == 1 ? " annotated step" : " annotated steps") + ", fewer than four");
  }
  if (others.empty()) add_note(replay, "no other undistorted step: compared with the calibration step itself");
  if (replay.measured <= Seconds(0)) add_note(replay, "how long the steps took cannot be told");
  if (replay.measured > Seconds(0)) replay.relative_error = (replay.replayed - replay.measured) / replay.measured;
}

}  // namespace

Answer<ReplayGraph> replay_graph_of(const Trace& trace) {
  // The scheduler counts picoseconds in 64 bits; a step of over a day is damage, not training.
  constexpr double longest_ns = 1e14;
  const Inapplicable too_long{"the trace's times span more than a day"};
  const std::vector<Step> steps = steps_of(trace);
  if (steps.empty()) return Inapplicable{"the trace has no annotated steps (ProfilerStep#N)"};
  for (const Event& e : trace.events)
    if (static_cast<double>(e.end_ns()) - static_cast<double>(trace.events.front().start_ns) > longest_ns)
      return too_long;
  const Step step = steps[calibration_of(steps)];
  ReplayGraph replay{replaying::graph_of_step(trace, step), step};
  double work_ns = 0;
  for (const Task& task : replay.graph.tasks) work_ns += static_cast<double>(task.work) / 1000;
  if (work_ns > longest_ns) return too_long;
  return replay;
}

Answer<Replay> replay_of(const Trace& trace) {
  Answer<ReplayGraph> built = replay_graph_of(trace);
  if (!built) return Inapplicable{built.reason()};
  Replay replay;
  replay.source = trace.source;
  replay.steps = steps_of(trace);
  replay.step_times = step_durations(trace, replay.steps);
  const std::size_t calibration = calibration_of(replay.steps);
  replay.calibration_step = replay.steps[calibration].number;
  const Timeline timeline = schedule(built->graph);
  replay.replayed = timeline.iteration_time();
  replay.recorded_gap_share = gap_share(built->graph, timeline);
  compare(replay, calibration);
  note_unequal_steps(trace, replay);
  return replay;
}

}  // namespace stepcast
