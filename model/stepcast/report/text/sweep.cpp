// Rows of a sweep for people: a line for each plan at each point, the best of a point marked.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/report/sweep_report.hpp>
#include <stepcast/report/text/table.hpp>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace stepcast {

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

}  // namespace stepcast
