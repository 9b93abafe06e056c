// What-if report: the text.
//
//   what if         alone   gain  8 workers   gain
//   as traced    176.7 ms          201.3 ms
//   amp          128.4 ms  1.38x   160.2 ms  1.26x
#include <stepcast/base/text.hpp>
#include <stepcast/report/text/phrases.hpp>
#include <stepcast/report/text/table.hpp>
#include <stepcast/report/whatif_report.hpp>

#include <algorithm>
#include <ostream>
#include <utility>

namespace stepcast {
namespace {

/// A description was not traced, and a model of a traced job that is doubted is not the job.
std::string name_of_row(const WhatIfReport& report, const WhatIfRow& row) {
  if (!row.scenario.empty()) return text_of(row.scenario);
  return report.profile.described || !report.check.caution().empty() ? "unchanged" : "as traced";
}

void write_opening(std::ostream& out, const WhatIfReport& report) {
  if (report.cluster != nullptr) {
    write_subject(out, report.profile, *report.cluster, report.check);
    write_labelled(out, "plan", text_of(report.plan));
    return;
  }
  write_labelled(out, "model", model_text(report.profile));
  write_caution(out, report.check);
}

void write_end(std::ostream& out, const WhatIfReport& report) {
  if (report.cluster != nullptr) return write_grounds(out, report.profile, *report.cluster, report.check);
  out << '\n';
  write_check(out, report.check);
  write_labelled(out, "gradients", gradients_text(report.profile));
}

std::vector<std::string> cells_of(const WhatIfReport& report, const WhatIfRow& row) {
  const bool traced = row.scenario.empty();
  std::vector<std::string> cells{name_of_row(report, row)};
  const auto add = [&](bool known, Seconds step, double gained) {
    cells.push_back(known ? text_of(step) : "not here");
    cells.push_back(known && !traced ? fixed(gained, 2) + "x" : "");
  };
  add(row.profile.has_value(), row.alone, row.gain_alone);
  if (report.cluster != nullptr)
    add(row.distributed.has_value(), row.distributed ? row.distributed->iteration : Seconds(0), row.gain_distributed);
  return cells;
}

}  // namespace

void write_whatif_text(std::ostream& out, const WhatIfReport& report) {
  write_opening(out, report);
  const Seconds measured = report.profile.measured_step();
  if (measured > Seconds(0)) write_labelled(out, "measured", text_of(measured) + " a step");
  using Align = TextTable::Align;
  std::vector<TextTable::Column> columns{{"what if", Align::flexible}, {"alone", Align::right}, {"gain", Align::right}};
  if (report.cluster != nullptr) {
    columns.push_back({counted(report.cluster->workers(), "worker"), Align::right});
    columns.push_back({"gain", Align::right});
  }
  TextTable table(std::move(columns));
  for (const WhatIfRow& row : report.rows) table.add_row(cells_of(report, row));
  out << '\n';
  table.write(out);
  const bool several = report.rows.size() > 2;
  std::vector<std::string_view> cautioned;
  for (const WhatIfRow& row : report.rows) {
    if (row.scenario.empty() && row.inapplicable.empty()) continue;
    out << '\n';
    if (several) out << name_of_row(report, row) << '\n';
    for (const std::string& change : row.changes) write_labelled(out, "assumed", change);
    if (!row.inapplicable.empty()) write_labelled(out, "not here", row.inapplicable);
    for (const std::string& caution : row.cautions) write_labelled(out, "CAUTION", caution);
    for (const WhatIfSpec& spec : row.scenario) {
      const bool said = std::find(cautioned.begin(), cautioned.end(), spec.what->name) != cautioned.end();
      if (!said && !spec.what->caution.empty()) write_labelled(out, "caution", spec.what->caution);
      cautioned.push_back(spec.what->name);
    }
  }
  write_end(out, report);
}

}  // namespace stepcast
