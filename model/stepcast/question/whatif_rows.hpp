#pragma once
// What-if rows: a question asked as it stands, and again after each of several scenarios.
//
// Example: "as traced 176.7 ms; amp 128.4 ms, 1.38x". All rows start from the same question and plan; an empty scenario
// stands for the step as traced. A gain is the ratio of samples per second, which is that of step times as long as the
// batch stays. Not modelled: scenarios on top of one another; write them as one, "batch(to=64)+amp".
#include <stepcast/question/question.hpp>

#include <optional>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

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
  /// Why just this answer is doubtful: the cautions that the scenario added to the profile's.
  std::vector<std::string> cautions{};
};

/// Rows for the step as traced and for each scenario; `question.changes` has to be empty. Without a plan the step is
/// that of one worker alone, and the cluster is not asked.
[[nodiscard]] std::vector<WhatIfRow> whatif_rows(const Question& question, const std::vector<Scenario>&,
                                                 const std::optional<Plan>& plan);

}  // namespace stepcast
