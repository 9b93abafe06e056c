// The frontier of a model's units as text: the best point that fits, and some of the points between the two ends.
#include <stepcast/base/text.hpp>
#include <stepcast/report/layout_report.hpp>
#include <stepcast/report/text/layout.hpp>
#include <stepcast/report/text/phrases.hpp>
#include <stepcast/report/text/table.hpp>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <utility>

namespace stepcast {
namespace {

using Align = TextTable::Align;

/// Rows of the table of points.
constexpr std::size_t most_rows = 20;

/// "10^27": how many ways there are to choose.
std::string combinations_text(const UnitGraph& units) {
  double digits = 0;
  for (const auto& configurations : units.of) digits += std::log10(static_cast<double>(configurations.size()));
  return digits < 6 ? grouped_digits(static_cast<std::uint64_t>(std::llround(std::pow(10.0, digits))))
                    : "10^" + std::to_string(std::llround(digits));
}

/// "embedding, 16 x layer": the kinds of some units, as they follow each other.
std::string kinds_text(const Workload& workload, const UnitRun& run) {
  std::string text;
  for (std::uint32_t u = run.first; u < run.first + run.units;) {
    std::uint32_t end = u;
    while (end < run.first + run.units && workload.units[end] == workload.units[u]) ++end;
    if (!text.empty()) text += ", ";
    if (end - u > 1) text += std::to_string(end - u) + " x ";
    text += workload.kinds[workload.units[u]].name;
    u = end;
  }
  return text;
}

/// "17 units tp=1 dp=16, 1 unit tp=2 dp=8": the choices of an assignment, the most frequent first.
std::string choices_text(const UnitGraph& units, const Assignment& point) {
  std::vector<std::pair<UnitConfiguration, std::int64_t>> choices;
  for (const UnitRun& run : runs_of(units, point)) {
    const auto same = [&](const auto& choice) { return choice.first == run.configuration; };
    const auto known = std::find_if(choices.begin(), choices.end(), same);
    if (known == choices.end()) choices.emplace_back(run.configuration, run.units);
    else known->second += run.units;
  }
  std::stable_sort(choices.begin(), choices.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [configuration, count] : choices)
    text += (text.empty() ? "" : "; ") + std::to_string(count) + ": " + configuration.text();
  return text;
}

void write_best(std::ostream& out, const UnitFrontierReport& report, const Assignment& best) {
  write_labelled(out, "step", text_of(Seconds(best.time)));
  write_labelled(out, "memory", memory_text(Bytes(best.memory), report.subject.memory_cap));
  out << '\n';
  TextTable table({{"from", Align::right}, {"units", Align::flexible}, {"configuration"}});
  for (const UnitRun& run : runs_of(report.found.units, best))
    table.add_row({std::to_string(run.first), kinds_text(report.subject.workload, run), run.configuration.text()});
  table.write(out);
}

void write_points(std::ostream& out, const UnitFrontier& found) {
  const std::vector<Assignment>& points = found.frontier.points;
  const std::size_t rows = std::min(points.size(), most_rows);
  TextTable table({{"memory", Align::right}, {"step", Align::right}, {"units: configuration", Align::flexible}});
  for (std::size_t i = 0; i < rows; ++i) {
    const Assignment& point = points[rows == 1 ? 0 : i * (points.size() - 1) / (rows - 1)];
    table.add_row({text_of(Bytes(point.memory)), text_of(Seconds(point.time)), choices_text(found.units, point)});
  }
  out << '\n';
  table.write(out);
  if (rows < points.size()) out << "(" << rows << " of " << points.size() << " points; --json has all)\n";
}

}  // namespace

void write_unit_frontier_text(std::ostream& out, const UnitFrontierReport& report) {
  const UnitFrontier& found = report.found;
  write_layout_heading(out, report.subject);
  write_labelled(out, "search",
                 combinations_text(found.units) + " combinations: each of " +
                     counted(std::ssize(found.units.of), "unit") + " has its own configuration, without pipelines; " +
                     (found.frontier.exact ? "the whole frontier"
                                           : "frontier thinned to " + std::to_string(found.frontier.points.size()) +
                                                 " points, both ends exact"));
  out << '\n';
  if (const Assignment* best = fastest_within(found.frontier, report.subject.memory_cap)) {
    write_best(out, report, *best);
  } else {
    write_labelled(out, "none fits",
                   "the least is " + text_of(Bytes(found.frontier.points.front().memory)) + " of the " +
                       text_of(report.subject.memory_cap) + " that a device has");
  }
  write_points(out, found);
}

}  // namespace stepcast
