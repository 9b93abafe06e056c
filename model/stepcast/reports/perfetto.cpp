// The Perfetto report: predicted iterations as a Chrome trace (JSON object format), for ui.perfetto.dev.
//
// One process a resource class (compute, host, communication, timers), one named track a resource. Tasks that overlap
// on a resource which serves several at once are spread over further tracks, because slices of one track may only
// nest. Arrows lead from the task that released a transfer (the gradient) to the transfer, and from the transfer to
// the first task that waited for it.
// Format: "Trace Event Format", Google 2016: phases X (complete), M (metadata), s and f (flow); times in microseconds.
#include <stepcast/report.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>
#include <set>
#include <tuple>

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

int process_of(ResourceClass kind) {
  for (std::size_t i = 0; i < processes.size(); ++i)
    if (processes[i].kind == kind) return static_cast<int>(i) + 1;
  return 0;
}

std::string json_string(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Microseconds with all six decimals that a picosecond needs.
std::string microseconds_text(Picoseconds ps) {
  char text[40];
  std::snprintf(text, sizeof text, "%lld.%06lld", static_cast<long long>(ps / 1'000'000),
                static_cast<long long>(ps % 1'000'000));
  return text;
}

/// One line of the file, with what it is sorted by.
struct Line {
  Picoseconds at = 0;
  int rank = 0;                  ///< slices before the arrows that bind to them
  Picoseconds longer_first = 0;  ///< negated duration
  std::size_t number = 0;
  std::string text;
};

class Writer {
 public:
  explicit Writer(const TimelineReport& report)
      : report_(report), graph_(report.detail.graph), timeline_(report.detail.timeline) {
    for (std::uint32_t t = 0; t < timeline_.tasks; ++t)
      names_.push_back(json_string(task_name(report.profile, report.detail.plan, graph_, t)));
    assign_tracks();
  }

  void write(std::ostream& out) {
    out << "{\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"producer\":\"stepcast\",\"plan\":"
        << json_string(text_of(report_.plan)) << ",\"model\":" << json_string(report_.profile.model)
        << ",\"iteration_s\":" << Json((timeline_.iteration_time() / report_.detail.plan.period).value()).dump()
        << "},\n\"traceEvents\":[\n";
    write_metadata(out);
    add_slices();
    add_arrows();
    std::sort(lines_.begin(), lines_.end(), [](const Line& a, const Line& b) {
      return std::tie(a.at, a.rank, a.longer_first, a.number) < std::tie(b.at, b.rank, b.longer_first, b.number);
    });
    for (std::size_t i = 0; i < lines_.size(); ++i) out << lines_[i].text << (i + 1 < lines_.size() ? ",\n" : "\n");
    out << "]}\n";
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

  [[nodiscard]] std::string place_of(std::size_t i) const {
    const std::uint32_t resource = task_of(i).resource;
    return "\"pid\":" + std::to_string(process_of(graph_.resources[resource].kind)) +
           ",\"tid\":" + std::to_string(first_track_[resource] + lane_[i]);
  }

  void write_metadata(std::ostream& out) const {
    std::set<ResourceClass> used;
    for (const Resource& resource : graph_.resources) used.insert(resource.kind);
    const auto name = [&out](std::string_view what, int process, std::size_t track, std::string_view key,
                             const std::string& value) {
      out << "{\"ph\":\"M\",\"name\":\"" << what << "\",\"pid\":" << process << ",\"tid\":" << track << ",\"args\":{\""
          << key << "\":" << value << "}},\n";
    };
    for (const ProcessName& process : processes) {
      if (!used.contains(process.kind)) continue;
      const int id = process_of(process.kind);
      name("process_name", id, 0, "name", json_string(process.name));
      name("process_sort_index", id, 0, "sort_index", std::to_string(id));
    }
    for (std::size_t r = 0; r < graph_.resources.size(); ++r) {
      const Resource& resource = graph_.resources[r];
      for (std::size_t lane = 0; lane < lanes_[r]; ++lane) {
        const std::size_t track = first_track_[r] + lane;
        const std::string suffix = lane == 0 ? "" : " " + std::to_string(lane + 1);
        name("thread_name", process_of(resource.kind), track, "name", json_string(resource.name + suffix));
        name("thread_sort_index", process_of(resource.kind), track, "sort_index", std::to_string(track));
      }
    }
  }

  void add_slices() {
    for (std::size_t i = 0; i < instances(); ++i) {
      if (!visible(i)) continue;
      const Task& task = task_of(i);
      const Picoseconds duration = timeline_.end[i] - timeline_.start[i];
      // A plan that repeats every k iterations is scheduled k iterations at a time.
      std::string args = report_.detail.plan.period == 1 ? "\"iteration\":" : "\"repetition\":";
      args += std::to_string(i / timeline_.tasks);
      if (task.kind == TaskKind::transfer) {
        const Transfer& transfer = report_.detail.plan.transfers[task.index];
        args += ",\"size_bytes\":" + Json(transfer.size.value()).dump();
        args += ",\"priority\":" + std::to_string(task.priority);
      }
      lines_.push_back({timeline_.start[i], 0, -duration, lines_.size(),
                        "{\"ph\":\"X\",\"name\":" + names_[i % timeline_.tasks] +
                            ",\"cat\":" + json_string(name_of(task.kind)) + "," + place_of(i) +
                            ",\"ts\":" + microseconds_text(timeline_.start[i]) +
                            ",\"dur\":" + microseconds_text(duration) + ",\"args\":{" + args + "}}"});
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
    const std::string id = std::to_string(++arrows_);
    // An arrow binds to the slice that encloses its time: the last instant that lies inside the sender.
    const Picoseconds left = std::max(timeline_.start[from], timeline_.end[from] - 1000);
    const auto add_end = [&](std::string_view phase, std::size_t i, Picoseconds at) {
      lines_.push_back({at, 1, 0, lines_.size(),
                        "{" + std::string(phase) + ",\"name\":\"waits for\",\"cat\":\"dependency\",\"id\":" + id + "," +
                            place_of(i) + ",\"ts\":" + microseconds_text(at) + "}"});
    };
    add_end("\"ph\":\"s\"", from, left);
    add_end("\"ph\":\"f\",\"bp\":\"e\"", to, timeline_.start[to]);
  }

  const TimelineReport& report_;
  const TaskGraph& graph_;
  const Timeline& timeline_;
  std::vector<std::string> names_;        // quoted, a task
  std::vector<std::size_t> lane_;         // of an instance, within its resource
  std::vector<std::size_t> first_track_;  // of a resource
  std::vector<std::size_t> lanes_;        // of a resource
  std::vector<Line> lines_;
  std::size_t arrows_ = 0;
};

void write_timeline(std::ostream& out, const TimelineReport& report) { Writer(report).write(out); }

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
          .timeline = write_timeline};
}

}  // namespace stepcast
