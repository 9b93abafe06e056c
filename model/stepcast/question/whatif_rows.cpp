#include <stepcast/base/text.hpp>
#include <stepcast/question/whatif_rows.hpp>

#include <algorithm>
#include <utility>

namespace stepcast {
namespace {

/// Samples per second against `before`; of unknown batches, steps per second. The batch of all devices stays where the
/// question shares one out.
double gain(const WhatIfRow& row, const WhatIfRow& before, Seconds step, Seconds step_before, bool batch_stays) {
  if (!(step > Seconds(0))) return 1;
  const double batch = row.profile->batch_samples, batch_before = before.profile->batch_samples;
  const double more = !batch_stays && batch > 0 && batch_before > 0 ? batch / batch_before : 1;
  return more * (step_before / step);
}

/// Said of every scenario where what is slow in the traced step is what a profiler slows: each operator of the host.
std::string profiler_in_the_way(const Profile& p) {
  if (!p.has_device() || p.described || p.without_profiler) return {};
  PassCost sum;
  for_each_cost(p, [&](const PassCost& cost) { sum += cost; });
  if (sum.host <= sum.device) return {};
  return "the host is as slow as it was traced, and it sets the pace (" + text_of(sum.host) + " to the device's " +
         text_of(sum.device) +
         "): a profiler slows it, so that a change may gain less; --step tells how long a step takes without";
}

}  // namespace

std::vector<WhatIfRow> whatif_rows(const Question& question, const std::vector<Scenario>& scenarios,
                                   const std::optional<Plan>& plan) {
  std::vector<WhatIfRow> rows;
  rows.reserve(scenarios.size() + 1);
  const bool batch_stays = question.global_batch > 0;
  const auto add = [&](const Scenario& scenario) {
    WhatIfRow& row = rows.emplace_back();
    row.scenario = scenario;
    Question changed = question;
    changed.changes = scenario;
    if (plan && !plan->layout) changed.usual_batch = 0;  // every row is of the profile's batch
    const PreparedQuestion asked(std::move(changed));
    if (!asked.profile()) {
      row.inapplicable = asked.profile().reason();
      return;
    }
    row.profile = *asked.profile();
    const Profile& traced = *rows.front().profile;
    row.changes.assign(row.profile->assumed.begin() + std::ssize(traced.assumed), row.profile->assumed.end());
    row.cautions.assign(row.profile->cautions.begin() + std::ssize(traced.cautions), row.profile->cautions.end());
    if (std::string doubt = profiler_in_the_way(traced); !scenario.empty() && !doubt.empty())
      row.changes.push_back(std::move(doubt));
    row.alone = lone_step_time(*row.profile);
    row.gain_alone = gain(row, rows.front(), row.alone, rows.front().alone, false);
    if (!plan) return;
    Answer<Prediction> prediction = asked.answer(*plan);
    if (!prediction) {
      row.inapplicable = prediction.reason();
      return;
    }
    row.distributed = std::move(*prediction);
    if (const std::optional<Prediction>& before = rows.front().distributed)
      row.gain_distributed = gain(row, rows.front(), row.distributed->iteration, before->iteration, batch_stays);
  };
  add({});
  for (const Scenario& scenario : scenarios) add(scenario);
  return rows;
}

}  // namespace stepcast
