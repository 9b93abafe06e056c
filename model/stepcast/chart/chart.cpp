// Charts are drawn in layers: grid and axes, marks, curves, then the labels where they have room.
#include <stepcast/base/words.hpp>
#include <stepcast/chart/chart.hpp>
#include <stepcast/chart/scale.hpp>
#include <stepcast/chart/xml_text.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>
#include <ostream>

namespace stepcast {
namespace {

// Dark on light and light on dark, at least 3:1 against the ground, told apart with any colour vision (after Okabe and
// Ito 2008, and Tol 2021), and never by colour alone.
constexpr std::array light{"#0072b2", "#d55e00", "#117733", "#aa4499", "#332288", "#8a7300", "#882255", "#2f8f86"};
constexpr std::array dark{"#56b4e9", "#ff9d5c", "#5fd38d", "#e39bd6", "#a79cf2", "#e5d35a", "#ff8fa3", "#7fe0d4"};
constexpr std::array dashes{"", "7 3", "2 3", "10 3 2 3", "14 4", "4 2", "10 3 2 3 2 3", "1 4"};
static_assert(light.size() == most_named_curves && dark.size() == most_named_curves &&
              dashes.size() == most_named_curves);

constexpr double font = 12, line_height = 15, tick_length = 4, most_dots = 24, widest_label = 200, fitted_radius = 2.5;
constexpr double lead = 16, swatch = 18, after_swatch = 5;  // between the end of a curve and its name
constexpr double key_top = 34 + line_height - 4;            // of names above the plot

/// A length in the drawing, to a hundredth of a pixel.
std::string px(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.2f", value);
  std::string out = text;
  while (out.back() == '0') out.pop_back();
  if (out.back() == '.') out.pop_back();
  return out == "-0" ? "0" : out;
}

/// As much of a text as fits.
std::string shortened(const std::string& text, double width) {
  if (text_width(text, font) <= width) return text;
  std::string out = text;
  while (!out.empty() && text_width(out, font) > width - font) {
    while (out.size() > 1 && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80) out.pop_back();
    out.pop_back();
  }
  return out + "\xe2\x80\xa6";
}

/// Words in lines of at most this width.
std::vector<std::string> wrapped(const std::string& text, double width) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t space = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, space - at);
    at = space + 1;
    if (lines.empty() || text_width(lines.back() + " " + word, font) > width) lines.push_back(word);
    else lines.back() += " " + word;
  }
  return lines;
}

std::vector<std::string> note_lines(const Chart& chart) { return wrapped(chart.note, chart.width - 8); }
double note_height(const Chart& chart) {
  const std::size_t lines = note_lines(chart).size();
  return lines == 0 ? 0 : 8 + line_height * static_cast<double>(lines);
}

/// Where labels of one height stand, each as near to its wish as the others allow: neighbours that touch are a block,
/// which stands where its members want to be on the average.
std::vector<double> without_overlaps(const std::vector<double>& wishes, double height, double top, double bottom) {
  std::vector<std::size_t> order(wishes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return wishes[a] < wishes[b]; });
  struct Block {
    double sum;  ///< of where its first member would have to be for each to have its wish
    std::size_t count;
    double first(double h, double t, double b) const {
      const double n = static_cast<double>(count);
      return std::max(t, std::min(sum / n, b - (n - 1) * h));
    }
  };
  std::vector<Block> blocks;
  for (const std::size_t i : order) {
    blocks.push_back({wishes[i], 1});
    while (blocks.size() > 1) {
      const Block &above = blocks[blocks.size() - 2], &below = blocks.back();
      const double n = static_cast<double>(above.count), m = static_cast<double>(below.count);
      if (above.first(height, top, bottom) + n * height <= below.first(height, top, bottom)) break;
      const Block merged{above.sum + below.sum - m * n * height, above.count + below.count};
      blocks.pop_back();
      blocks.back() = merged;
    }
  }
  std::vector<double> places(wishes.size());
  std::size_t next = 0;
  for (const Block& block : blocks)
    for (std::size_t k = 0; k < block.count; ++k)
      places[order[next++]] = block.first(height, top, bottom) + static_cast<double>(k) * height;
  return places;
}

/// From the lowest to the highest of some values.
struct Extent {
  double low = HUGE_VAL, high = -HUGE_VAL;
  void add(const std::vector<double>& values) {
    for (const double v : values)
      if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
  }
  [[nodiscard]] bool any() const { return low <= high; }
};
void add_widths(Extent& x, const Chart& chart) {
  for (const ChartCurve& c : chart.curves) x.add(c.x), x.add(c.fitted_to.x);  // a gap at the end is shown as one
}
void add_heights(Extent& y, const Chart& chart) {
  for (const ChartCurve& c : chart.curves)
    for (const std::vector<double>* values : {&c.y, &c.low, &c.high, &c.fitted_to.y}) y.add(*values);
}

/// One chart: the places of its parts, then the parts.
class Drawing {
 public:
  Drawing(std::ostream& out, const Chart& chart) : out_(out), chart_(chart) {
    std::size_t colour = 0;
    for (const ChartCurve& c : chart.curves)
      if (c.scattered) colours_.push_back(colour++ % most_named_curves);
      else colours_.push_back(c.muted || colour == most_named_curves || !is_drawn(c) ? none : colour++);
    find_bounds();
    place();
  }

  void draw() {
    text(4, 16, chart_.title, "class=\"title\"");
    draw_axes();
    for (std::size_t i = chart_.curves.size(); i-- > 0;)
      if (!chart_.curves[i].low.empty()) draw_band(i);
    draw_marks();
    // The first ones lie on top.
    for (const bool named : {false, true})
      for (std::size_t i = chart_.curves.size(); i-- > 0;)
        if (is_drawn(chart_.curves[i]) && (colours_[i] != none) == named) draw_curve(i);
    draw_labels();
    double y = bottom_ + 58;
    for (const std::string& line : note_) text(4, y, line, "class=\"soft\""), y += line_height;
  }

 private:
  static constexpr std::size_t none = SIZE_MAX;

  [[nodiscard]] static bool is_drawn(const ChartCurve& c) {
    return std::any_of(c.y.begin(), c.y.end(), [](double v) { return std::isfinite(v); });
  }

  [[nodiscard]] bool has_label(std::size_t curve) const {
    return colours_[curve] != none && !chart_.curves[curve].scattered;
  }

  void find_bounds() {
    Extent x, y;
    add_widths(x, chart_), add_heights(y, chart_);
    if (!x.any()) x = {1, 1};
    if (!y.any()) y = {1, 1};
    auto [y0, y1] = y;
    if (chart_.y.logarithmic && y0 > 0) {
      const double margin = std::pow(y1 / y0, 0.05);
      y0 /= margin, y1 *= margin;
    } else {
      const double margin = 0.05 * (y1 - y0);
      y0 = y0 >= 0 ? std::max(0.0, y0 - margin) : y0 - margin, y1 += margin;
    }
    const auto bound = [](double given, double found) { return std::isnan(given) ? found : given; };
    x_low_ = bound(chart_.x.low, x.low), x_high_ = bound(chart_.x.high, x.high);
    y_low_ = bound(chart_.y.low, y0), y_high_ = bound(chart_.y.high, y1);
  }

  void place() {
    double labels = 0;
    for (std::size_t i = 0; i < chart_.curves.size(); ++i)
      if (has_label(i) && !chart_.names_above) labels = std::max(labels, text_width(chart_.curves[i].name, font));
    right_ = chart_.width - (labels > 0 ? std::min(labels, widest_label) + lead + swatch + after_swatch + 4 : 12);
    note_ = note_lines(chart_);
    bottom_ = chart_.height - 46 - note_height(chart_);
    // The texts of ticks need the scale and the scale needs their room: a first guess is enough.
    y_ = scale_of(chart_.y, y_low_, y_high_, bottom_, 60, false);
    left_ = 12;
    for (const ChartScale::Tick& t : y_.ticks) left_ = std::max(left_, text_width(t.text, font) + 14);
    x_ = scale_of(chart_.x, x_low_, x_high_, left_, right_, true);
    place_marks();
    top_ = 44 + line_height * static_cast<double>(mark_rows_ + place_key());
    y_ = scale_of(chart_.y, y_low_, y_high_, bottom_, top_, false);
  }

  /// Rows of names above the plot; returns how many.
  std::size_t place_key() {
    if (!chart_.names_above) return 0;
    constexpr double gap = 14, margin = 4;
    double x = margin;
    std::size_t rows = 0;
    for (std::size_t i = 0; i < chart_.curves.size(); ++i) {
      if (!has_label(i)) continue;
      const double width = swatch + after_swatch + text_width(chart_.curves[i].name, font);
      if (rows == 0) rows = 1;
      else if (x + width > chart_.width - margin) x = margin, ++rows;
      key_.push_back({i, x, key_top + line_height * static_cast<double>(rows - 1)});
      x += width + gap;
    }
    return rows;
  }

  /// Rows for the words of the marks, so that none is written over another.
  void place_marks() {
    std::vector<double> ends;
    for (const ChartMark& m : chart_.marks) {
      const double half = text_width(m.text, font) / 2;
      const double at = std::clamp(x_(m.x), left_ + half, std::max(left_ + half, chart_.width - half - 4));
      std::size_t row = 0;
      while (row < ends.size() && ends[row] + 8 > at - half) ++row;
      if (row == ends.size()) ends.push_back(0);
      ends[row] = at + half;
      mark_at_.push_back({at, row});
    }
    mark_rows_ = ends.size();
  }

  void text(double x, double y, const std::string& words, const std::string& attributes) {
    if (words.empty()) return;
    out_ << "<text x=\"" << px(x) << "\" y=\"" << px(y) << "\" " << attributes << '>' << escaped_xml(words)
         << "</text>\n";
  }
  void line(double x0, double y0, double x1, double y1, std::string_view kind) {
    out_ << "<line class=\"" << kind << "\" x1=\"" << px(x0) << "\" y1=\"" << px(y0) << "\" x2=\"" << px(x1)
         << "\" y2=\"" << px(y1) << "\"/>\n";
  }

  void draw_axes() {
    for (const ChartScale::Tick& t : y_.ticks) {
      line(left_, y_(t.value), right_, y_(t.value), "grid");
      text(left_ - 8, y_(t.value) + 4, t.text, "text-anchor=\"end\"");
    }
    for (const ChartScale::Tick& t : x_.ticks) {
      line(x_(t.value), bottom_, x_(t.value), bottom_ + tick_length, "axis");
      const double last = chart_.width - text_width(t.text, font) / 2 - 2;
      text(std::min(x_(t.value), last), bottom_ + 18, t.text, "text-anchor=\"middle\"");
    }
    line(left_, bottom_, right_, bottom_, "axis");
    text(4, 34, chart_.y.title, "class=\"soft\"");
    text((left_ + right_) / 2, bottom_ + 36, chart_.x.title, "class=\"soft\" text-anchor=\"middle\"");
  }

  void draw_marks() {
    const auto height = [&](std::size_t row) {
      return top_ - 6 - line_height * static_cast<double>(mark_rows_ - 1 - row);
    };
    for (std::size_t i = 0; i < mark_at_.size(); ++i) {
      const double x = x_(chart_.marks[i].x);
      line(x, height(mark_at_[i].row) + 3, x, bottom_, "mark");
    }
    for (std::size_t i = 0; i < mark_at_.size(); ++i)
      text(mark_at_[i].at, height(mark_at_[i].row), chart_.marks[i].text, "text-anchor=\"middle\" class=\"word\"");
  }

  [[nodiscard]] std::string style_of(std::size_t curve) const {
    return colours_[curve] == none ? "curve muted" : "curve c" + std::to_string(colours_[curve] + 1);
  }
  [[nodiscard]] std::string point_text(const ChartCurve& c, std::size_t i) const {
    const auto value = [](const ChartAxis& axis, double v) { return axis.text ? axis.text(v) : px(v); };
    return c.name + ": " + value(chart_.y, c.y[i]) + " at " + value(chart_.x, c.x[i]);
  }

  /// Dots and rings; `text_of(i)` is for who points at them.
  template <class Text>
  void draw_dots(const std::vector<double>& x, const std::vector<double>& y, const std::vector<bool>& rings,
                 double radius, const Text& text_of) {
    for (std::size_t i = 0; i < x.size(); ++i)
      out_ << "\n<circle cx=\"" << px(x_(x[i])) << "\" cy=\"" << px(y_(y[i])) << "\" r=\"" << px(radius) << "\" "
           << (!rings.empty() && rings[i] ? "fill=\"none\"" : "fill-opacity=\"0.6\"") << "><title>"
           << escaped_xml(text_of(i)) << "</title></circle>";
  }

  void draw_points(std::size_t curve) {
    const ChartCurve& c = chart_.curves[curve];
    out_ << "<g class=\"" << style_of(curve) << "\"><title>" << escaped_xml(c.name) << "</title>";
    draw_dots(c.x, c.y, c.rings, 4, [&](std::size_t i) { return c.texts.empty() ? point_text(c, i) : c.texts[i]; });
    out_ << "</g>\n";
  }

  [[nodiscard]] static std::vector<std::size_t> by_x(const ChartCurve& c) {
    std::vector<std::size_t> order(c.x.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return c.x[a] < c.x[b]; });
    return order;
  }

  /// Along the upper bounds and back along the lower ones.
  void draw_band(std::size_t curve) {
    const ChartCurve& c = chart_.curves[curve];
    std::vector<std::size_t> order = by_x(c);
    std::erase_if(order, [&](std::size_t i) { return !std::isfinite(c.low[i]) || !std::isfinite(c.high[i]); });
    if (order.size() < 2) return;
    std::string path;
    const auto add = [&](std::size_t i, double y) {
      path += (path.empty() ? "M" : " L") + px(x_(c.x[i])) + " " + px(y_(y));
    };
    for (const std::size_t i : order) add(i, c.high[i]);
    std::reverse(order.begin(), order.end());
    for (const std::size_t i : order) add(i, c.low[i]);
    out_ << "<path class=\"band " << style_of(curve) << "\" d=\"" << path << "Z\"/>\n";
  }

  void draw_curve(std::size_t curve) {
    const ChartCurve& c = chart_.curves[curve];
    if (c.scattered) return draw_points(curve);
    const std::vector<std::size_t> order = by_x(c);
    std::string path;
    bool drawing = false;
    for (const std::size_t i : order) {
      if (!std::isfinite(c.y[i])) {
        drawing = false;
        continue;
      }
      path += (path.empty() ? "" : " ") + std::string(drawing ? "L" : "M") + px(x_(c.x[i])) + " " + px(y_(c.y[i]));
      drawing = true;
    }
    out_ << "<g class=\"" << style_of(curve) << "\"><title>" << escaped_xml(c.name) << "</title><path d=\"" << path
         << "\"/>";
    draw_dots(c.fitted_to.x, c.fitted_to.y, c.fitted_to.rings, fitted_radius,
              [&](std::size_t i) { return c.fitted_to.texts[i]; });
    const bool alone = order.size() == 1 || path.find('L') == std::string::npos;
    if (c.fitted_to.x.empty() && (alone || (colours_[curve] != none && static_cast<double>(order.size()) <= most_dots)))
      for (const std::size_t i : order)
        if (std::isfinite(c.y[i]))
          out_ << "\n<circle cx=\"" << px(x_(c.x[i])) << "\" cy=\"" << px(y_(c.y[i])) << "\" r=\"" << (alone ? 4 : 2.5)
               << "\"><title>" << escaped_xml(point_text(c, i)) << "</title></circle>";
    out_ << "</g>\n";
  }

  /// A curve's name behind a sample of it, between `x` and `right`; `lead` comes from where it ends.
  void draw_name(std::size_t curve, double x, double y, double right, const std::string& lead = {}) {
    const double word = x + swatch + after_swatch;
    const std::string colour = "c" + std::to_string(colours_[curve] + 1);
    out_ << "<g class=\"curve " << colour << "\">" << lead << "<path d=\"M" << px(x) << " " << px(y) << " h"
         << px(swatch) << "\"/></g>\n";
    text(word, y + 4, shortened(chart_.curves[curve].name, right - word - 2), "class=\"name " + colour + "\"");
  }

  /// Names at the ends of the curves, with a sample of each: many curves end in one place.
  void draw_labels() {
    for (const KeyPlace& k : key_) draw_name(k.curve, k.x, k.y, chart_.width);
    if (chart_.names_above) return;
    std::vector<std::size_t> named;
    std::vector<double> wishes, ends;
    for (std::size_t i = 0; i < chart_.curves.size(); ++i) {
      if (!has_label(i)) continue;
      const ChartCurve& c = chart_.curves[i];
      std::size_t last = none;
      for (std::size_t k = 0; k < c.x.size(); ++k)
        if (std::isfinite(c.y[k]) && (last == none || c.x[k] >= c.x[last])) last = k;
      named.push_back(i);
      wishes.push_back(y_(c.y[last]));
      ends.push_back(x_(c.x[last]));
    }
    const std::vector<double> places = without_overlaps(wishes, line_height, top_, bottom_);
    for (std::size_t k = 0; k < named.size(); ++k) {
      const double sample = right_ + lead;
      const std::string line = "<path class=\"lead\" d=\"M" + px(ends[k] + 3) + " " + px(wishes[k]) + " L" +
                               px(sample - 2) + " " + px(places[k]) + "\"/>";
      draw_name(named[k], sample, places[k], chart_.width, line);
    }
  }

  std::ostream& out_;
  const Chart& chart_;
  std::vector<std::size_t> colours_;  // none: muted
  double x_low_ = 0, x_high_ = 1, y_low_ = 0, y_high_ = 1;
  double left_ = 0, right_ = 0, top_ = 0, bottom_ = 0;
  ChartScale x_, y_;
  std::vector<std::string> note_;
  struct WordPlace {
    double at;
    std::size_t row;
  };
  std::vector<WordPlace> mark_at_;
  std::size_t mark_rows_ = 0;
  struct KeyPlace {
    std::size_t curve;
    double x, y;
  };
  std::vector<KeyPlace> key_;
};

/// Rules of one drawing, so that several of a page do not meddle with one another.
void write_style(std::ostream& out, const std::string& id) {
  const std::string at = "#" + id;
  const auto scheme = [&](const char* ink, const char* soft, const char* grid, const char* ground, const auto& curves) {
    out << at << "{--base:var(--chart-ground," << ground << ");background:var(--base);--ink:var(--chart-text," << ink
        << ");--soft:var(--chart-muted," << soft << ");--rule:var(--chart-grid," << grid << ")}\n";
    for (std::size_t i = 0; i < curves.size(); ++i)
      out << at << " .c" << i + 1 << "{--c:var(--chart-" << i + 1 << "," << curves[i] << ")}\n";
  };
  out << "<style>\n";
  scheme("#1f2328", "#59636e", "#e3e6ea", "#ffffff", light);
  out << "@media (prefers-color-scheme:dark){\n";
  scheme("#e6edf3", "#9aa4af", "#30363d", "#0d1117", dark);
  out << "}\n"
      << at << " text{font:" << font << "px system-ui,sans-serif;fill:var(--ink)}\n"
      << at << " .title{font-weight:600;font-size:14px}\n"
      << at << " .soft{fill:var(--soft)}\n"
      << at << " .name{fill:var(--c)}\n"
      << at << " .grid{stroke:var(--rule)}\n"
      << at << " .axis{stroke:var(--soft)}\n"
      << at << " .mark{stroke:var(--soft);stroke-dasharray:2 3}\n"
      << at << " .curve{fill:var(--c);stroke:var(--c)}\n"
      << at << " .curve path{fill:none;stroke-width:2;stroke-linejoin:round}\n"
      << at << " .band{stroke:none;opacity:0.14}\n"
      << at << " .word{paint-order:stroke;stroke:var(--base);stroke-width:4px}\n"
      << at << " .muted{fill:var(--soft);stroke:var(--soft);opacity:0.45}\n"
      << at << " .muted path{stroke-width:1}\n";
  for (std::size_t i = 1; i < dashes.size(); ++i)
    out << at << " .c" << i + 1 << " path{stroke-dasharray:" << dashes[i] << "}\n";
  out << at << " .curve path.lead{stroke-width:0.75;stroke-dasharray:none}\n";
  out << "</style>\n";
}

/// Charts one below the other.
struct Paper {
  double width = 0, height = 0;
};
Paper paper_of(std::span<const Chart> charts) {
  Paper paper;
  for (const Chart& c : charts) paper.width = std::max(paper.width, c.width), paper.height += c.height;
  return paper;
}
std::string view_box(const Paper& paper) { return "viewBox=\"0 0 " + px(paper.width) + " " + px(paper.height) + "\""; }

/// The tag with its `size`, and what it says to those who cannot see it; its rules.
void open_svg(std::ostream& out, std::span<const Chart> charts, std::string_view id, const std::string& size) {
  std::string title, description;
  for (const Chart& c : charts) {
    title += (title.empty() ? "" : "; ") + c.title;
    description += (description.empty() ? "" : " ") + c.description;
  }
  const std::string name = escaped_xml(id);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"" << name << "\" " << size
      << " role=\"img\" aria-labelledby=\"" << name << "-title " << name << "-desc\">\n<title id=\"" << name
      << "-title\">" << escaped_xml(title) << "</title>\n<desc id=\"" << name << "-desc\">" << escaped_xml(description)
      << "</desc>\n";
  write_style(out, name);
}

void draw_all(std::ostream& out, std::span<const Chart> charts) {
  double y = 0;
  for (const Chart& c : charts) {
    out << "<g transform=\"translate(0 " << px(y) << ")\">\n";
    Drawing(out, c).draw();
    out << "</g>\n";
    y += c.height;
  }
}

/// How far a curve is from the lowest one: at best, then on the whole.
struct Distance {
  double least = HUGE_VAL, mean = HUGE_VAL;
  auto operator<=>(const Distance&) const = default;
};

Distance distance_of(const ChartCurve& curve, const std::vector<double>& lowest) {
  Distance d;
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < curve.y.size() && i < lowest.size(); ++i) {
    if (!std::isfinite(curve.y[i])) continue;
    const double ratio = curve.y[i] / lowest[i];
    d.least = std::min(d.least, ratio);
    sum += ratio, ++count;
  }
  if (count > 0) d.mean = sum / count;
  return d;
}

}  // namespace

std::span<const char* const> chart_colours() { return light; }

void mute_but_lowest(Chart& chart, std::size_t most) {
  if (chart.curves.size() <= most) return;
  std::vector<double> lowest;
  for (const ChartCurve& c : chart.curves) {
    lowest.resize(std::max(lowest.size(), c.y.size()), HUGE_VAL);
    for (std::size_t i = 0; i < c.y.size(); ++i)
      if (std::isfinite(c.y[i])) lowest[i] = std::min(lowest[i], c.y[i]);
  }
  std::vector<std::pair<Distance, std::size_t>> order;
  for (std::size_t i = 0; i < chart.curves.size(); ++i)
    order.emplace_back(chart.curves[i].named ? Distance{0, 0} : distance_of(chart.curves[i], lowest), i);
  std::stable_sort(order.begin(), order.end());
  std::vector<ChartCurve> curves;
  std::string others;
  for (std::size_t k = 0; k < order.size(); ++k) {
    curves.push_back(std::move(chart.curves[order[k].second]));
    if (k < most) continue;
    curves.back().muted = true;
    add_to_list(others, curves.back().name);
  }
  chart.curves = std::move(curves);
  chart.note += (chart.note.empty() ? "" : ". ") + std::string("In grey: ") + others;
}

void write_svg(std::ostream& out, const Chart& chart, std::string_view id) { write_svg(out, std::span(&chart, 1), id); }

void share_scale(std::span<Chart> charts) {
  Extent y;
  for (const Chart& chart : charts) add_heights(y, chart);
  if (charts.size() < 2 || !(y.high > 0)) return;
  const bool logarithmic = y.high / y.low > 3;
  const double room = logarithmic ? std::pow(y.high / y.low, 0.05) : 0.05 * (y.high - y.low);
  for (Chart& chart : charts) {
    chart.y.logarithmic = logarithmic;
    chart.y.low = logarithmic ? y.low / room : std::max(0.0, y.low - room);
    chart.y.high = logarithmic ? y.high * room : y.high + room;
  }
}

void write_svg(std::ostream& out, std::span<const Chart> charts, std::string_view id) {
  const Paper paper = paper_of(charts);
  open_svg(out, charts, id,
           view_box(paper) + " width=\"" + px(paper.width) + "\" height=\"" + px(paper.height) +
               "\" style=\"max-width:100%;height:auto\"");
  draw_all(out, charts);
  out << "</svg>\n";
}

void write_svg_for_any_screen(std::ostream& out, std::span<const Chart> charts, std::string_view id) {
  std::vector<Chart> narrow(charts.begin(), charts.end());
  for (Chart& chart : narrow) {
    const double wide_lines = note_height(chart);
    chart.width = telephone_width;
    chart.names_above = true;
    chart.height += note_height(chart) - wide_lines;
  }
  const Paper wide = paper_of(charts), small = paper_of(narrow);
  const auto size = [](const Paper& p) {
    return "width:" + px(p.width) + "px;aspect-ratio:" + px(p.width) + "/" + px(p.height);
  };
  open_svg(out, charts, id, "width=\"" + px(wide.width) + "\" height=\"" + px(wide.height) + "\"");
  const std::string at = "#" + escaped_xml(id);
  out << "<style>\n"
      << at << "{" << size(wide) << ";max-width:100%;height:auto}\n"
      << "@media (max-width:" << px(widest_telephone) << "px){\n"
      << at << "{" << size(small) << "}\n"
      << at << " .wide{display:none}\n"
      << at << " .narrow{display:inline}\n}\n</style>\n";
  out << "<svg class=\"wide\" " << view_box(wide) << ">\n";
  draw_all(out, charts);
  // Who does not read rules of style sees the first drawing alone.
  out << "</svg>\n<svg class=\"narrow\" display=\"none\" " << view_box(small) << ">\n";
  draw_all(out, narrow);
  out << "</svg>\n</svg>\n";
}

}  // namespace stepcast
