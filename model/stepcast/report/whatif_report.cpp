// Each scenario is made to the same profile, and predicted alone and distributed.
#include <stepcast/report/whatif_report.hpp>

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

}  // namespace stepcast
