// The validation page: predicted against measured, and the errors by method and by scale, as one file without scripts.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/chart/chart.hpp>
#include <stepcast/chart/xml_text.hpp>
#include <stepcast/page/validation_html.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <ostream>

namespace stepcast {
namespace {

constexpr std::array<const char*, 8> colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                             "#e69f00", "#56b4e9", "#8c564b", "#555555"};

/// A case that was predicted and is used, with the index of its method's colour.
struct Point {
  const ValidationCase& c;
  const CaseResult& r;
  std::size_t colour;
};

std::vector<std::string> methods_of(const SuiteResult& suite) {
  std::vector<std::string> methods;
  for (const ValidationCase& c : suite.suite.cases)
    if (std::find(methods.begin(), methods.end(), c.method) == methods.end()) methods.push_back(c.method);
  return methods;
}

std::vector<Point> points_of(const SuiteResult& suite, const std::vector<std::string>& methods) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < suite.results.size(); ++i) {
    const ValidationCase& c = suite.suite.cases[i];
    const CaseResult& r = suite.results[i];
    if (!r.predicted_any || r.outcome == Outcome::excluded) continue;
    const auto method = std::find(methods.begin(), methods.end(), c.method) - methods.begin();
    points.push_back({c, r, static_cast<std::size_t>(method) % colours.size()});
  }
  return points;
}

/// Both axes logarithmic over the same range, so that the diagonal is a right prediction.
class Axis {
 public:
  static constexpr double size = 420, margin = 64;
  explicit Axis(const std::vector<Point>& points) {
    for (const Point& p : points)
      for (const double v : {p.r.predicted, p.r.measured}) {
        if (!(v > 0)) continue;
        low_ = std::min(low_, std::log10(v));
        high_ = std::max(high_, std::log10(v));
      }
    const double room = 0.05 * std::max(high_ - low_, 0.1);
    low_ -= room;
    high_ += room;
  }
  [[nodiscard]] double at(double value) const { return (std::log10(value) - low_) / (high_ - low_) * size; }
  [[nodiscard]] double x(double value) const { return margin + at(value); }
  [[nodiscard]] double y(double value) const { return size - at(value) + 10; }
  /// 1, 2 and 5 times powers of ten within the range; powers alone where those would be too many.
  [[nodiscard]] std::vector<double> ticks() const {
    std::vector<double> out;
    for (int e = static_cast<int>(std::floor(low_)); e <= high_; ++e)
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double value = digit * std::pow(10.0, e);
        if (digit > 1 && high_ - low_ > 3) continue;
        if (std::log10(value) >= low_ && std::log10(value) <= high_) out.push_back(value);
      }
    return out;
  }
  [[nodiscard]] double low() const { return std::pow(10.0, low_); }
  [[nodiscard]] double high() const { return std::pow(10.0, high_); }

 private:
  double low_ = INFINITY, high_ = -INFINITY;
};

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  char text[200];
  std::snprintf(text, sizeof text, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2,
                style);
  return text;
}

std::string tick_text(double tick) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", tick);
  return text;
}
std::string value_text(const ValidationCase& c, double value) {
  return c.subject == Subject::ratio ? fixed(value, 3) : text_of(Seconds(value));
}

void write_scatter(std::ostream& out, const std::vector<Point>& points) {
  const Axis axis(points);
  const double end = Axis::margin + Axis::size, bottom = Axis::size + 10;
  out << "<svg viewBox=\"0 0 500 480\" width=\"500\" role=\"img\" aria-label=\"predicted against measured\">\n";
  for (const double tick : axis.ticks()) {
    out << line(axis.x(tick), 10, axis.x(tick), bottom, "stroke=\"#ddd\"")
        << line(Axis::margin, axis.y(tick), end, axis.y(tick), "stroke=\"#ddd\"");
    const std::string label = points.front().c.subject == Subject::ratio ? tick_text(tick) : text_of(Seconds(tick));
    out << "<text x=\"" << fixed(axis.x(tick), 1) << "\" y=\"" << bottom + 16 << "\" text-anchor=\"middle\">" << label
        << "</text>\n<text x=\"" << Axis::margin - 4 << "\" y=\"" << fixed(axis.y(tick) + 4, 1)
        << "\" text-anchor=\"end\">" << label << "</text>\n";
  }
  out << line(axis.x(axis.low()), axis.y(axis.low()), axis.x(axis.high()), axis.y(axis.high()), "stroke=\"#000\"");
  for (const Point& p : points) {
    if (!(p.r.predicted > 0)) continue;
    const bool fitted = p.c.split == CaseSplit::calibration;
    out << "<circle cx=\"" << fixed(axis.x(p.r.measured), 1) << "\" cy=\"" << fixed(axis.y(p.r.predicted), 1)
        << "\" r=\"4\" stroke=\"" << colours[p.colour] << "\" fill=\"" << (fitted ? "none" : colours[p.colour])
        << "\" fill-opacity=\"0.6\"><title>" << escaped_xml(p.c.id) << ": measured " << value_text(p.c, p.r.measured)
        << ", predicted " << value_text(p.c, p.r.predicted) << " (" << fixed(100 * p.r.error, 1, true)
        << " %)</title></circle>\n";
  }
  out << "<text x=\"" << end << "\" y=\"" << bottom + 34 << "\" text-anchor=\"end\">measured</text>\n"
      << "<text x=\"" << Axis::margin + 6 << "\" y=\"22\">predicted</text>\n</svg>\n";
}

/// Errors of the held-out cases by some property of the case.
void write_errors_by(std::ostream& out, const char* property, const std::vector<Point>& points, bool coloured,
                     std::string (*key)(const ValidationCase&)) {
  struct Row {
    std::vector<double> errors;
    double bias = 0;
    std::size_t colour = 0;
  };
  std::map<std::string, Row> rows;
  for (const Point& p : points) {
    if (p.c.split == CaseSplit::calibration) continue;
    Row& row = rows[key(p.c)];
    row.errors.push_back(std::abs(p.r.error));
    row.bias += p.r.error;
    row.colour = p.colour;
  }
  if (rows.empty()) return;
  out << "<table><tr><th>" << property << "</th><th>cases</th><th>mean error</th><th>median</th><th>worst</th></tr>\n";
  for (const auto& [name, row] : rows) {
    out << "<tr><td>";
    if (coloured) out << "<span style=\"color:" << colours[row.colour] << "\">&#9679;</span> ";
    out << escaped_xml(name) << "</td><td>" << row.errors.size() << "</td><td>"
        << percent(row.bias / static_cast<double>(row.errors.size()), true) << "</td><td>"
        << percent(median(row.errors)) << "</td><td>" << percent(quantile(row.errors, 1)) << "</td></tr>\n";
  }
  out << "</table>\n";
}

std::string method_key(const ValidationCase& c) { return c.method.empty() ? "all" : c.method; }
/// Padded, so that the order of the text is that of the numbers.
std::string scale_key(const ValidationCase& c) {
  if (c.inputs.workers == 0) return "as the cluster";
  const std::string count = std::to_string(c.inputs.workers);
  return std::string(5 - std::min<std::size_t>(5, count.size()), ' ') + count;
}

void write_suite(std::ostream& out, const SuiteResult& suite) {
  const SuiteStatistics& s = suite.statistics;
  out << "<section><h2>" << escaped_xml(suite.suite.name) << "</h2>\n<p>" << escaped_xml(suite.suite.summary)
      << "</p>\n<p>" << s.cases << " cases, " << s.held_out << " held out: median error " << percent(s.median)
      << ", P90 " << percent(s.p90) << ", worst " << percent(s.worst) << "; " << s.failed << " failed, " << s.skipped
      << " skipped, " << s.excluded << " excluded";
  if (s.clear_pairs > 0)
    out << "; of the pairs of plans more than 5 % apart "
        << percent(static_cast<double>(s.clear_pairs_right) / static_cast<double>(s.clear_pairs))
        << " in the right order";
  for (const Regret& r : s.regrets)
    out << "; regret among " << r.among << " plans " << percent(r.mean)
        << (r.constant.empty() ? "" : " (always " + escaped_xml(r.constant) + ": " + percent(r.constant_mean) + ")");
  out << ".</p>\n";
  const std::vector<Point> points = points_of(suite, methods_of(suite));
  if (!points.empty()) {
    out << "<div class=\"row\">\n";
    write_scatter(out, points);
    out << "<div>\n";
    write_errors_by(out, "method", points, true, method_key);
    write_errors_by(out, "workers", points, false, scale_key);
    out << "</div></div>\n";
  }
  out << "</section>\n";
}

}  // namespace

void write_validation_html(std::ostream& out, std::span<const SuiteResult> results) {
  out << "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>stepcast validation</title>\n"
         "<meta name=\"viewport\" content=\"width=device-width\"><style>\n"
         "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#222}\n"
         "table{border-collapse:collapse;margin:0 0 1.5rem}td,th{padding:.15rem .7rem;text-align:right}\n"
         "td:first-child,th:first-child{text-align:left}tr:nth-child(even){background:#f4f4f4}\n"
         ".row{display:flex;flex-wrap:wrap;gap:2rem;align-items:flex-start}svg text{font-size:11px}\n"
         "</style></head><body>\n<h1>Predicted against measured</h1>\n"
         "<p>Filled points are held out; empty ones calibrated an input. Errors are relative to the measured value and "
         "over the cases held out.</p>\n";
  for (const SuiteResult& suite : results) write_suite(out, suite);
  out << "</body></html>\n";
}

}  // namespace stepcast
