// A sweep as charts: step times against the first axis, one chart for each choice of the other axes' values.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/page/sweep_chart.hpp>
#include <stepcast/page/sweep_svg.hpp>
#include <stepcast/sweep/axis_rules.hpp>
#include <stepcast/sweep/grid.hpp>

#include <algorithm>
#include <cmath>
#include <ostream>

namespace stepcast {
namespace {

ChartAxis axis_of(const SweepAxis& axis, const SweepQuestion& question) {
  ChartAxis out;
  out.title = title_of(axis);
  if (axis.quantity == SweepQuantity::bandwidth || axis.quantity == SweepQuantity::latency)
    out.title = (over_network(question) ? "network " : "inside a machine: ") + out.title;
  const auto [low, high] = std::minmax_element(axis.values.begin(), axis.values.end());
  out.logarithmic = *low > 0 && *high / *low >= 4;
  out.text = [axis](double v) { return value_text(axis, v); };
  const OptionKind kind = axis.option ? axis.option->kind : OptionKind::number;
  if (axis.quantity == SweepQuantity::bandwidth) out.unit = 0.125;
  out.binary = axis.quantity == SweepQuantity::workers || axis.quantity == SweepQuantity::batch ||
               kind == OptionKind::size || kind == OptionKind::count;
  if (kind == OptionKind::choice) {
    out.logarithmic = false;
    out.ticks = axis.values;
  }
  return out;
}

/// "ddp from 812 ms to 211 ms".
std::string in_words(const ChartCurve& curve) {
  std::vector<double> times;
  for (const double y : curve.y)
    if (std::isfinite(y)) times.push_back(y);
  if (times.empty()) return curve.name + " nowhere";
  return curve.name + " from " + text_of(Seconds(times.front())) + " to " + text_of(Seconds(times.back()));
}

void describe(Chart& chart, const SweepAxis& axis) {
  chart.description = chart.title + ", from " + value_text(axis, axis.values.front()) + " to " +
                      value_text(axis, axis.values.back()) + ": ";
  for (std::size_t i = 0; i < chart.curves.size(); ++i)
    chart.description += (i > 0 ? "; " : "") + in_words(chart.curves[i]);
  chart.description += ".";
  for (const ChartMark& m : chart.marks) chart.description += " Best " + m.text + ".";
}

/// Why plans have no curve or a gap in it: each reason once, with the first value at which it holds and its plans,
/// unless those are all.
std::string gaps_of(const SweepGrid& grid, std::span<const SweepRow* const> rows, const SweepAxis& axis) {
  struct Gap {
    std::string reason;
    double value;
    std::vector<std::size_t> plans;
  };
  std::vector<Gap> gaps;
  const std::size_t plans = grid.plans().size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i]->prediction) continue;
    const auto known =
        std::find_if(gaps.begin(), gaps.end(), [&](const Gap& g) { return g.reason == rows[i]->inapplicable; });
    Gap& gap =
        known == gaps.end() ? gaps.emplace_back(Gap{rows[i]->inapplicable, rows[i]->values.front(), {}}) : *known;
    if (std::find(gap.plans.begin(), gap.plans.end(), i % plans) == gap.plans.end()) gap.plans.push_back(i % plans);
  }
  std::string note;
  for (const Gap& gap : gaps) {
    const std::string names = listed(gap.plans, [&](std::size_t p) { return text_of(grid.plans()[p]); });
    note += (note.empty() ? "Not at " : "; not at ") + value_text(axis, gap.value) +
            (gap.plans.size() < plans ? ", " + names : "") + ": " + gap.reason;
  }
  return note;
}

/// "25 Gb/s", "64 workers".
std::string in_words(const SweepAxis& axis, double value) {
  return value_text(axis, value) + (axis.quantity == SweepQuantity::workers ? " workers" : "");
}

/// The same with three digits, of a place between two points.
std::string roughly(const SweepAxis& axis, double value) {
  if (axis.quantity == SweepQuantity::workers || !(value > 0)) return in_words(axis, value);
  if (axis.option && axis.option->kind == OptionKind::size) return text_of(Bytes(value));
  const double unit = axis.quantity == SweepQuantity::bandwidth ? 0.125 : 1;
  const double grain = std::pow(10, std::floor(std::log10(value / unit)) - 2) * unit;
  return in_words(axis, std::round(value / grain) * grain);
}

/// Says which plan is best at the lower end, and marks where another one becomes it.
void mark(Chart& chart, const SweepGrid& grid, std::span<const SweepRow* const> rows,
          std::span<const CrossOver> cross_overs) {
  const SweepAxis& axis = grid.question().axes.front();
  const std::size_t plans = grid.plans().size();
  const auto name = [&](const std::string& plan) {
    for (ChartCurve& curve : chart.curves) curve.named |= curve.name == plan;
  };
  const SweepRow* start = nullptr;
  std::size_t plan = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i]->best && (!start || rows[i]->values.front() < start->values.front())) start = rows[i], plan = i % plans;
  if (!start) return;
  name(chart.curves[plan].name);
  chart.y.title += "; at " + in_words(axis, start->values.front()) + " the best is " + chart.curves[plan].name;
  for (const CrossOver& c : cross_overs) {
    if (!std::equal(c.others.begin(), c.others.end(), start->values.begin() + 1)) continue;
    chart.marks.push_back({c.value, c.above + " from " + roughly(axis, c.value)});
    name(c.above);
  }
}

/// `rows`: of one point after the other, all plans.
Chart chart_of(const SweepGrid& grid, std::span<const SweepRow* const> rows, std::span<const CrossOver> cross_overs) {
  const SweepQuestion& question = grid.question();
  const SweepAxis& first = question.axes.front();
  const std::size_t plans = grid.plans().size();
  Chart chart;
  chart.title = "Step time" + (question.profile.model.empty() ? "" : " of " + question.profile.model);
  for (std::size_t a = 1; a < question.axes.size(); ++a)
    chart.title += ", " + question.axes[a].name + "=" + value_text(question.axes[a], rows.front()->values[a]);
  chart.x = axis_of(first, question);
  constexpr std::size_t most_bands = 3;  // more of them hide one another
  chart.y.title = plans <= most_bands ? "step time, with its 80 % interval" : "step time";
  chart.y.text = [](double v) { return trimmed_text_of(Seconds(v)); };
  double low = HUGE_VAL, high = 0;
  for (std::size_t p = 0; p < plans; ++p) {
    ChartCurve curve{text_of(grid.plans()[p]), {}, {}};
    for (std::size_t i = p; i < rows.size(); i += plans) {
      const auto& prediction = rows[i]->prediction;
      curve.x.push_back(rows[i]->values.front());
      curve.y.push_back(prediction ? prediction->iteration.value() : std::nan(""));
      if (prediction) low = std::min(low, curve.y.back()), high = std::max(high, curve.y.back());
      if (plans > most_bands) continue;
      curve.low.push_back(prediction ? prediction->interval_low.value() : std::nan(""));
      curve.high.push_back(prediction ? prediction->interval_high.value() : std::nan(""));
    }
    chart.curves.push_back(std::move(curve));
  }
  chart.y.logarithmic = high / low > 3;
  mark(chart, grid, rows, cross_overs);
  describe(chart, first);
  if (plans <= most_named_curves) chart.note = gaps_of(grid, rows, first);
  mute_but_lowest(chart);
  return chart;
}

}  // namespace

std::vector<Chart> charts_of(const SweepQuestion& question, std::span<const SweepRow> rows,
                             std::span<const CrossOver> cross_overs) {
  const SweepGrid grid(question);
  const std::size_t plans = grid.plans().size(), panels = grid.points() / question.axes.front().values.size();
  check_panels(question);
  std::vector<Chart> charts;
  for (std::size_t panel = 0; panel < panels; ++panel) {
    std::vector<const SweepRow*> shown;
    for (std::size_t i = 0; i + plans <= rows.size(); i += plans)
      for (std::size_t p = 0; p < plans && rows[i].point % panels == panel; ++p) shown.push_back(&rows[i + p]);
    if (!shown.empty()) charts.push_back(chart_of(grid, shown, cross_overs));
  }
  share_scale(charts);  // panels are compared with one another
  return charts;
}

}  // namespace stepcast
