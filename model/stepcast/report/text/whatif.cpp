// What-if report: its rows, and the text.
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

/// Samples per second against `before`; of unknown batches, steps per second.
double gain(const WhatIfRow& row, const WhatIfRow& before, Seconds step, Seconds step_before) {
  if (!(step > Seconds(0))) return 1;
  const double batch = row.profile->batch_samples, batch_before = before.profile->batch_samples;
  const double more = batch > 0 && batch_before > 0 ? batch / batch_before : 1;
  return more * (step_before / step);
}

std::string name_of_row(const WhatIfRow& row) { return row.scenario.empty() ? "as traced" : text_of(row.scenario); }

void write_subject(std::ostream& out, const WhatIfReport& report) {
  if (report.cluster != nullptr) {
    write_heading(out, report.profile, *report.cluster, report.check);
    write_labelled(out, "plan", text_of(report.plan));
    return;
  }
  write_labelled(out, "replay", replay_text(report.check));
  write_labelled(out, "model", model_text(report.profile));
  write_labelled(out, "gradients", gradients_text(report.profile));
}

std::vector<std::string> cells_of(const WhatIfReport& report, const WhatIfRow& row) {
  const bool traced = row.scenario.empty();
  std::vector<std::string> cells{name_of_row(row)};
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

std::vector<WhatIfRow> whatif_rows(const Profile& traced, const std::vector<Scenario>& scenarios,
                                   const Profile* other_batch, const Cluster* cluster, const PlanSpec& plan,
                                   const Feed* feed) {
  std::vector<WhatIfRow> rows;
  rows.reserve(scenarios.size() + 1);
  const auto add = [&](const Scenario& scenario) {
    WhatIfRow& row = rows.emplace_back();
    row.scenario = scenario;
    Answer<Profile> profile = profile_after(scenario, traced, other_batch, feed);
    if (!profile) {
      row.inapplicable = profile.reason();
      return;
    }
    row.changes.assign(profile->assumed.begin() + std::ssize(traced.assumed), profile->assumed.end());
    row.profile = std::move(*profile);
    row.alone = lone_step_time(*row.profile);
    row.gain_alone = gain(row, rows.front(), row.alone, rows.front().alone);
    if (cluster == nullptr) return;
    Answer<Prediction> prediction = predicted(*row.profile, *cluster, plan_after(scenario, plan));
    if (!prediction) {
      row.inapplicable = prediction.reason();
      return;
    }
    row.distributed = std::move(*prediction);
    if (rows.front().distributed)
      row.gain_distributed = gain(row, rows.front(), row.distributed->iteration, rows.front().distributed->iteration);
  };
  add({});
  for (const Scenario& scenario : scenarios) add(scenario);
  return rows;
}

void write_whatif_text(std::ostream& out, const WhatIfReport& report) {
  write_subject(out, report);
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
    if (several) out << name_of_row(row) << '\n';
    for (const std::string& change : row.changes) write_labelled(out, "assumed", change);
    if (!row.inapplicable.empty()) write_labelled(out, "not here", row.inapplicable);
    for (const WhatIfSpec& spec : row.scenario) {
      const bool said = std::find(cautioned.begin(), cautioned.end(), spec.what->name) != cautioned.end();
      if (!said && !spec.what->caution.empty()) write_labelled(out, "caution", spec.what->caution);
      cautioned.push_back(spec.what->name);
    }
  }
}

}  // namespace stepcast
