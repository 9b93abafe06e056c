// The calibration step as measured and as rebuilt, row beside row.
#include <stepcast/replay/calibration.hpp>
#include <stepcast/replay/timeline.hpp>

#include <algorithm>
#include <cstdlib>
#include <tuple>
#include <utility>

namespace stepcast {
namespace {

using replaying::StepGraph;
using Part = replaying::TaskRole::Part;

class SideBySide {
 public:
  SideBySide(const Trace& trace, const replaying::Calibration& calibration, const StepGraph& rebuilt,
             const std::map<std::uint32_t, std::string>& names)
      : trace_(trace), calibration_(calibration), built_(calibration.taken_apart), rebuilt_(rebuilt), names_(names) {}

  ReplayTimeline timeline() {
    const Timeline schedule = stepcast::schedule(rebuilt_.graph);
    out_.source = trace_.source;
    out_.step = calibration_.step();
    out_.period = schedule.iteration_time();
    name_rows();
    for (std::uint32_t resource = 0; resource < built_.tracks.size(); ++resource)
      if (is_thread(resource)) add_measured_thread(resource);
    add_measured_work();
    add_rebuilt(schedule);
    for (std::vector<ReplaySlice>* slices : {&out_.measured, &out_.rebuilt})
      std::ranges::stable_sort(*slices, {},
                               [](const ReplaySlice& s) { return std::tuple(s.row, s.start, -s.duration); });
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool is_thread(std::uint32_t resource) const {
    return built_.tracks[resource] != no_index && built_.graph.resources[resource].kind == ResourceClass::host;
  }
  [[nodiscard]] static Picoseconds picoseconds(std::int64_t ns) { return ns * 1000; }
  [[nodiscard]] Picoseconds since_start(std::int64_t ns) const { return picoseconds(ns - out_.step.start_ns); }

  void name_rows() {
    rows_.assign(built_.tracks.size(), no_index);
    for (std::uint32_t resource = 0; resource < built_.tracks.size(); ++resource) {
      if (built_.tracks[resource] == no_index) continue;
      rows_[resource] = static_cast<std::uint32_t>(out_.rows.size());
      out_.rows.push_back(replaying::row_name(trace_, built_.tracks[resource]));
    }
  }

  /// Operators and calls with all their parts; a part that outlasts the whole (rounded times) ends with it.
  void add_measured_thread(std::uint32_t resource) {
    const auto [first, end] = calibration_.links.events_within(out_.step.start_ns, out_.step.end_ns);
    std::vector<std::int64_t> open;  // ends of the events around
    for (std::uint32_t e = first; e < end; ++e) {
      const Event& event = trace_.events[e];
      const bool runs = event.kind == EventKind::host_op || event.kind == EventKind::runtime_call;
      const std::string_view name = trace_.text(event.name);
      if (event.track != built_.tracks[resource] || !runs || name.starts_with("ProfilerStep#")) continue;
      while (!open.empty() && open.back() <= event.start_ns) open.pop_back();
      const std::int64_t until = open.empty() ? event.end_ns() : std::min(open.back(), event.end_ns());
      open.push_back(until);
      if (until > event.start_ns)
        out_.measured.push_back({rows_[resource], TaskKind::host, std::string(name), since_start(event.start_ns),
                                 picoseconds(until - event.start_ns)});
    }
  }

  /// Device work, and collectives on threads of their own.
  void add_measured_work() {
    Picoseconds parts = 0;  // of a collective in two tasks
    for (std::uint32_t t = 0; t < built_.roles.size(); ++t) {
      const Task& task = built_.graph.tasks[t];
      const Part part = built_.roles[t].part;
      if (part != Part::device && part != Part::transfer) continue;
      const bool second_part = part == Part::transfer && t > 0 && built_.roles[t - 1].part == Part::transfer &&
                               built_.graph.tasks[t - 1].index == task.index;
      parts = second_part ? parts : 0;
      if (task.work > 0)
        out_.measured.push_back({rows_[task.resource], task.kind, std::string(trace_.text(built_.roles[t].name)),
                                 since_start(trace_.events[task.index].start_ns) + parts, task.work});
      parts += task.work;
    }
  }

  /// The first iteration that is a period after the one before it: later ones only let the host run further ahead.
  [[nodiscard]] std::uint32_t settled(const Timeline& schedule) const {
    const auto marker = [&](std::uint32_t iteration) {
      return schedule.end[std::size_t{iteration} * schedule.tasks + rebuilt_.graph.marker];
    };
    constexpr Picoseconds nanosecond = 1000;
    std::uint32_t iteration = schedule.iterations - 1;
    while (iteration > 1 && std::abs(marker(iteration) - marker(iteration - 1) - schedule.period) <= nanosecond)
      --iteration;
    return iteration;
  }

  [[nodiscard]] std::string name_of(std::uint32_t t) const {
    if (const auto named = names_.find(t); named != names_.end()) return named->second;
    const replaying::TaskRole& role = rebuilt_.roles[t];
    if (role.part == Part::gap) return "gap";
    if (role.part == Part::inserted) return "inserted";
    return std::string(trace_.text(role.part == Part::host ? role.around : role.name));
  }

  void add_rebuilt(const Timeline& schedule) {
    const std::size_t first = std::size_t{settled(schedule)} * schedule.tasks;
    const Picoseconds zero = schedule.start[first + rebuilt_.begin];
    for (std::uint32_t t = 0; t < rebuilt_.roles.size(); ++t) {
      const replaying::TaskRole& role = rebuilt_.roles[t];
      const Task& task = rebuilt_.graph.tasks[t];
      const bool shown = role.part == Part::host || role.part == Part::gap || role.part == Part::device ||
                         role.part == Part::transfer || role.part == Part::inserted;
      if (!shown || task.work == 0) continue;
      out_.rebuilt.push_back({rows_[task.resource], task.kind, name_of(t), schedule.start[first + t] - zero,
                              schedule.end[first + t] - schedule.start[first + t]});
    }
  }

  const Trace& trace_;
  const replaying::Calibration& calibration_;
  const StepGraph &built_, &rebuilt_;
  const std::map<std::uint32_t, std::string>& names_;
  ReplayTimeline out_;
  std::vector<std::uint32_t> rows_;  // by resource
};

}  // namespace

std::string replaying::row_name(const Trace& trace, std::uint32_t number) {
  const Track& track = trace.tracks[number];
  std::string name = track.on_device ? "stream " : "thread ";
  name += track.thread >= 0 || track.label == 0 ? std::to_string(track.thread) : trace.strings[track.label];
  return name;
}

ReplayTimeline replaying::timeline_of(const Trace& trace, const Calibration& calibration, const StepGraph& rebuilt,
                                      const std::map<std::uint32_t, std::string>& names) {
  return SideBySide(trace, calibration, rebuilt, names).timeline();
}

Answer<ReplayTimeline> replay_timeline_of(const Trace& trace) {
  const Answer<std::unique_ptr<replaying::Calibration>> calibration = replaying::calibration_of(trace);
  if (!calibration) return Inapplicable{calibration.reason()};
  return replaying::timeline_of(trace, **calibration, (*calibration)->taken_apart);
}

}  // namespace stepcast
