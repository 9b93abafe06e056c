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
std::string combinations_text(double digits) {
  return digits < 6 ? grouped_digits(static_cast<std::uint64_t>(std::llround(std::pow(10.0, digits))))
                    : "10^" + std::to_string(std::llround(digits));
}

/// "embedding, 16 x layer": the kinds of some units, as they follow each other.
std::string kinds_text(const Workload& workload, const UnitRun& run) {
  std::string text;
  for (std::uint32_t u = run.first; u < run.first + run.choice.units;) {
    std::uint32_t end = u;
    while (end < run.first + run.choice.units && workload.units[end] == workload.units[u]) ++end;
    if (!text.empty()) text += ", ";
    if (end - u > 1) text += std::to_string(end - u) + " x ";
    text += workload.kinds[workload.units[u]].name;
    u = end;
  }
  return text;
}

/// "tp=2 dp=4 zero=3 recompute=full": a choice on so many devices.
std::string choice_text(const UnitChoice& c, std::int64_t devices) {
  std::string text = "tp=" + std::to_string(c.tensor) + " dp=" + std::to_string(devices / c.tensor);
  if (c.zero > 0) text += " zero=" + std::to_string(c.zero);
  if (c.recomputation != Recomputation::none) text += " recompute=" + std::string(name_of(c.recomputation));
  return text;
}

void write_choice(std::ostream& out, const UnitFrontierReport& report) {
  const auto& [count, point] = report.choice;
  if (report.counts.size() > 1) write_labelled(out, "devices", std::to_string(count->cluster.workers()));
  write_labelled(out, "plan", text_of(point->plan));
  write_labelled(out, "step", text_of(point->iteration));
  write_labelled(out, "memory", memory_text(point->memory, report.subject.memory_cap));
  out << '\n';
  TextTable table({{"from", Align::right}, {"units", Align::flexible}, {"configuration"}});
  for (const UnitRun& run : runs_of(point->plan.layout, count->found->units))
    table.add_row({std::to_string(run.first), kinds_text(report.subject.workload, run),
                   choice_text(run.choice, count->cluster.workers())});
  table.write(out);
}

/// Why there is no choice: the nearest that there is.
void write_no_choice(std::ostream& out, const UnitFrontierReport& report) {
  const UnitPoint *smallest = nullptr, *fastest = nullptr;
  for (const DeviceCount& count : report.counts) {
    if (!count.found) {
      write_labelled(out, "not with", std::to_string(count.cluster.workers()) + " devices: " + count.found.reason());
      continue;
    }
    const UnitPoint& least = count.found->points.front();
    if (smallest == nullptr || least.memory < smallest->memory) smallest = &least;
    const UnitPoint* within = fastest_within(*count.found, count.options.memory_cap);
    if (within && (fastest == nullptr || within->iteration < fastest->iteration)) fastest = within;
  }
  if (fastest != nullptr)
    write_labelled(out, "none reaches",
                   text_of(report.target_step) + ": the fastest that fits takes " + text_of(fastest->iteration), 14);
  else if (smallest != nullptr)
    write_labelled(out, "none fits",
                   "the least is " + text_of(smallest->memory) + " of the " + text_of(report.subject.memory_cap) +
                       " that a device has");
}

void write_points(std::ostream& out, const UnitFrontier& found) {
  const std::vector<UnitPoint>& points = found.points;
  const std::size_t rows = std::min(points.size(), most_rows);
  TextTable table({{"memory", Align::right}, {"step", Align::right}, {"plan", Align::flexible}});
  for (std::size_t i = 0; i < rows; ++i) {
    const UnitPoint& point = points[rows == 1 ? 0 : i * (points.size() - 1) / (rows - 1)];
    table.add_row({text_of(point.memory), text_of(point.iteration), text_of(point.plan)});
  }
  out << '\n';
  table.write(out);
  if (rows < points.size()) out << "(" << rows << " of " << points.size() << " points; --json has all)\n";
}

/// One row for each number of devices: the ends of its frontier, and the fastest that fits.
void write_counts(std::ostream& out, const UnitFrontierReport& report) {
  TextTable table({{"devices", Align::right},
                   {"least memory", Align::right},
                   {"fastest", Align::right},
                   {"that fits", Align::right},
                   {"points", Align::right},
                   {"plan that fits", Align::flexible}});
  for (const DeviceCount& count : report.counts) {
    const std::string devices = std::to_string(count.cluster.workers());
    if (!count.found) {
      table.add_row({devices, "-", "-", "-", "0", count.found.reason()});
      continue;
    }
    const std::vector<UnitPoint>& points = count.found->points;
    const UnitPoint* best = fastest_within(*count.found, count.options.memory_cap);
    table.add_row({devices, text_of(points.front().memory), text_of(points.back().iteration),
                   best ? text_of(best->iteration) : "none", std::to_string(points.size()),
                   best ? text_of(best->plan) : "needs " + text_of(points.front().memory)});
  }
  out << '\n';
  table.write(out);
}

std::string search_text(const UnitFrontierReport& report) {
  const UnitFrontier* largest = nullptr;
  bool exact = true;
  for (const DeviceCount& count : report.counts) {
    if (!count.found) continue;
    exact = exact && count.found->exact;
    if (largest == nullptr || count.found->digits > largest->digits) largest = &*count.found;
  }
  if (largest == nullptr) return "nothing to search";
  return (report.counts.size() > 1 ? "up to " : "") + combinations_text(largest->digits) + " combinations: each of " +
         counted(std::int64_t{largest->units}, "unit") +
         " has its own configuration, without pipelines, for each micro-batch; " +
         (exact ? "all of them predicted"
                : "searched with costs that add up over units, and what was found predicted as `predict` does");
}

}  // namespace

void write_unit_frontier_text(std::ostream& out, const UnitFrontierReport& report) {
  write_layout_subject(out, report.subject);
  write_labelled(out, "search", search_text(report));
  out << '\n';
  if (report.choice.point != nullptr) write_choice(out, report);
  else write_no_choice(out, report);
  if (report.counts.size() > 1) write_counts(out, report);
  else if (report.counts.front().found) write_points(out, *report.counts.front().found);
  if (!report.settings.empty()) out << '\n';
  write_launch_settings(out, report.settings);
  write_layout_grounds(out, report.subject);
}

}  // namespace stepcast
