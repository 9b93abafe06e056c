// Replay: calibrates on one step of a trace, rebuilds it, and compares with the others.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/replay/calibration.hpp>
#include <stepcast/replay/doubt.hpp>
#include <stepcast/replay/replay.hpp>
#include <stepcast/replay/work.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace stepcast {
namespace {

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

/// What the calibration step, rebuilt, says of the other steps.
class Rebuilding {
 public:
  explicit Rebuilding(const replaying::Calibration& calibration)
      : calibration_(calibration), work_(replaying::work_of_steps(calibration.links, calibration.steps)) {}

  [[nodiscard]] bool same_work(std::size_t step) const {
    return replaying::difference(work_[step], work_[calibration_.number]) <= replaying::telling_difference;
  }

  /// Time of a step with work of its own; 0 when nobody knows how long a part of that work takes, or it waits for
  /// itself.
  Seconds rebuilt(std::size_t step) {
    std::vector<const replaying::StepGraph*> sources{&calibration_.taken_apart};
    for (const std::size_t similar : most_similar(step)) sources.push_back(&graph_of(similar));
    const std::optional<TaskGraph> graph = replaying::with_times_of(graph_of(step), sources);
    return graph && flaw_of(*graph).empty() ? schedule(*graph).iteration_time() : Seconds(0);
  }

  void note_unequal_steps(Replay& replay) const {
    std::vector<std::int64_t> counts;
    for (std::size_t i = 0; i < calibration_.steps.size(); ++i)
      if (!calibration_.steps[i].distorted) counts.push_back(std::ssize(work_[i].host));
    if (counts.size() < 2) return;
    const auto [least, most] = std::ranges::minmax(counts);
    if (static_cast<double>(most - least) <= replaying::telling_difference * static_cast<double>(most)) return;
    add_note(replay, "the steps differ in work: " + std::to_string(least) + " to " + std::to_string(most) +
                         " host events; those that differ are rebuilt with their own work");
  }

 private:
  /// Steps that may know what the calibration step does not: of those around, the two that do the most similar work.
  [[nodiscard]] std::vector<std::size_t> most_similar(std::size_t step) const {
    constexpr std::size_t reach = 4, most = 2;
    std::vector<std::pair<double, std::size_t>> around;
    for (std::size_t i = step - std::min(step, reach); i < std::min(calibration_.steps.size(), step + reach + 1); ++i)
      if (i != step && i != calibration_.number) around.emplace_back(replaying::difference(work_[i], work_[step]), i);
    std::ranges::sort(around);
    std::vector<std::size_t> similar;
    for (const auto& [difference, i] : around)
      if (similar.size() < most) similar.push_back(i);
    return similar;
  }

  const replaying::StepGraph& graph_of(std::size_t step) {
    const auto [entry, is_new] = graphs_.try_emplace(step);
    if (is_new) entry->second = replaying::graph_of_step(calibration_.links, calibration_.steps[step]);
    return entry->second;
  }

  const replaying::Calibration& calibration_;
  const std::vector<replaying::StepWork> work_;
  std::map<std::size_t, replaying::StepGraph> graphs_;
};

/// The first and the last step are left out for other reasons.
void note_stalled_steps(Replay& replay) {
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 1; i + 1 < replay.steps.size(); ++i)
    if (replay.steps[i].stalled) numbers.push_back(replay.steps[i].number);
  if (numbers.empty()) return;
  std::string text = numbers.size() > 1 ? "steps" : "step";
  for (const std::int64_t number : numbers) text += (number == numbers.front() ? " " : ", ") + std::to_string(number);
  add_note(replay, text + " left out: the allocator got memory from the device or gave it back");
}

void compare(Replay& replay, std::size_t calibration) {
  std::vector<double> others, rebuilt, all;
  for (std::size_t i = 0; i < replay.steps.size(); ++i) {
    if (replay.steps[i].distorted || replay.step_times[i] <= Seconds(0)) continue;
    all.push_back(replay.step_times[i].value());
    if (i == calibration || replay.rebuilt[i] <= Seconds(0)) continue;
    others.push_back(replay.step_times[i].value());
    rebuilt.push_back(replay.rebuilt[i].value());
  }
  if (all.size() > 1) replay.noise = (quantile(all, 0.75) - quantile(all, 0.25)) / median(all);
  replay.measured = others.empty() ? replay.step_times[calibration] : Seconds(median(others));
  replay.replayed = others.empty() ? replay.rebuilt[calibration] : Seconds(median(rebuilt));
  replay.scored = replay.steps.size() >= 4 && !others.empty();
  if (replay.steps.size() < 4) {
    add_note(replay, counted(std::ssize(replay.steps), "annotated step") + ", fewer than four");
  }
  if (others.empty()) add_note(replay, "no other undistorted step: compared with the calibration step itself");
  if (replay.measured <= Seconds(0)) add_note(replay, "how long the steps took cannot be told");
  if (replay.measured > Seconds(0)) replay.relative_error = (replay.replayed - replay.measured) / replay.measured;
}

}  // namespace

std::vector<double> Replay::step_errors() const {
  std::vector<double> errors;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool known = step_times[i] > Seconds(0) && rebuilt[i] > Seconds(0);
    errors.push_back(known ? rebuilt[i] / step_times[i] - 1 : 0);
  }
  return errors;
}

Answer<Replay> replay_of(const Trace& trace) {
  const Answer<std::unique_ptr<replaying::Calibration>> answer = replaying::calibration_of(trace);
  if (!answer) return Inapplicable{answer.reason()};
  const replaying::Calibration& built = **answer;
  Replay replay;
  replay.source = trace.source;
  replay.steps = built.steps;
  replay.step_times = step_durations(trace, replay.steps);
  replay.calibration_step = built.step().number;
  const Timeline timeline = schedule(built.taken_apart.graph);
  replay.recorded_gap_share = gap_share(built.taken_apart.graph, timeline);
  Rebuilding rebuilding(built);
  for (std::size_t i = 0; i < replay.steps.size(); ++i) {
    const bool same = i == built.number || rebuilding.same_work(i);
    if (replay.steps[i].distorted && i != built.number) replay.rebuilt.emplace_back(0);
    else replay.rebuilt.push_back(same ? timeline.iteration_time() : rebuilding.rebuilt(i));
  }
  compare(replay, built.number);
  rebuilding.note_unequal_steps(replay);
  note_stalled_steps(replay);
  const std::string doubt = replaying::doubt_about(built.links, built.steps);
  replay.doubtful = !doubt.empty();
  if (replay.doubtful) add_note(replay, "doubtful: " + doubt);
  return replay;
}

}  // namespace stepcast
