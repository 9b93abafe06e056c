// The timelines of a report page: one step of the baseline and of the best plan, one below the other on the same scale.
//
// A drawing has a lane for each resource. Its bars lie in an inner picture whose coordinates are time, so that zooming
// changes one attribute (page/timeline.js); everything else is placed by shares of the width, and text is never
// stretched. Tasks of forward passes stand higher and those of backward passes lower, so that the two can be told
// apart without their colours.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/page/sections.hpp>
#include <stepcast/page/timeline.hpp>
#include <stepcast/sweep/axis_rules.hpp>

#include <algorithm>
#include <cmath>
#include <ostream>

namespace stepcast {
namespace {

constexpr double units = 100000;  // of the inner picture's width
constexpr int axis_height = 22, lane_height = 46, label_height = 16, bar_height = 22;

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
    case TaskKind::late:
      return {"waits", 4, 14};
    case TaskKind::arrival:
    case TaskKind::timer:
      return {"waits", 4, 14};
    case TaskKind::codec:
      return {"codec", 0, bar_height};
    default:
      return {"update", 0, bar_height};
  }
}

std::string signed_text(Picoseconds t) { return t < 0 ? "-" + text_of(seconds_of(-t)) : text_of(seconds_of(t)); }

std::string title_of(const TimelineBar& bar) {
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
std::string_view name_on_bar(const TimelineBar& bar) {
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

void write_bars(std::ostream& out, const TimelineDrawing& drawing, Picoseconds span, int height) {
  const auto at = [&](Picoseconds t) { return units * static_cast<double>(t) / static_cast<double>(span); };
  out << "<svg class=\"tasks\" x=\"0\" y=\"0\" width=\"100%\" height=\"" << height << "\" viewBox=\"0 0 "
      << fixed(units, 0) << " " << height << "\" preserveAspectRatio=\"none\">\n";
  for (std::size_t lane = 0; lane < drawing.lanes.size(); ++lane) {
    out << "<g class=\"lane\" data-name=\"" << html(drawing.lanes[lane]) << "\">\n";
    for (const TimelineBar& bar : drawing.bars) {
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

void write_labels(std::ostream& out, const TimelineDrawing& drawing, Picoseconds span) {
  constexpr double labelled = 0.06;  // share of the width from which a bar carries its name
  for (std::size_t lane = 0; lane < drawing.lanes.size(); ++lane)
    out << "<text class=\"lane-name\" x=\"0\" y=\"" << lane_top(lane) + 12 << "\">" << html(drawing.lanes[lane])
        << "</text>\n";
  out << "<g class=\"names\">\n";
  for (const TimelineBar& bar : drawing.bars) {
    const Picoseconds from = std::max<Picoseconds>(bar.start, 0), to = std::min(bar.end, span);
    const double share = static_cast<double>(to - from) / static_cast<double>(span);
    if (share < labelled) continue;
    const Look look = look_of(bar.kind);
    if (bar.kind == TaskKind::host) continue;  // too pale to carry its name, which its title has
    out << "<svg x=\"" << width_share(static_cast<double>(from) / static_cast<double>(span)) << "\" y=\""
        << lane_top(bar.lane) + label_height + look.top << "\" width=\"" << width_share(share) << "\" height=\""
        << look.height << "\"><text class=\"on-" << look.css << (bar.step == 0 ? "" : " on-beside") << "\" x=\"4\" y=\""
        << (look.height + 9) / 2 << "\">" << html(name_on_bar(bar)) << "</text></svg>\n";
  }
  out << "</g>\n";
}

/// What is said of a drawing, as HTML.
struct Caption {
  std::string id, title, label, remark;
};
Caption caption_of(const PageTimeline& timeline, bool is_baseline) {
  Caption caption{is_baseline ? "timeline-1" : "timeline-2",
                  (is_baseline ? "Baseline, " : "Best plan, ") + plan_html(timeline.plan), html(text_of(timeline.plan)),
                  ""};
  if (timeline.detail.plan.period > 1)
    caption.remark = "The plan repeats every " + std::to_string(timeline.detail.plan.period) +
                     " steps; dashed lines end such a round.";
  return caption;
}
Caption caption_of(const ReplayTimeline& recorded) {
  return {"timeline-recorded", "As it was traced, step " + std::to_string(recorded.step.number), "the traced step",
          "Of every thread the outermost operators and calls, and what the device and the collectives did meanwhile."};
}

void write_drawing(std::ostream& out, const TimelineDrawing& drawing, const Caption& caption, Picoseconds span) {
  const int height = lane_top(drawing.lanes.size());
  out << "<figure class=\"timeline\" id=\"" << caption.id << "\">\n<figcaption>" << caption.title << ": "
      << html(text_of(seconds_of(drawing.period))) << " a step</figcaption>\n"
      << "<svg class=\"plot\" width=\"100%\" height=\"" << height << "\" role=\"img\" aria-label=\"Timeline of "
      << caption.label << ", " << drawing.bars.size() << " tasks in " << drawing.lanes.size() << " lanes\">\n";
  write_axis(out, seconds_of(span), height);
  write_bars(out, drawing, span, height);
  write_labels(out, drawing, span);
  out << "</svg>\n";
  if (drawing.merged)
    out << "<p class=\"remark\">Short tasks of one kind that follow one another are drawn as one, which says how many "
           "they are.</p>\n";
  if (drawing.ends_early) out << "<p class=\"remark\">Drawn as far as it was scheduled, three steps.</p>\n";
  if (!caption.remark.empty()) out << "<p class=\"remark\">" << caption.remark << "</p>\n";
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

void write_key(std::ostream& out, const std::vector<TimelineDrawing>& drawings) {
  const auto occurs = [&](const char* css) {
    return std::ranges::any_of(drawings, [&](const TimelineDrawing& d) {
      return std::ranges::any_of(d.bars,
                                 [&](const TimelineBar& b) { return std::string_view(look_of(b.kind).css) == css; });
    });
  };
  constexpr std::pair<const char*, const char*> names[] = {
      {"issue", "the host's work"},       {"forward", "forward (raised)"},
      {"backward", "backward (lowered)"}, {"update", "update, kernels and other work"},
      {"transfer", "communication"},      {"codec", "encoding, decoding"},
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

std::string lead_of(const ReportPage& page) {
  if (page.timelines.empty()) return "One step of the job as it was traced.";
  const bool of_baseline = text_of(page.timelines.front().plan) == text_of(page.ranking.baseline.plan);
  const std::string predicted = page.timelines.size() > 1 ? "the baseline and below it the best plan"
                                : of_baseline             ? "the baseline, which is also the best plan"
                                                          : "the best plan";
  if (!page.recorded) return "One step of a worker in the steady state, of " + predicted + ", on the same scale.";
  return "One step of a worker, as it was traced, and as it is predicted in the steady state under " + predicted +
         ", on the same scale.";
}

}  // namespace

void write_timelines_section(std::ostream& out, const ReportPage& page) {
  if (page.timelines.empty() && !page.recorded) return;
  const Picoseconds span = timeline_span(page);
  std::vector<TimelineDrawing> drawings;
  std::vector<Caption> captions;
  if (page.recorded) {
    drawings.push_back(recorded_drawing(*page.recorded, span));
    captions.push_back(caption_of(*page.recorded));
  }
  for (const PageTimeline& t : page.timelines) {
    drawings.push_back(timeline_drawing(t, page.profile, span));
    captions.push_back(caption_of(t, text_of(t.plan) == text_of(page.ranking.baseline.plan)));
  }
  open_section(out, "timelines", drawings.size() > 1 ? "Timelines" : "Timeline");
  out << "<p>" << lead_of(page)
      << " A dashed line ends a step.</p>\n<p class=\"how\" hidden>Zoom with the buttons, with <kbd>+</kbd> "
         "<kbd>&minus;</kbd> <kbd>0</kbd>, by "
         "pinching, or with the wheel while <kbd>Ctrl</kbd> is held or the timelines have the focus; move by dragging "
         "or with <kbd>&larr;</kbd> <kbd>&rarr;</kbd>; go from task to task with <kbd>Shift</kbd>+<kbd>&larr;</kbd> "
         "<kbd>&rarr;</kbd>, from lane to lane with <kbd>&uarr;</kbd> <kbd>&darr;</kbd>.</p>\n";
  write_key(out, drawings);
  write_controls(out);
  out << "<div class=\"told\">\n<div class=\"timelines\" data-span=\"" << fixed(seconds_of(span).value() * 1e9, 0)
      << "\" data-units=\"" << fixed(units, 0) << "\">\n";
  for (std::size_t i = 0; i < drawings.size(); ++i) write_drawing(out, drawings[i], captions[i], span);
  out << "</div>\n<p class=\"task\" role=\"status\" aria-live=\"polite\" hidden></p>\n</div>\n";
  close_section(out);
}

}  // namespace stepcast
