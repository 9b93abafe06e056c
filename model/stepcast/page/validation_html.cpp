// The validation page: predicted against measured, and the errors by method and by scale, as one file without scripts.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/chart/chart.hpp>
#include <stepcast/chart/xml_text.hpp>
#include <stepcast/page/validation_html.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>

namespace stepcast {
namespace {

/// A case that was predicted and is used, with the index of its method.
struct Point {
  const ValidationCase& c;
  const CaseResult& r;
  std::size_t method;
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
    if (!r.predicted_any || r.outcome == Outcome::excluded || c.inputs.exceeds_memory()) continue;
    const auto method = std::find(methods.begin(), methods.end(), c.method) - methods.begin();
    points.push_back({c, r, static_cast<std::size_t>(method)});
  }
  return points;
}

std::string value_text(const ValidationCase& c, double value) {
  if (c.subject == Subject::memory) return text_of(Bytes(value));
  return c.subject == Subject::ratio ? fixed(value, 3) : text_of(Seconds(value));
}

/// Both axes logarithmic over the same range, so that the diagonal is a right prediction.
void write_scatter(std::ostream& out, const std::string& suite, const std::vector<Point>& points,
                   const std::vector<std::string>& methods) {
  double low = HUGE_VAL, high = 0;
  std::vector<ChartCurve> curves;
  for (const std::string& method : methods) curves.push_back({.name = method, .scattered = true});
  for (const Point& p : points) {
    if (!(p.r.predicted > 0)) continue;
    low = std::min({low, p.r.predicted, p.r.measured});
    high = std::max({high, p.r.predicted, p.r.measured});
    ChartCurve& curve = curves[p.method];
    curve.x.push_back(p.r.measured);
    curve.y.push_back(p.r.predicted);
    curve.rings.push_back(p.c.split == CaseSplit::calibration);
    curve.texts.push_back(p.c.id + ": measured " + value_text(p.c, p.r.measured) + ", predicted " +
                          value_text(p.c, p.r.predicted) + " (" + percent(p.r.error, true) + ")");
  }
  if (high == 0) return;
  const double room = std::pow(std::max(high / low, 1.26), 0.05);
  ChartAxis axis{.title = "measured", .logarithmic = true, .low = low / room, .high = high * room};
  if (points.front().c.subject == Subject::memory) axis.text = [](double bytes) { return text_of(Bytes(bytes)); };
  else if (points.front().c.subject != Subject::ratio) axis.text = [](double time) { return text_of(Seconds(time)); };
  Chart chart{.title = "Predicted against measured", .x = axis, .y = axis, .width = 500, .height = 500};
  chart.y.title = "predicted";
  chart.description = "Each case of " + suite + " as a point; on the diagonal a prediction is right.";
  chart.curves = std::move(curves);
  chart.curves.push_back(
      {.name = "predicted as measured", .x = {axis.low, axis.high}, .y = {axis.low, axis.high}, .muted = true});
  write_svg(out, chart, "scatter-" + suite);
}

/// Errors of the held-out cases by some property of the case.
void write_errors_by(std::ostream& out, const char* property, const std::vector<Point>& points, bool coloured,
                     std::string (*key)(const ValidationCase&)) {
  struct Row {
    std::vector<double> errors;
    double bias = 0;
    std::size_t method = 0;
  };
  std::map<std::string, Row> rows;
  for (const Point& p : points) {
    if (p.c.split == CaseSplit::calibration) continue;
    Row& row = rows[key(p.c)];
    row.errors.push_back(std::abs(p.r.error));
    row.bias += p.r.error;
    row.method = p.method;
  }
  if (rows.empty()) return;
  out << "<table><tr><th>" << property << "</th><th>cases</th><th>mean error</th><th>median</th><th>worst</th></tr>\n";
  for (const auto& [name, row] : rows) {
    out << "<tr><td>";
    if (coloured)
      out << "<span style=\"color:var(--chart-" << row.method % most_named_curves + 1 << ")\">&#9679;</span> ";
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
  const std::vector<std::string> methods = methods_of(suite);
  const std::vector<Point> points = points_of(suite, methods);
  if (!points.empty()) {
    out << "<div class=\"row\">\n";
    write_scatter(out, suite.suite.name, points, methods);
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
         ".row{display:flex;flex-wrap:wrap;gap:2rem;align-items:flex-start}\n"
         ":root{--chart-ground:#fff;--chart-text:#222;--chart-muted:#555;--chart-grid:#ddd";
  for (std::size_t i = 0; i < most_named_curves; ++i) out << ";--chart-" << i + 1 << ":" << chart_colours()[i];
  out << "}\n</style></head><body>\n<h1>Predicted against measured</h1>\n"
         "<p>Filled points are held out; empty ones calibrated an input. Errors are relative to the measured value and "
         "over the cases held out.</p>\n";
  for (const SuiteResult& suite : results) write_suite(out, suite);
  out << "</body></html>\n";
}

}  // namespace stepcast
