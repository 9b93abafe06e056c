// A curve for each count of workers of an operation, with its points and its band.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/calibration/benchmark_logs.hpp>
#include <stepcast/calibration/nccl_fit.hpp>
#include <stepcast/chart/chart.hpp>
#include <stepcast/cluster/size_bands.hpp>
#include <stepcast/page/fit_svg.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace stepcast {
namespace {

/// More curves than this in a panel hide one another, as their bands overlap.
constexpr std::size_t most_fits = 6;

/// "64 KiB", "1.5 KiB".
std::string size_text(double bytes) {
  std::string text = text_of(Bytes(bytes));
  if (const std::size_t zero = text.find(".0 "); zero != std::string::npos) text.erase(zero, 2);
  return text;
}

/// "127.9", in GB/s, as nccl-tests prints rates; "0.00045" where its two decimals say nothing.
std::string rate_text(double rate) {
  char text[32];
  std::snprintf(text, sizeof text, rate < 1e9 ? "%.2g" : "%.4g", rate / 1e9);
  return exact_text_of(std::strtod(text, nullptr));
}

/// A table with the line through it: of the links, or else its own.
struct FittedTable {
  const MeasuredCollective& measured;
  bool by_links = false;
  std::vector<Seconds> line;
  std::vector<bool> fitted;  ///< which points the line was fitted to

  FittedTable(const Calibration::Entry& e, bool by_nccl)
      : measured(e.measured), by_links(!e.by_links.empty()), line(e.by_links) {
    if (!by_links)
      for (const Bytes size : measured.sizes) line.push_back(e.fit(size));
    fitted = by_nccl && by_links ? nccl_is_fitted_to(measured) : std::vector<bool>(line.size(), true);
  }
  [[nodiscard]] bool leaves_out() const { return std::find(fitted.begin(), fitted.end(), false) != fitted.end(); }
};

/// Those of an operation stand together, from few workers to many.
std::vector<FittedTable> tables_of(const Calibration& calibration) {
  std::vector<const Calibration::Entry*> entries;
  for (const Calibration::Entry& e : calibration.entries)
    if (e.measured.workers > 1) entries.push_back(&e);
  std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
    const auto place = [](const MeasuredCollective& m) { return std::tuple(operation_of(m.operation), m.workers); };
    return place(a->measured) < place(b->measured);
  });
  std::vector<FittedTable> tables;
  for (const Calibration::Entry* e : entries) tables.emplace_back(*e, calibration.cluster.all_reduce == "nccl");
  return tables;
}

/// The factor within which four of five times of such a size are expected; NaN where nothing was fitted to.
using FitFactors = std::array<double, size_band_count>;
FitFactors factors_of(std::span<const FittedTable> tables) {
  FitFactors factors{}, counts{};
  for (const FittedTable& t : tables)
    for (std::size_t i = 0; i < t.line.size(); ++i) {
      if (!t.fitted[i]) continue;
      const double off = std::log(t.line[i] / t.measured.times[i]);
      const std::size_t band = size_band_of(t.measured.sizes[i]);
      factors[band] += off * off;
      ++counts[band];
    }
  for (std::size_t b = 0; b < size_band_count; ++b)
    factors[b] = std::exp(normal_p90 * std::sqrt(factors[b] / counts[b]));
  return factors;
}

/// "16 workers"; what is no exchange of a library, or launched in another way, says so.
std::string fit_name(const FittedTable& t) {
  std::string name = counted(t.measured.workers, "worker");
  if (measures_the_link(t.measured)) name += ", the link";
  if (t.measured.devices_per_process > 1) name += ", " + std::to_string(t.measured.devices_per_process) + " a process";
  return name + (t.by_links ? "" : ", alone");
}

ChartCurve curve_of(const FittedTable& t, const FitFactors& factors) {
  const MeasuredCollective& m = t.measured;
  const double bus = bus_factor_of(*operation_of(m.operation), m.workers);
  const auto rate = [&](std::size_t i, Seconds time) { return bus * (m.sizes[i] / time).value(); };
  ChartCurve curve{.name = fit_name(t)};
  for (std::size_t i = 0; i < m.sizes.size(); ++i) {
    const double size = m.sizes[i].value(), fitted = rate(i, t.line[i]), measured = rate(i, m.times[i]);
    const double factor = factors[size_band_of(m.sizes[i])];
    curve.x.push_back(size);
    curve.y.push_back(fitted);
    curve.low.push_back(fitted / factor);
    curve.high.push_back(fitted * factor);
    ChartPoints& points = curve.fitted_to;
    points.x.push_back(size);
    points.y.push_back(measured);
    points.rings.push_back(!t.fitted[i]);
    points.texts.push_back(size_text(size) + " on " + curve.name + ": measured " + text_of(m.times[i]) + ", " +
                           rate_text(measured) + " GB/s; fitted " + text_of(t.line[i]) + ", " +
                           percent(t.line[i] / m.times[i] - 1, true) + (t.fitted[i] ? "" : "; left out of the fit"));
  }
  return curve;
}

/// "all_reduce on 2 to 64 workers": a panel.
Chart chart_of(std::span<const FittedTable> tables, const FitFactors& factors) {
  const MeasuredCollective &least = tables.front().measured, &most = tables.back().measured;
  Chart chart;
  chart.title = least.operation + " on " +
                (least.workers < most.workers ? std::to_string(least.workers) + " to " : "") +
                counted(most.workers, "worker");
  chart.x = {.title = "size of the message", .logarithmic = true, .text = size_text, .binary = true};
  chart.y = {.title = "bus bandwidth, GB/s", .logarithmic = true, .text = rate_text};
  chart.width = 960, chart.height = 560;
  chart.description = chart.title + ", the highest bus bandwidth:";
  for (const FittedTable& t : tables) {
    const ChartCurve& curve = chart.curves.emplace_back(curve_of(t, factors));
    const auto highest = [](const std::vector<double>& y) { return rate_text(*std::max_element(y.begin(), y.end())); };
    chart.description += (&t == tables.data() ? " " : "; ") + curve.name + " measured " + highest(curve.fitted_to.y) +
                         " GB/s, fitted " + highest(curve.y) + " GB/s";
  }
  chart.description += ".";
  return chart;
}

/// How to read the panels.
std::string note_of(const Calibration& calibration, std::span<const FittedTable> tables) {
  const std::string& algorithm = calibration.cluster.all_reduce;
  std::string note = "Dots: measured. Lines: " + (algorithm == "table" ? "ring" : algorithm) +
                     " on the fitted links. Bands: where four of five measurements are expected.";
  if (std::any_of(tables.begin(), tables.end(), [](const FittedTable& t) { return t.leaves_out(); }))
    note += " Rings: left out of the fit.";
  if (!std::all_of(tables.begin(), tables.end(), [](const FittedTable& t) { return t.by_links; }))
    note += " Alone: the links say nothing of it, and the line is fitted to these points alone.";
  return note;
}

}  // namespace

void write_fit_svg(std::ostream& out, const Calibration& calibration) {
  const std::vector<FittedTable> tables = tables_of(calibration);
  std::vector<Chart> charts;
  for (auto first = tables.begin(); first != tables.end();) {
    const auto end = std::find_if(
        first, tables.end(), [&](const FittedTable& t) { return t.measured.operation != first->measured.operation; });
    const std::span<const FittedTable> all(first, end);
    const std::size_t panels = (all.size() + most_fits - 1) / most_fits;
    const auto begin_of = [&](std::size_t panel) { return all.size() * panel / panels; };
    for (std::size_t k = 0; k < panels; ++k)
      charts.push_back(chart_of(all.subspan(begin_of(k), begin_of(k + 1) - begin_of(k)), factors_of(all)));
    first = end;
  }
  if (charts.empty()) throw InputError("plot", "measurements of at least 2 workers", "none");
  share_scale(charts);
  charts.back().note = note_of(calibration, tables);
  write_svg_for_any_screen(out, charts, "fit");
}

}  // namespace stepcast
