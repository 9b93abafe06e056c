// Lanes are rows of paths, one path for all bars of a kind, so that a picture of hundreds of tasks stays small.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/chart/scale.hpp>
#include <stepcast/chart/xml_text.hpp>
#include <stepcast/page/steps_svg.hpp>
#include <stepcast/page/timeline.hpp>
#include <stepcast/report/text/phrases.hpp>
#include <stepcast/sweep/axis_rules.hpp>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {
namespace {

constexpr double picture_width = 800, margin = 12, font_size = 12;
constexpr double caption_height = 26, row_height = 24, row_bar = 16, between_steps = 16, axis_room = 24, key_room = 26;

/// How a kind of task is drawn, and what it is called.
struct StepColour {
  const char* css;
  const char* name;
};
StepColour colour_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::forward:
      return {"f", "forward"};
    case TaskKind::backward:
      return {"b", "backward"};
    case TaskKind::transfer:
      return {"t", "communication"};
    case TaskKind::host:
      return {"h", "the host's work"};
    case TaskKind::codec:
      return {"c", "encoding, decoding"};
    case TaskKind::input:
    case TaskKind::load:
    case TaskKind::late:
    case TaskKind::arrival:
    case TaskKind::timer:
      return {"w", "input or timer"};
    default:
      return {"u", "update and other work"};
  }
}
constexpr StepColour all_colours[] = {{"h", "the host's work"}, {"f", "forward"},
                                      {"b", "backward"},        {"u", "update and other work"},
                                      {"t", "communication"},   {"c", "encoding, decoding"},
                                      {"w", "input or timer"}};

/// A length in the picture, to a tenth of a pixel.
std::string tenths(double value) {
  std::string text = fixed(value, 1);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

/// A plan as it is drawn.
struct DrawnStep {
  std::string caption;
  Seconds iteration{};
  TimelineDrawing drawing;
  Picoseconds period = 0;
};

/// A message, or compute of one kind that goes on without a gap.
struct StepBar {
  const char* css;
  double from, to;
};

/// The bars of a lane. Messages are told apart, unless they are too short to be seen.
std::vector<StepBar> bars_of(const DrawnStep& step, std::size_t lane, double pixels_per_picosecond) {
  constexpr double thin = 3, gap = 0.5;
  std::vector<StepBar> bars;
  for (const TimelineBar& bar : step.drawing.bars) {
    if (bar.lane != lane) continue;
    const double from = double(std::max<Picoseconds>(bar.start, 0)) * pixels_per_picosecond;
    const double to = double(std::min(bar.end, step.period)) * pixels_per_picosecond;
    const char* css = colour_of(bar.kind).css;
    const bool joins = !bars.empty() && bars.back().css == std::string_view(css) && from - bars.back().to < gap &&
                       (bar.kind != TaskKind::transfer || to - from < thin || bars.back().to - bars.back().from < thin);
    if (joins) bars.back().to = std::max(bars.back().to, to);
    else if (to > from) bars.push_back({css, from, to});
  }
  return bars;
}

/// Neighbours are told apart by a slit, where there is room for one; the shortest can still be seen.
double drawn_width(const StepBar& bar) {
  constexpr double slit = 0.7, roomy = 3, least = 0.7;
  const double width = bar.to - bar.from;
  return width > roomy ? width - slit : std::max(width, least);
}

class StepsPicture {
 public:
  StepsPicture(std::ostream& out, std::span<const DrawnStep> steps, std::string title)
      : out_(out), steps_(steps), title_(std::move(title)) {
    double widest = 0;
    for (const DrawnStep& step : steps_) {
      span_ = std::max(span_, step.period);
      for (const std::string& lane : step.drawing.lanes) widest = std::max(widest, text_width(lane, font_size));
    }
    left_ = margin + widest + margin;
    scale_ = (picture_width - margin - left_) / double(span_);
  }

  void draw() {
    open();
    double y = margin;
    for (const DrawnStep& step : steps_) y = draw_step(step, y) + between_steps;
    draw_axis(y - between_steps);
    draw_key(y - between_steps + axis_room + 8);
    out_ << "</svg>\n";
  }

 private:
  [[nodiscard]] double height() const {
    double sum = margin + axis_room + key_room;
    for (const DrawnStep& step : steps_) sum += caption_height + row_height * double(step.drawing.lanes.size());
    return sum + between_steps * double(steps_.size() - 1) + margin;
  }

  void open() {
    const std::string h = tenths(height()), w = tenths(picture_width);
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"steps\" viewBox=\"0 0 " << w << " " << h << "\" width=\""
         << w << "\" height=\"" << h
         << "\" style=\"max-width:100%;height:auto\" role=\"img\" aria-labelledby=\"steps-title\">\n"
            "<title id=\"steps-title\">"
         << escaped_xml(title_)
         << "</title>\n<style>\n"
            "#steps{--base:#fff;--ink:#1f2328;--soft:#59636e;--rule:#d5dae0;--on:#fff;--f:#3b73a6;--b:#234a70;"
            "--u:#6b7683;--t:#b8480f;--h:#8d99a6;--w:#8a7300;--c:#7a5195;background:var(--base)}\n"
            "@media (prefers-color-scheme:dark){\n"
            "#steps{--base:#0d1117;--ink:#e6edf3;--soft:#9aa4af;--rule:#30363d;--on:#0b0e11;--f:#8cbce8;--b:#4b80b3;"
            "--u:#97a2ae;--t:#f08a4b;--h:#6d7884;--w:#d6bd4a;--c:#bb97d6}\n}\n"
            "#steps text{font:"
         << font_size
         << "px system-ui,sans-serif;fill:var(--ink)}\n"
            "#steps .caption{font-size:14px;font-weight:600}\n#steps .soft{fill:var(--soft)}\n"
            "#steps .on{fill:var(--on);font-size:11px}\n#steps .rule{stroke:var(--rule)}\n"
            "#steps .end{stroke:var(--ink);stroke-dasharray:4 3}\n"
            "#steps .less{stroke:var(--ink);fill:none}\n";
    for (const StepColour& c : all_colours) out_ << "#steps ." << c.css << "{fill:var(--" << c.css << ")}\n";
    out_ << "</style>\n<rect width=\"" << w << "\" height=\"" << h << "\" style=\"fill:var(--base)\"/>\n";
  }

  void text(double x, double y, std::string_view words, std::string_view attributes = {}) {
    out_ << "<text x=\"" << tenths(x) << "\" y=\"" << tenths(y) << "\""
         << (attributes.empty() ? std::string() : " " + std::string(attributes)) << ">" << escaped_xml(words)
         << "</text>\n";
  }

  /// Returns where it ends.
  double draw_step(const DrawnStep& step, double top) {
    const double first = top + caption_height, end = left_ + double(step.period) * scale_;
    const std::string difference = &step == steps_.data() ? std::string() : difference_text(step);
    const double right = left_ + double(steps_.front().period) * scale_;
    const bool has_room = right - end > text_width(difference, font_size) + 28;
    text(margin, top + 14, step.caption + (has_room || difference.empty() ? "" : ", " + difference),
         "class=\"caption\"");
    double y = first;
    for (std::size_t lane = 0; lane < step.drawing.lanes.size(); ++lane, y += row_height) {
      text(margin, y + 12, step.drawing.lanes[lane], "class=\"soft\"");
      draw_lane(bars_of(step, lane, scale_), y);
    }
    out_ << "<line class=\"end\" x1=\"" << tenths(end) << "\" x2=\"" << tenths(end) << "\" y1=\"" << tenths(first - 4)
         << "\" y2=\"" << tenths(y) << "\"/>\n";
    if (has_room && !difference.empty()) draw_difference(difference, end, right, (first + y) / 2 - 4);
    return y;
  }

  void draw_lane(const std::vector<StepBar>& bars, double y) {
    for (const StepColour& c : all_colours) {
      std::string path;
      for (const StepBar& bar : bars)
        if (bar.css == std::string_view(c.css))
          path += "M" + tenths(left_ + bar.from) + " " + tenths(y) + "h" + tenths(drawn_width(bar)) + "v" +
                  tenths(row_bar) + "H" + tenths(left_ + bar.from) + "z";
      if (!path.empty()) out_ << "<path class=\"" << c.css << "\" d=\"" << path << "\"/>\n";
    }
    for (const StepBar& bar : bars)
      if (const std::string_view name = name_of_css(bar.css); bar.to - bar.from > text_width(name, 11) + 12)
        text(left_ + bar.from + 5, y + 12, name, "class=\"on\"");
  }
  static std::string_view name_of_css(std::string_view css) {
    return std::find_if(std::begin(all_colours), std::end(all_colours),
                        [&](const StepColour& c) { return c.css == css; })
        ->name;
  }

  /// What a step is shorter (or longer) by than the first one.
  [[nodiscard]] std::string difference_text(const DrawnStep& step) const {
    const Seconds difference = steps_.front().iteration - step.iteration;
    return text_of(Seconds(std::abs(difference.value()))) + (difference > Seconds(0) ? " less" : " more") + " a step";
  }

  void draw_difference(const std::string& words, double end, double right, double y) {
    out_ << "<path class=\"less\" d=\"M" << tenths(end + 4) << " " << tenths(y) << "H" << tenths(right - 2)
         << "m-5 -4l5 4l-5 4\"/>\n";
    text((end + right) / 2, y - 6, words, "text-anchor=\"middle\"");
  }

  void draw_axis(double y) {
    const ChartScale scale = scale_of({"", false, [](double v) { return v == 0 ? "0" : trimmed_text_of(Seconds(v)); }},
                                      0, seconds_of(span_).value(), left_, picture_width - margin, true);
    out_ << "<line class=\"rule\" x1=\"" << tenths(left_) << "\" x2=\"" << tenths(picture_width - margin) << "\" y1=\""
         << tenths(y) << "\" y2=\"" << tenths(y) << "\"/>\n";
    for (const ChartScale::Tick& tick : scale.ticks) {
      const double x = scale(tick.value);
      out_ << "<line class=\"rule\" x1=\"" << tenths(x) << "\" x2=\"" << tenths(x) << "\" y1=\"" << tenths(y)
           << "\" y2=\"" << tenths(y + 5) << "\"/>\n";
      const double half = text_width(tick.text, font_size) / 2;
      text(std::clamp(x, left_ + half, picture_width - margin - half), y + 18, tick.text,
           "class=\"soft\" text-anchor=\"middle\"");
    }
  }

  void draw_key(double y) {
    double x = margin;
    for (const StepColour& c : all_colours) {
      const bool occurs = std::ranges::any_of(steps_, [&](const DrawnStep& step) {
        return std::ranges::any_of(step.drawing.bars, [&](const TimelineBar& bar) {
          return colour_of(bar.kind).css == std::string_view(c.css) && bar.end > 0 && bar.start < step.period;
        });
      });
      if (!occurs) continue;
      out_ << "<path class=\"" << c.css << "\" d=\"M" << tenths(x) << " " << tenths(y) << "h14v12H" << tenths(x)
           << "z\"/>\n";
      text(x + 20, y + 10, c.name, "class=\"soft\"");
      x += 20 + text_width(c.name, font_size) + 18;
    }
  }

  std::ostream& out_;
  std::span<const DrawnStep> steps_;
  std::string title_;
  Picoseconds span_ = 1;
  double left_ = 0, scale_ = 1;
};

}  // namespace

void write_steps_svg(std::ostream& out, const RankingReport& report) {
  const Ranking& ranking = report.ranking;
  const SelfCheck check = check_of(report);
  if (ranking.exact.empty()) throw InputError("plot", "a plan that can run", "none");
  std::vector<DrawnStep> steps;
  const auto add = [&](const Prediction& p, std::string caption) {
    const std::optional<PageTimeline> timeline = page_timeline_of(report.profile, report.cluster, p.plan);
    if (check.of_recorded_step || check.is_recorded(p.plan) || !timeline)
      throw InputError("plot", "a job that a plan describes, since plans have timelines",
                       "one that is answered by its recorded step",
                       "'stepcast replay TRACE --timeline step.json' shows that step");
    DrawnStep& step = steps.emplace_back();
    step.iteration = p.iteration;
    step.period = timeline->detail.timeline.period;
    step.drawing = timeline_drawing(*timeline, report.profile, step.period);
    step.caption = std::move(caption) + ": " + text_of(p.iteration) + " a step";
  };
  const std::string used = text_of(ranking.baseline.plan);
  add(ranking.baseline, (used == check.traced_plan() ? "As traced, " : "Baseline, ") + used);
  if (const Prediction& best = ranking.exact.front().prediction; text_of(best.plan) != used)
    add(best, "Best plan, " + text_of(best.plan));
  std::string title = model_text(report.profile) + ", " + cluster_text(report.cluster);
  for (const DrawnStep& step : steps) title += "; " + step.caption;
  StepsPicture(out, steps, title).draw();
}

}  // namespace stepcast
