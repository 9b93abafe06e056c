// The sensitivity of a report page: how the step times change with bandwidth, workers and batch, and where another plan
// becomes the best.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/page/sections.hpp>
#include <stepcast/page/sweep_chart.hpp>
#include <stepcast/sweep/grid.hpp>

#include <algorithm>
#include <cmath>
#include <ostream>

namespace stepcast {
namespace {

const SweepAxis& axis_of(const PageSweep& sweep) { return sweep.question.axes.front(); }

std::string title_of(const PageSweep& sweep) {
  switch (axis_of(sweep).quantity) {
    case SweepQuantity::bandwidth:
      return sweep.question.cluster.nodes > 1 ? "Network bandwidth" : "Bandwidth inside the machine";
    case SweepQuantity::latency:
      return "Latency";
    case SweepQuantity::workers:
      return "Workers";
    case SweepQuantity::batch:
      return "Batch of a worker";
    case SweepQuantity::compute:
      return "Faster compute";
    case SweepQuantity::loss:
      return "Packets lost";
    case SweepQuantity::stalls:
      return "Time-outs per packet";
    case SweepQuantity::jitter:
      return "Jitter";
    case SweepQuantity::background:
      return "Taken by other jobs";
    case SweepQuantity::layout:
      return "Layout, " + axis_of(sweep).name;
    case SweepQuantity::change:
      return "What-if " + axis_of(sweep).name;
    case SweepQuantity::option:
      break;
  }
  return "Option " + axis_of(sweep).name;
}

/// The same sweep with the plans that matter to the reader: baseline, best plan, and all that are best somewhere.
PageSweep drawn_part(const PageSweep& sweep, const Ranking& ranking) {
  constexpr std::size_t most = 7;
  const std::vector<Plan>& plans = sweep.question.plans;
  std::vector<std::size_t> wins(plans.size());
  for (std::size_t i = 0; i < sweep.rows.size(); ++i) wins[i % plans.size()] += sweep.rows[i].best;
  std::vector<std::size_t> order;
  const auto take = [&](std::size_t p) {
    if (order.size() < most && std::ranges::find(order, p) == order.end()) order.push_back(p);
  };
  for (std::size_t p = 0; p < plans.size(); ++p) {
    const std::string name = text_of(plans[p]);
    if (p == 0 || (!ranking.exact.empty() && name == text_of(ranking.exact.front().prediction.plan))) take(p);
    if (std::ranges::any_of(sweep.cross_overs, [&](const CrossOver& c) { return c.below == name || c.above == name; }))
      take(p);
  }
  std::vector<std::size_t> winners(plans.size());
  for (std::size_t p = 0; p < plans.size(); ++p) winners[p] = p;
  std::ranges::stable_sort(winners, std::greater(), [&](std::size_t p) { return wins[p]; });
  for (const std::size_t p : winners)
    if (wins[p] > 0) take(p);
  std::ranges::sort(order);
  PageSweep part{sweep.question, {}, sweep.cross_overs, sweep.here};
  part.question.plans.clear();
  for (const std::size_t p : order) part.question.plans.push_back(plans[p]);
  for (std::size_t i = 0; i < sweep.rows.size(); i += plans.size())
    for (const std::size_t p : order) part.rows.push_back(sweep.rows[i + p]);
  return part;
}

/// Which plan is the fastest where.
std::string fastest_text(const PageSweep& sweep) {
  const SweepAxis& axis = axis_of(sweep);
  if (sweep.cross_overs.empty()) {
    const auto best = std::ranges::find_if(sweep.rows, &SweepRow::best);
    if (best == sweep.rows.end()) return "No plan can run at any of these points.";
    return "Fastest, or within 0.5 % of it, is <code>" + html(best->plan) + "</code> everywhere from " +
           html(value_text(axis, axis.values.front())) + " to " + html(value_text(axis, axis.values.back())) + ".";
  }
  std::string text = "Fastest is <code>" + html(sweep.cross_overs.front().below) + "</code>";
  for (const CrossOver& c : sweep.cross_overs)
    text += ", from " + html(value_text(axis, c.value)) + " <code>" + html(c.above) + "</code>";
  return text + ".";
}

/// At which of the points the plan that is recommended is as good as the best one.
std::string recommended_text(const PageSweep& sweep, const PlanSpec& recommended) {
  const SweepAxis& axis = axis_of(sweep);
  const std::string name = text_of(recommended);
  const std::size_t plans = sweep.question.plans.size();
  std::vector<std::string> good;
  for (std::size_t i = 0; i + plans <= sweep.rows.size(); i += plans) {
    double best = HUGE_VAL, own = HUGE_VAL;
    for (std::size_t p = 0; p < plans; ++p) {
      const auto& prediction = sweep.rows[i + p].prediction;
      if (!prediction) continue;
      best = std::min(best, prediction->iteration.value());
      if (text_of(sweep.question.plans[p]) == name) own = prediction->iteration.value();
    }
    if (own <= best * (1 + indifference)) good.push_back(value_text(axis, sweep.rows[i].values.front()));
  }
  const std::string plan = " The recommended " + plan_html(recommended);
  if (good.size() * plans == sweep.rows.size()) return plan + " is as good to within 0.5 % at every point.";
  if (good.empty()) return {};
  std::string text = plan + " is as good to within 0.5 % at";
  for (std::size_t i = 0; i < good.size(); ++i) text += (i == 0 ? " " : ", ") + html(good[i]);
  return text + ".";
}

void write_cross_overs(std::ostream& out, const PageSweep& sweep, const Ranking& ranking) {
  out << "<p>" << fastest_text(sweep);
  if (!ranking.exact.empty()) out << recommended_text(sweep, ranking.exact.front().prediction.plan);
  out << "</p>\n";
}

void write_numbers(std::ostream& out, const PageSweep& part) {
  const SweepAxis& axis = axis_of(part);
  const std::size_t plans = part.question.plans.size();
  out << "<details>\n<summary>The numbers</summary>\n";
  open_scroller(out, title_of(part) + ", step times");
  out << "<table>\n<caption>" << html(title_of(part)) << ": step times</caption>\n<thead><tr><th scope=\"col\">"
      << html(axis.name) << "</th>";
  for (const Plan& plan : part.question.plans) out << "<th scope=\"col\">" << plan_html(plan) << "</th>";
  out << "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i + plans <= part.rows.size(); i += plans) {
    out << "<tr><th scope=\"row\">" << html(value_text(axis, part.rows[i].values.front())) << "</th>";
    for (std::size_t p = 0; p < plans; ++p) {
      const SweepRow& row = part.rows[i + p];
      out << "<td>"
          << (row.prediction ? html(text_of(row.prediction->iteration))
                             : "<small>" + html(row.inapplicable) + "</small>")
          << (row.best ? " <span class=\"best\">best</span>" : "") << "</td>";
    }
    out << "</tr>\n";
  }
  out << "</tbody>\n</table>\n";
  close_scroller(out);
  out << "</details>\n";
}

void write_sweep(std::ostream& out, const PageSweep& sweep, const Ranking& ranking) {
  const PageSweep part = drawn_part(sweep, ranking);
  const SweepAxis& axis = axis_of(sweep);
  out << "<figure class=\"sweep\">\n<figcaption><h3>" << html(title_of(sweep)) << "</h3>\n";
  write_cross_overs(out, sweep, ranking);
  out << "</figcaption>\n";
  for (Chart& chart : charts_of(part.question, part.rows, part.cross_overs)) {
    chart.title = "Step time of a plan";
    const auto [low, high] = std::ranges::minmax(axis.values);
    if (sweep.here >= low && sweep.here <= high) {
      chart.marks.push_back({sweep.here, "here"});
      chart.description += " Asked for: " + value_text(axis, sweep.here) + ".";
    }
    open_scroller(out, "Chart: " + title_of(sweep));
    write_svg(out, chart, "chart-" + axis.name);
    close_scroller(out);
  }
  if (const std::size_t others = sweep.question.plans.size() - part.question.plans.size(); others > 0)
    out << "<p class=\"remark\">" << counted(std::int64_t(others), "other plan was", "other plans were")
        << " compared and never best by more than 0.5 %.</p>\n";
  write_numbers(out, part);
  out << "</figure>\n";
}

}  // namespace

void write_sweeps_section(std::ostream& out, const ReportPage& page) {
  if (page.sweeps.empty()) return;
  open_section(out, "sensitivity", "Sensitivity");
  out << "<p>The same plans, with their options as tuned for what was asked, if one quantity were different.";
  if (page.profile.batch_samples <= 0) out << " The batch is left out: its size is unknown.";
  out << "</p>\n";
  for (const PageSweep& sweep : page.sweeps)
    if (!sweep.rows.empty()) write_sweep(out, sweep, page.ranking);
  close_section(out);
}

}  // namespace stepcast
