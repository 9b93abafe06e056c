// Rows of a sweep for people: a line for each plan at each point, the best of a point marked.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/report/sweep_report.hpp>
#include <stepcast/report/text/table.hpp>

#include <cstdio>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

std::string four_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

/// A value between points, to a thousandth: bytes and small shares are not told to the last digit.
std::string about(const SweepAxis& axis, double value) {
  if (axis.option && axis.option->kind == OptionKind::size) return text_of(Bytes(value));
  if (axis.option && axis.option->kind == OptionKind::number) return four_digits(value);
  return value_text(axis, value);
}

/// "from 5.4 Gb/s on", "up to 24", "512 KiB to 14 MiB".
std::string range_text(const SweepAxis& axis, const KeptRange& range) {
  const std::string low = about(axis, range.low), high = about(axis, range.high);
  if (!range.runs) return "cannot run";
  if (!range.any) return "nowhere";
  if (range.to_first && range.to_last) return low == high ? low : "all of " + low + " to " + high;
  if (range.to_last) return "from " + low + " on";
  return range.to_first ? "up to " + high : low == high ? low : low + " to " + high;
}

/// The step at the ends that are no ends of the axis.
std::string step_there(const KeptRange& range) {
  if (!range.any || (range.to_first && range.to_last)) return "";
  if (range.to_last) return text_of(range.low_step);
  if (range.to_first || range.low == range.high) return text_of(range.high_step);
  return text_of(range.low_step) + ", " + text_of(range.high_step);
}

}  // namespace

void write_sweep_text(std::ostream& out, const SweepQuestion& question, std::span<const SweepRow> rows) {
  using Align = TextTable::Align;
  std::vector<TextTable::Column> columns;
  for (const SweepAxis& axis : question.axes) columns.push_back({axis.name, Align::right});
  for (const TextTable::Column& column : {TextTable::Column{"plan", Align::flexible},
                                          {"step", Align::right},
                                          {"80 % interval", Align::right},
                                          {"samples/s", Align::right},
                                          {"computes", Align::right},
                                          {"", Align::left}})
    columns.push_back(column);
  TextTable table(std::move(columns));
  bool any_best = false;
  for (const SweepRow& row : rows) {
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < row.values.size(); ++i) cells.push_back(value_text(question.axes[i], row.values[i]));
    if (!row.prediction) {
      cells.push_back(row.plan + ": not here, " + row.inapplicable);
      cells.resize(cells.size() + 5);
    } else {
      const Prediction& p = *row.prediction;
      cells.push_back(row.plan);
      cells.push_back(text_of(p.iteration));
      cells.push_back(text_of(p.interval_low) + " to " + text_of(p.interval_high));
      cells.push_back(p.throughput_samples_per_s > 0 ? fixed(p.throughput_samples_per_s, 1) : "");
      cells.push_back(whole_percent(p.breakdown.compute / p.iteration));
      cells.emplace_back(row.best ? "best" : "");
      any_best |= row.best;
    }
    table.add_row(std::move(cells));
  }
  table.write(out);
  if (any_best) {
    out << '\n';
    for (const std::string& line : wrapped(
             "computes: the share of the step in which a worker does; what is missing waits for messages. best: the "
             "fastest at its point.",
             page_of(out).width))
      out << line << '\n';
  }
}

void write_kept_text(std::ostream& out, const SweepQuestion& question, const Kept& kept,
                     std::span<const KeptRange> ranges) {
  using Align = TextTable::Align;
  const SweepAxis& axis = question.axes.front();
  std::vector<TextTable::Column> columns;
  for (std::size_t i = 1; i < question.axes.size(); ++i) columns.push_back({question.axes[i].name, Align::right});
  const std::string what =
      kept.share > 0 ? "keeps " + four_digits(100 * kept.share) + " %" : "at most " + text_of(kept.step);
  for (const TextTable::Column& column : {TextTable::Column{"plan", Align::flexible},
                                          {axis.name + ", " + what, Align::left},
                                          {"step there", Align::right},
                                          {"best step", Align::right},
                                          {"at", Align::right}})
    columns.push_back(column);
  TextTable table(std::move(columns));
  for (const KeptRange& range : ranges) {
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < range.others.size(); ++i)
      cells.push_back(value_text(question.axes[i + 1], range.others[i]));
    cells.push_back(range.plan);
    cells.push_back(range_text(axis, range));
    cells.push_back(step_there(range));
    cells.push_back(range.runs ? text_of(range.best_step) : "");
    cells.push_back(range.runs ? about(axis, range.best) : "");
    table.add_row(std::move(cells));
  }
  table.write(out);
  std::vector<std::string> remarks;
  if (kept.share > 0)
    remarks.emplace_back("keeps: of the most that a worker does in a second at any point of the axis.");
  for (const KeptRange& range : ranges)
    if (!range.runs) remarks.push_back(range.plan + " cannot run: " + range.inapplicable);
  if (!remarks.empty()) out << '\n';
  for (const std::string& remark : remarks)
    for (const std::string& line : wrapped(remark, page_of(out).width)) out << line << '\n';
}

}  // namespace stepcast
