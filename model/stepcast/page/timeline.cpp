// What a timeline of the report page shows.
#include <stepcast/page/timeline.hpp>
#include <stepcast/schedule/task_name.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace stepcast {
namespace {

constexpr std::size_t most_bars = 1500;  // of one drawing

std::string lane_name(const Resource& resource, const Profile& profile) {
  static const std::map<std::string, std::string, std::less<>> names = {
      {"host", "host, issues the work"},
      {"net", "network"},
      {"up", "network, to the servers"},
      {"dn", "network, from the servers"},
      {"srv", "servers"},
      {"pcie", "links inside the machine"},
      {"timer", "timer"},
      {"loader", "input loader"},
      {"processor", "processor beside the training thread"}};
  if (resource.name == "compute") return profile.has_device() ? "device" : "host";
  const auto found = names.find(resource.name);
  return found == names.end() ? resource.name : found->second;
}

/// Tasks that run at once on one resource are spread over several lanes.
class Lanes {
 public:
  explicit Lanes(const TaskGraph& graph) : free_at_(graph.resources.size()) {}
  std::size_t of(std::uint32_t resource, Picoseconds start, Picoseconds end) {
    auto& rows = free_at_[resource];
    std::size_t row = 0;
    while (row < rows.size() && rows[row] > start) ++row;
    if (row == rows.size()) rows.push_back(0);
    rows[row] = end;
    return row;
  }
  [[nodiscard]] std::size_t rows(std::size_t resource) const { return free_at_[resource].size(); }

 private:
  std::vector<std::vector<Picoseconds>> free_at_;
};

int rank_of(ResourceClass kind) {
  switch (kind) {
    case ResourceClass::host:
      return 0;
    case ResourceClass::compute:
      return 1;
    case ResourceClass::communication:
      return 2;
    case ResourceClass::timer:
      return 3;
  }
  return 4;
}

/// Where the step that is drawn lies among the iterations that were scheduled.
struct Shown {
  std::uint32_t iteration = 0;
  Picoseconds start = 0, period = 0;
};
Picoseconds marker_end(const DetailedTimeline& d, std::uint32_t iteration) {
  return d.timeline.end[std::size_t{iteration} * d.timeline.tasks + d.graph.marker];
}
Shown shown_of(const DetailedTimeline& d) {
  constexpr std::uint32_t shown = 3;  // the step itself and two that follow
  const std::uint32_t n = d.timeline.iterations;
  Shown out;
  out.iteration = n > shown ? n - shown : 0;
  out.start = out.iteration == 0 ? 0 : marker_end(d, out.iteration - 1);
  out.period = d.timeline.period;
  return out;
}

std::vector<std::uint32_t> instances_by_start(const Timeline& timeline, Picoseconds from, Picoseconds to) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < timeline.tasks * timeline.iterations; ++i)
    if (timeline.end[i] > timeline.start[i] && timeline.end[i] > from && timeline.start[i] < to) order.push_back(i);
  std::ranges::sort(order, {}, [&](std::uint32_t i) { return std::pair(timeline.start[i], i); });
  return order;
}

/// Lanes in the order of the resources' classes; of bars, rows of their resource become lanes.
void name_lanes(TimelineDrawing& drawing, const TaskGraph& graph, const Profile& profile, const Lanes& rows,
                const std::vector<std::uint32_t>& resource_of_bar) {
  std::vector<std::size_t> resources(graph.resources.size()), first(graph.resources.size());
  for (std::size_t r = 0; r < resources.size(); ++r) resources[r] = r;
  std::ranges::stable_sort(resources, {}, [&](std::size_t r) { return rank_of(graph.resources[r].kind); });
  for (const std::size_t r : resources) {
    first[r] = drawing.lanes.size();
    for (std::size_t row = 0; row < rows.rows(r); ++row)
      drawing.lanes.push_back(lane_name(graph.resources[r], profile) + (row == 0 ? "" : " " + std::to_string(row + 1)));
  }
  for (std::size_t b = 0; b < drawing.bars.size(); ++b) drawing.bars[b].lane += first[resource_of_bar[b]];
}

/// Neighbours of one kind that are both shorter than `short_time` become one bar.
void merge_short(std::vector<TimelineBar>& bars, Picoseconds short_time) {
  std::ranges::stable_sort(bars, {}, [](const TimelineBar& b) { return std::pair(b.lane, b.start); });
  std::vector<TimelineBar> out;
  for (TimelineBar& bar : bars) {
    const bool joins = !out.empty() && out.back().lane == bar.lane && out.back().kind == bar.kind &&
                       out.back().step == bar.step && bar.start - out.back().end < short_time / 2 &&
                       bar.end - bar.start < short_time && out.back().end - out.back().start < short_time;
    if (!joins) {
      out.push_back(std::move(bar));
      continue;
    }
    out.back().end = std::max(out.back().end, bar.end);
    out.back().last = bar.tasks > 1 ? bar.last : bar.name;
    out.back().tasks += bar.tasks;
    out.back().size += bar.size;
  }
  bars = std::move(out);
}

void merge_into_most(TimelineDrawing& drawing, Picoseconds span) {
  for (Picoseconds w = std::max<Picoseconds>(1, span / 2000); drawing.bars.size() > most_bars && w < span / 20;
       w *= 2) {
    merge_short(drawing.bars, w);
    drawing.merged = true;
  }
}

}  // namespace

std::optional<PageTimeline> page_timeline_of(const Profile& profile, const Cluster& cluster, const PlanSpec& plan) {
  constexpr std::uint32_t iterations = 6;
  Answer<DetailedTimeline> detail = detailed_timeline(profile, cluster, plan, iterations);
  if (!detail) return std::nullopt;
  return PageTimeline{plan, *std::move(detail)};
}

TimelineDrawing timeline_drawing(const PageTimeline& page_timeline, const Profile& profile, Picoseconds span) {
  const DetailedTimeline& d = page_timeline.detail;
  const Shown shown = shown_of(d);
  TimelineDrawing drawing;
  drawing.period = shown.period / d.plan.period;
  Lanes rows(d.graph);
  std::vector<std::uint32_t> resource_of_bar;
  for (const std::uint32_t i : instances_by_start(d.timeline, shown.start, shown.start + span)) {
    const std::uint32_t number = i % d.timeline.tasks;
    const Task& task = d.graph.tasks[number];
    TimelineBar bar;
    bar.lane = rows.of(task.resource, d.timeline.start[i], d.timeline.end[i]);
    bar.start = d.timeline.start[i] - shown.start;
    bar.end = d.timeline.end[i] - shown.start;
    bar.kind = task.kind;
    bar.step = static_cast<int>(i / d.timeline.tasks) - static_cast<int>(shown.iteration);
    bar.name = task_name(profile, d.plan, d.graph, number);
    if (task.kind == TaskKind::transfer) bar.size = d.plan.transfers[task.index].size;
    drawing.bars.push_back(std::move(bar));
    resource_of_bar.push_back(task.resource);
  }
  name_lanes(drawing, d.graph, profile, rows, resource_of_bar);
  for (std::uint32_t k = shown.iteration; k < d.timeline.iterations; ++k)
    if (const Picoseconds end = marker_end(d, k) - shown.start; end <= span) drawing.step_ends.push_back(end);
  drawing.ends_early = marker_end(d, d.timeline.iterations - 1) - shown.start < span;
  merge_into_most(drawing, span);
  return drawing;
}

TimelineDrawing recorded_drawing(const ReplayTimeline& recorded, Picoseconds span) {
  TimelineDrawing drawing;
  drawing.period = (recorded.step.end_ns - recorded.step.start_ns) * 1000;
  drawing.step_ends.push_back(drawing.period);
  std::vector<Picoseconds> busy_until(recorded.rows.size(), INT64_MIN);
  std::vector<std::size_t> lane_of(recorded.rows.size(), recorded.rows.size());
  for (const ReplaySlice& slice : recorded.measured) {  // in order of row and time, the longer one first
    const Picoseconds end = slice.start + slice.duration;
    if (slice.start >= span || end <= 0 || slice.start < busy_until[slice.row]) continue;
    busy_until[slice.row] = end;
    if (lane_of[slice.row] == recorded.rows.size()) {
      lane_of[slice.row] = drawing.lanes.size();
      drawing.lanes.push_back(recorded.rows[slice.row]);
    }
    TimelineBar& bar = drawing.bars.emplace_back();
    bar.lane = lane_of[slice.row];
    bar.start = slice.start;
    bar.end = end;
    const bool sends = slice.kind == TaskKind::kernel && slice.name.starts_with("nccl");
    bar.kind = sends ? TaskKind::transfer : slice.kind;
    bar.name = slice.name;
  }
  merge_into_most(drawing, span);
  return drawing;
}

Picoseconds timeline_span(const ReportPage& page) {
  Picoseconds span = 1;
  for (const PageTimeline& t : page.timelines) span = std::max(span, shown_of(t.detail).period);
  if (page.recorded) span = std::max(span, (page.recorded->step.end_ns - page.recorded->step.start_ns) * 1000);
  return span + span / 50;
}

}  // namespace stepcast
