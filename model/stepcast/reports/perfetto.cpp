// The Perfetto report: predicted iterations, with the traced step beside them, or a replayed step beside the measured
// one, as a Chrome trace for ui.perfetto.dev; or the pipeline of a layout, one track a stage.
//
// One process a resource class (compute, host, communication, timers), one named track a resource. Tasks that overlap
// on a resource which serves several at once are spread over further tracks, because slices of one track may only
// nest. Arrows lead from the task that released a transfer (the gradient) to the transfer, and from the transfer to
// the first task that waited for it.
#include <stepcast/report/report.hpp>
#include <stepcast/report/timeline/chrome_trace.hpp>
#include <stepcast/schedule/task_name.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <ostream>
#include <set>
#include <utility>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

struct ProcessName {
  ResourceClass kind;
  std::string_view name;
};
constexpr std::array processes = {
    ProcessName{ResourceClass::compute, "compute"},
    ProcessName{ResourceClass::host, "host"},
    ProcessName{ResourceClass::communication, "communication"},
    ProcessName{ResourceClass::timer, "timers"},
};

constexpr int recorded_process = static_cast<int>(processes.size()) + 1;

/// The slices of a step under a process of their own, time zero at its start.
void add_step(ChromeTrace& trace, int process, std::string_view name, const std::vector<std::string>& rows,
              const std::vector<ReplaySlice>& slices) {
  trace.name_process(process, name);
  for (std::size_t row = 0; row < rows.size(); ++row) trace.name_track({process, row + 1}, rows[row]);
  for (const ReplaySlice& slice : slices)
    trace.add_slice({process, slice.row + std::size_t{1}}, json_string(slice.name), name_of(slice.kind), slice.start,
                    slice.duration, "");
}

int process_of(ResourceClass kind) {
  for (std::size_t i = 0; i < processes.size(); ++i)
    if (processes[i].kind == kind) return static_cast<int>(i) + 1;
  return 0;
}

/// A timeline with the words that go with it.
struct Shown {
  const TaskGraph& graph;
  const Timeline& timeline;
  std::vector<std::string> names;                         ///< of each task
  std::function<std::string(std::size_t instance)> args;  ///< JSON of a slice, or empty
};

class Writer {
 public:
  explicit Writer(Shown shown) : args_(std::move(shown.args)), graph_(shown.graph), timeline_(shown.timeline) {
    for (const std::string& name : shown.names) names_.push_back(json_string(name));
    assign_tracks();
  }

  /// `about`: JSON of what the file says of itself. `recorded`: the traced step, or null.
  void write(std::ostream& out, const std::string& about, const ReplayTimeline* recorded = nullptr) {
    name_places();
    add_slices();
    add_arrows();
    if (recorded)
      add_step(trace_, recorded_process, "recorded, step " + std::to_string(recorded->step.number), recorded->rows,
               recorded->measured);
    trace_.write(out, about);
  }

 private:
  [[nodiscard]] std::size_t instances() const { return std::size_t{timeline_.tasks} * timeline_.iterations; }
  [[nodiscard]] const Task& task_of(std::size_t instance) const { return graph_.tasks[instance % timeline_.tasks]; }
  /// Tasks without duration are points of synchronisation and would only clutter the tracks.
  [[nodiscard]] bool visible(std::size_t i) const { return timeline_.end[i] > timeline_.start[i]; }

  // Greedy colouring of intervals: the first lane of the resource that is free again.
  void assign_tracks() {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < instances(); ++i)
      if (visible(i)) order.push_back(i);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(timeline_.start[a], a) < std::pair(timeline_.start[b], b);
    });
    std::vector<std::vector<Picoseconds>> free_at(graph_.resources.size());
    lane_.resize(instances());
    for (const std::size_t i : order) {
      auto& lanes = free_at[task_of(i).resource];
      std::size_t lane = 0;
      while (lane < lanes.size() && lanes[lane] > timeline_.start[i]) ++lane;
      if (lane == lanes.size()) lanes.push_back(0);
      lanes[lane] = timeline_.end[i];
      lane_[i] = lane;
    }
    std::size_t next = 1;
    for (const auto& lanes : free_at) {
      first_track_.push_back(next);
      lanes_.push_back(lanes.size());
      next += lanes.size();
    }
  }

  [[nodiscard]] ChromeTrace::Place place_of(std::size_t i) const {
    const std::uint32_t resource = task_of(i).resource;
    return {process_of(graph_.resources[resource].kind), first_track_[resource] + lane_[i]};
  }

  void name_places() {
    std::set<ResourceClass> used;
    for (const Resource& resource : graph_.resources) used.insert(resource.kind);
    for (const ProcessName& process : processes)
      if (used.contains(process.kind)) trace_.name_process(process_of(process.kind), process.name);
    for (std::size_t r = 0; r < graph_.resources.size(); ++r) {
      const Resource& resource = graph_.resources[r];
      for (std::size_t lane = 0; lane < lanes_[r]; ++lane)
        trace_.name_track({process_of(resource.kind), first_track_[r] + lane},
                          resource.name + (lane == 0 ? "" : " " + std::to_string(lane + 1)));
    }
  }

  void add_slices() {
    for (std::size_t i = 0; i < instances(); ++i) {
      if (!visible(i)) continue;
      const Picoseconds duration = timeline_.end[i] - timeline_.start[i];
      trace_.add_slice(place_of(i), names_[i % timeline_.tasks], name_of(task_of(i).kind), timeline_.start[i], duration,
                       args_(i));
    }
  }

  // Of everything that a transfer waited for, and of everything that waits for it, one arrow each tells the story: the
  // predecessor that ended last and the successor that started first.
  void add_arrows() {
    constexpr std::size_t none = static_cast<std::size_t>(-1);
    std::vector<std::size_t> released_by(instances(), none), first_waiting(instances(), none);
    for (std::size_t from = 0; from < instances(); ++from) {
      for (const Arc& arc : graph_.successors(static_cast<std::uint32_t>(from % timeline_.tasks))) {
        const std::size_t to = (from / timeline_.tasks + arc.lag) * timeline_.tasks + arc.task;
        if (to >= instances() || !visible(from) || !visible(to)) continue;
        if (task_of(to).kind == TaskKind::transfer &&
            (released_by[to] == none || timeline_.end[from] > timeline_.end[released_by[to]]))
          released_by[to] = from;
        if (task_of(from).kind == TaskKind::transfer &&
            (first_waiting[from] == none || timeline_.start[to] < timeline_.start[first_waiting[from]]))
          first_waiting[from] = to;
      }
    }
    for (std::size_t i = 0; i < instances(); ++i) {
      if (released_by[i] != none) add_arrow(released_by[i], i);
      const std::size_t to = first_waiting[i];
      if (to != none && released_by[to] != i) add_arrow(i, to);
    }
  }

  void add_arrow(std::size_t from, std::size_t to) {
    trace_.add_arrow(place_of(from), timeline_.start[from], timeline_.end[from], place_of(to), timeline_.start[to]);
  }

  std::function<std::string(std::size_t)> args_;
  const TaskGraph& graph_;
  const Timeline& timeline_;
  std::vector<std::string> names_;        // quoted, a task
  std::vector<std::size_t> lane_;         // of an instance, within its resource
  std::vector<std::size_t> first_track_;  // of a resource
  std::vector<std::size_t> lanes_;        // of a resource
  ChromeTrace trace_;
};

void write_timeline(std::ostream& out, const TimelineReport& report) {
  const TaskGraph& graph = report.detail.graph;
  const Timeline& timeline = report.detail.timeline;
  const CommPlan& plan = report.detail.plan;
  Shown shown{graph, timeline, {}, [&](std::size_t instance) {
                // A plan that repeats every k iterations is scheduled k iterations at a time.
                std::string args = plan.period == 1 ? "\"iteration\":" : "\"repetition\":";
                args += std::to_string(instance / timeline.tasks);
                const Task& task = graph.tasks[instance % timeline.tasks];
                if (task.kind != TaskKind::transfer) return args;
                args += ",\"size_bytes\":" + Json(plan.transfers[task.index].size.value()).dump();
                return args + ",\"priority\":" + std::to_string(task.priority);
              }};
  for (std::uint32_t t = 0; t < timeline.tasks; ++t) shown.names.push_back(task_name(report.profile, plan, graph, t));
  const Json about = {{"producer", "stepcast"},
                      {"plan", text_of(report.plan)},
                      {"model", report.profile.model},
                      {"iteration_s", (timeline.iteration_time() / plan.period).value()}};
  Writer(std::move(shown)).write(out, about.dump(-1, ' ', false, Json::error_handler_t::replace), report.recorded);
}

/// One row a stage, and below one a direction of each link between neighbours.
/// The task graph of a pipeline.
template <class Detail>
void write_pipeline(std::ostream& out, const Detail& detail, const Json& about) {
  Shown shown{detail.graph, detail.timeline, {}, [&](std::size_t instance) {
                const auto number = static_cast<std::uint32_t>(instance % detail.timeline.tasks);
                const PipelineTask task = pipeline_task(detail.graph, detail.shape, number);
                return "\"virtual_stage\":" + std::to_string(task.virtual_stage) +
                       ",\"chunk\":" + std::to_string(task.slot.chunk) +
                       ",\"micro_batch\":" + std::to_string(task.slot.micro_batch);
              }};
  for (std::uint32_t t = 0; t < detail.timeline.tasks; ++t)
    shown.names.push_back(pipeline_task_name(detail.graph, detail.shape, t));
  Writer(std::move(shown)).write(out, about.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void write_layout_timeline(std::ostream& out, const LayoutTimelineReport& report) {
  write_pipeline(out, report.detail,
                 {{"producer", "stepcast"},
                  {"plan", text_of(report.plan)},
                  {"model", report.workload.name},
                  {"iteration_s", report.iteration.value()}});
}

void write_placement_timeline(std::ostream& out, const PlacementTimelineReport& report) {
  Json stages = Json::array();
  for (const std::uint32_t d : report.plan.device) stages.push_back(report.cluster.devices[d].name);
  write_pipeline(out, report.detail,
                 {{"producer", "stepcast"},
                  {"plan", text_of(report.plan)},
                  {"model", report.workload.name},
                  {"stages", std::move(stages)},
                  {"iteration_s", report.iteration.value()}});
}

void add_replay(ChromeTrace& trace, const ReplayTimeline& timeline, int process, const std::string& whose) {
  add_step(trace, process, whose + "measured", timeline.rows, timeline.measured);
  add_step(trace, process + 1, whose + timeline.rebuilt_as, timeline.rows, timeline.rebuilt);
}

/// Two processes a rank, measured and rebuilt, with the same rows; time zero is the start of the step in both.
void write_replay_timeline(std::ostream& out, std::span<const ReplayTimeline> ranks) {
  ChromeTrace trace;
  Json steps = Json::array();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::string whose = ranks.size() == 1 ? "" : ranks[i].source + ", ";
    add_replay(trace, ranks[i], static_cast<int>(2 * i + 1), whose);
    steps.push_back(
        {{"source", ranks[i].source}, {"step", ranks[i].step.number}, {"rebuilt_s", ranks[i].period.value()}});
  }
  const Json about = {{"producer", "stepcast"}, {"replays", std::move(steps)}};
  trace.write(out, about.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

Report perfetto_report() {
  return {.name = "perfetto",
          .summary = "predicted iterations as a Chrome trace for ui.perfetto.dev",
          .profile = nullptr,
          .replay = nullptr,
          .prediction = nullptr,
          .ranking = nullptr,
          .inapplicable = nullptr,
          .calibration = nullptr,
          .timeline = write_timeline,
          .placement_timeline = write_placement_timeline,
          .layout_timeline = write_layout_timeline,
          .replay_timeline = write_replay_timeline};
}

}  // namespace stepcast
