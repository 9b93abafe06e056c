// The timelines of a report page: one step of the baseline and of the best plan, one below the other on the same scale.
//
// A drawing has a lane for each resource. Its bars lie in an inner picture whose coordinates are time, so that zooming
// changes one attribute (page/timeline.js); everything else is placed by shares of the width, and text is never
// stretched. Tasks of forward passes stand higher and those of backward passes lower, so that the two can be told
// apart without their colours. Not modelled: arrows between tasks (`predict --timeline` has them).
#include <stepcast/number_text.hpp>
#include <stepcast/page_parts.hpp>
#include <stepcast/sweep_parts.hpp>
#include <stepcast/text.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>

namespace stepcast {
namespace {

constexpr double units = 100000;         // of the inner picture's width
constexpr std::size_t most_bars = 1500;  // of one drawing
constexpr int axis_height = 22, lane_height = 46, label_height = 16, bar_height = 22;

struct Bar {
  std::size_t lane = 0;
  Picoseconds start = 0, end = 0;  ///< from the start of the step that is shown
  TaskKind kind = TaskKind::other;
  int step = 0;  ///< -1: the one before, 1: one after
  std::string name;
  Bytes size;
  std::size_t tasks = 1;
  std::string last;  ///< of several: the name of the last one
};

struct Drawing {
  std::vector<std::string> lanes;
  std::vector<Bar> bars;
  std::vector<Picoseconds> step_ends;
  Picoseconds period = 0;  ///< of one step
  bool merged = false;
  bool ends_early = false;  ///< nothing was scheduled for the rest of the picture
};

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
void name_lanes(Drawing& drawing, const TaskGraph& graph, const Profile& profile, const Lanes& rows,
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
void merge_short(std::vector<Bar>& bars, Picoseconds short_time) {
  std::ranges::stable_sort(bars, {}, [](const Bar& b) { return std::pair(b.lane, b.start); });
  std::vector<Bar> out;
  for (Bar& bar : bars) {
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

Drawing drawing_of(const PageTimeline& page_timeline, const Profile& profile, Picoseconds span) {
  const DetailedTimeline& d = page_timeline.detail;
  const Shown shown = shown_of(d);
  Drawing drawing;
  drawing.period = shown.period / d.plan.period;
  Lanes rows(d.graph);
  std::vector<std::uint32_t> resource_of_bar;
  for (const std::uint32_t i : instances_by_start(d.timeline, shown.start, shown.start + span)) {
    const std::uint32_t number = i % d.timeline.tasks;
    const Task& task = d.graph.tasks[number];
    Bar bar;
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
  for (Picoseconds w = span / 2000; drawing.bars.size() > most_bars && w < span / 20; w *= 2) {
    merge_short(drawing.bars, w);
    drawing.merged = true;
  }
  return drawing;
}

struct Look {
  const char* css;
  int top, height;
};
Look look_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::forward:
      return {"forward", 0, 15};
    case TaskKind::backward:
      return {"backward", 7, 15};
    case TaskKind::transfer:
      return {"transfer", 0, bar_height};
    case TaskKind::host:
      return {"issue", 4, 14};
    case TaskKind::input:
    case TaskKind::load:
      return {"waits", 4, 14};
    case TaskKind::timer:
      return {"waits", 4, 14};
    case TaskKind::codec:
      return {"codec", 0, bar_height};
    default:
      return {"update", 0, bar_height};
  }
}

std::string signed_text(Picoseconds t) { return t < 0 ? "-" + text_of(seconds_of(-t)) : text_of(seconds_of(t)); }

std::string title_of(const Bar& bar) {
  std::string text = bar.name;
  if (bar.tasks > 1) text += " to " + bar.last + " (" + std::to_string(bar.tasks) + " tasks)";
  text +=
      "\n" + signed_text(bar.start) + " to " + signed_text(bar.end) + ", " + text_of(seconds_of(bar.end - bar.start));
  if (bar.size > Bytes(0)) text += ", " + text_of(bar.size);
  if (bar.step < 0) text += "; of the step before";
  if (bar.step > 0) text += bar.step == 1 ? "; of the next step" : "; of a later step";
  return text;
}

/// What there is room for: that a pass is forward or backward is seen by where its bar stands (as in timeline.js).
std::string_view name_on_bar(const Bar& bar) {
  std::string_view name = bar.name;
  if (bar.kind == TaskKind::forward || bar.kind == TaskKind::backward) name.remove_prefix(name.find(' ') + 1);
  return name;
}

/// 1, 2 or 5 times a power of ten, about six of them over `span`.
double tick_distance(double span) {
  const double rough = span / 6, power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double digit : {1.0, 2.0, 5.0})
    if (digit * power >= rough) return digit * power;
  return 10 * power;
}

void write_axis(std::ostream& out, Seconds span, int height) {
  const double distance = tick_distance(span.value());
  out << "<g class=\"axis\">\n";
  for (int k = 0; k * distance <= span.value(); ++k) {
    const std::string x = width_share(k * distance / span.value());
    out << "<line x1=\"" << x << "\" x2=\"" << x << "\" y1=\"" << axis_height - 6 << "\" y2=\"" << height << "\"/>";
    // The last label would hang over the edge.
    if (k * distance < 0.86 * span.value())
      out << "<text x=\"" << x << "\" y=\"12\" dx=\"3\">"
          << (k == 0 ? "0" : html(trimmed_text_of(Seconds(k * distance)))) << "</text>";
    out << '\n';
  }
  out << "</g>\n";
}

int lane_top(std::size_t lane) { return axis_height + static_cast<int>(lane) * lane_height; }

void write_bars(std::ostream& out, const Drawing& drawing, Picoseconds span, int height) {
  const auto at = [&](Picoseconds t) { return units * static_cast<double>(t) / static_cast<double>(span); };
  out << "<svg class=\"tasks\" x=\"0\" y=\"0\" width=\"100%\" height=\"" << height << "\" viewBox=\"0 0 "
      << fixed(units, 0) << " " << height << "\" preserveAspectRatio=\"none\">\n";
  for (std::size_t lane = 0; lane < drawing.lanes.size(); ++lane) {
    out << "<g class=\"lane\" data-name=\"" << html(drawing.lanes[lane]) << "\">\n";
    for (const Bar& bar : drawing.bars) {
      if (bar.lane != lane) continue;
      const Look look = look_of(bar.kind);
      const Picoseconds from = std::max<Picoseconds>(bar.start, 0), to = std::min(bar.end, span);
      out << "<rect class=\"" << look.css << (bar.step == 0 ? "" : " beside")
          << (to - from < span / 1000 ? " thin" : "") << "\" x=\"" << fixed(at(from), 1) << "\" y=\""
          << lane_top(lane) + label_height + look.top << "\" width=\"" << fixed(at(to) - at(from), 1) << "\" height=\""
          << look.height << "\"><title>" << html(title_of(bar)) << "</title></rect>\n";
    }
    out << "</g>\n";
  }
  for (const Picoseconds end : drawing.step_ends)
    out << "<line class=\"step-end\" x1=\"" << fixed(at(end), 1) << "\" x2=\"" << fixed(at(end), 1) << "\" y1=\""
        << axis_height - 6 << "\" y2=\"" << height << "\"/>\n";
  out << "</svg>\n";
}

void write_labels(std::ostream& out, const Drawing& drawing, Picoseconds span) {
  constexpr double labelled = 0.06;  // share of the width from which a bar carries its name
  for (std::size_t lane = 0; lane < drawing.lanes.size(); ++lane)
    out << "<text class=\"lane-name\" x=\"0\" y=\"" << lane_top(lane) + 12 << "\">" << html(drawing.lanes[lane])
        << "</text>\n";
  out << "<g class=\"names\">\n";
  for (const Bar& bar : drawing.bars) {
    const Picoseconds from = std::max<Picoseconds>(bar.start, 0), to = std::min(bar.end, span);
    const double share = static_cast<double>(to - from) / static_cast<double>(span);
    if (share < labelled) continue;
    const Look look = look_of(bar.kind);
    out << "<svg x=\"" << width_share(static_cast<double>(from) / static_cast<double>(span)) << "\" y=\""
        << lane_top(bar.lane) + label_height + look.top << "\" width=\"" << width_share(share) << "\" height=\""
        << look.height << "\"><text class=\"on-" << look.css << (bar.step == 0 ? "" : " on-beside") << "\" x=\"4\" y=\""
        << (look.height + 9) / 2 << "\">" << html(name_on_bar(bar)) << "</text></svg>\n";
  }
  out << "</g>\n";
}

void write_drawing(std::ostream& out, const Drawing& drawing, const PageTimeline& timeline, bool first,
                   Picoseconds span) {
  const int height = lane_top(drawing.lanes.size());
  const std::string id = first ? "timeline-1" : "timeline-2";
  out << "<figure class=\"timeline\" id=\"" << id << "\">\n<figcaption>" << (first ? "Baseline, " : "Best plan, ")
      << plan_html(timeline.plan) << ": " << html(text_of(seconds_of(drawing.period))) << " a step</figcaption>\n"
      << "<svg class=\"plot\" width=\"100%\" height=\"" << height << "\" role=\"img\" aria-label=\"Timeline of "
      << html(text_of(timeline.plan)) << ", " << drawing.bars.size() << " tasks in " << drawing.lanes.size()
      << " lanes\">\n";
  write_axis(out, seconds_of(span), height);
  write_bars(out, drawing, span, height);
  write_labels(out, drawing, span);
  out << "</svg>\n";
  if (drawing.merged)
    out << "<p class=\"remark\">Short tasks of one kind that follow one another are drawn as one, which says how many "
           "they are.</p>\n";
  if (drawing.ends_early) out << "<p class=\"remark\">Drawn as far as it was scheduled, three steps.</p>\n";
  if (timeline.detail.plan.period > 1)
    out << "<p class=\"remark\">The plan repeats every " << timeline.detail.plan.period
        << " steps; dashed lines end such a round.</p>\n";
  out << "</figure>\n";
}

void write_controls(std::ostream& out) {
  const auto button = [&](const char* what, const char* label, const char* name) {
    out << "<button type=\"button\" data-zoom=\"" << what << "\" aria-label=\"" << name << "\">" << label
        << "</button>\n";
  };
  out << "<div class=\"controls\" role=\"toolbar\" aria-label=\"Zoom\" hidden>\n";
  button("in", "+", "Zoom in");
  button("out", "&minus;", "Zoom out");
  button("left", "&larr;", "Earlier");
  button("right", "&rarr;", "Later");
  button("all", "Whole step", "Show the whole step");
  out << "<output class=\"range\"></output>\n</div>\n";
}

void write_key(std::ostream& out, const std::vector<Drawing>& drawings) {
  const auto occurs = [&](const char* css) {
    return std::ranges::any_of(drawings, [&](const Drawing& d) {
      return std::ranges::any_of(d.bars, [&](const Bar& b) { return std::string_view(look_of(b.kind).css) == css; });
    });
  };
  constexpr std::pair<const char*, const char*> names[] = {
      {"issue", "the host issues work"},   {"forward", "forward (raised)"}, {"backward", "backward (lowered)"},
      {"update", "update and other work"}, {"transfer", "communication"},   {"codec", "encoding, decoding"},
      {"waits", "input or timer"}};
  out << "<ul class=\"legend\">\n";
  for (const auto& [css, name] : names) {
    if (!occurs(css)) continue;
    const TaskKind kind = std::string_view(css) == "forward"    ? TaskKind::forward
                          : std::string_view(css) == "backward" ? TaskKind::backward
                                                                : TaskKind::update;
    const Look look = look_of(kind);
    out << "<li><svg width=\"22\" height=\"22\" aria-hidden=\"true\"><rect class=\"" << css << "\" x=\"1\" y=\""
        << look.top << "\" width=\"20\" height=\"" << look.height << "\"/></svg> " << name << "</li>\n";
  }
  out << "<li>pale: of the step before or after</li>\n</ul>\n";
}

}  // namespace

void write_timelines_section(std::ostream& out, const ReportPage& page) {
  if (page.timelines.empty()) return;
  Picoseconds span = 1;
  for (const PageTimeline& t : page.timelines) span = std::max(span, shown_of(t.detail).period);
  span += span / 50;
  std::vector<Drawing> drawings;
  for (const PageTimeline& t : page.timelines) drawings.push_back(drawing_of(t, page.profile, span));
  open_section(out, "timelines", page.timelines.size() > 1 ? "Timelines" : "Timeline");
  out << "<p>One step of a worker in the steady state, "
      << (page.timelines.size() > 1 ? "baseline above and best plan below on the same scale; a dashed line ends a step."
                                    : "of the baseline, which is also the best plan; a dashed line ends a step.")
      << "</p>\n<p class=\"how\" hidden>Zoom with the buttons, with <kbd>+</kbd> <kbd>&minus;</kbd> <kbd>0</kbd>, by "
         "pinching, or with the wheel while <kbd>Ctrl</kbd> is held or the timelines have the focus; move by dragging "
         "or with <kbd>&larr;</kbd> <kbd>&rarr;</kbd>; go from task to task with <kbd>Shift</kbd>+<kbd>&larr;</kbd> "
         "<kbd>&rarr;</kbd>, from lane to lane with <kbd>&uarr;</kbd> <kbd>&darr;</kbd>.</p>\n";
  write_key(out, drawings);
  write_controls(out);
  out << "<div class=\"told\">\n<div class=\"timelines\" data-span=\"" << fixed(seconds_of(span).value() * 1e9, 0)
      << "\" data-units=\"" << fixed(units, 0) << "\">\n";
  for (std::size_t i = 0; i < drawings.size(); ++i) write_drawing(out, drawings[i], page.timelines[i], i == 0, span);
  out << "</div>\n<p class=\"task\" role=\"status\" aria-live=\"polite\" hidden></p>\n</div>\n";
  close_section(out);
}

}  // namespace stepcast
