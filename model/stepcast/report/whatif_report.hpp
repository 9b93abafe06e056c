#pragma once
// What-if report: the step before and after each scenario, alone and, with a cluster and a plan, distributed.
//
// Invariant: all rows start from the same profile and plan. A gain is the ratio of samples per second, which is that of
// step times as long as the batch stays.
//
// whatif_report.cpp computes the rows, text/whatif.cpp writes them.
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/whatif/whatif.hpp>

#include <optional>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct SelfCheck;

/// One scenario; an empty one stands for the step as traced.
struct WhatIfRow {
  Scenario scenario;
  std::optional<Profile> profile;  ///< absent when the scenario is inapplicable
  Seconds alone;                   ///< one worker without communication
  double gain_alone = 1;
  std::optional<Prediction> distributed;
  double gain_distributed = 1;
  std::string inapplicable;  ///< why there is no profile, or no prediction

  /// What the scenario assumed: the lines that it added to the profile's.
  std::vector<std::string> changes;
};

struct WhatIfReport {
  const Profile& profile;
  const Cluster* cluster = nullptr;  ///< null: alone only
  const SelfCheck& check;
  PlanSpec plan;
  std::vector<WhatIfRow> rows;  ///< the first is the step as traced
};

/// Rows for the step as traced and for each scenario. `cluster` may be null; else `plan` has to be set.
[[nodiscard]] std::vector<WhatIfRow> whatif_rows(const Profile&, const std::vector<Scenario>&,
                                                 const Profile* other_batch, const Cluster* cluster,
                                                 const PlanSpec& plan, const Feed* feed = nullptr);
/// The report as text.
void write_whatif_text(std::ostream&, const WhatIfReport&);

}  // namespace stepcast
