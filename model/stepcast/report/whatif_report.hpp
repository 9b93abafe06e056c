#pragma once
// What-if report: the step before and after each scenario, alone and, with a cluster and a plan, distributed.
//
// Invariant: all rows start from the same profile and plan (whatif_rows.hpp); text and JSON are made from this value
// (text/whatif.cpp writes the text).
#include <stepcast/question/whatif_rows.hpp>

#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct SelfCheck;

struct WhatIfReport {
  const Profile& profile;
  const Cluster* cluster = nullptr;  ///< null: alone only
  const SelfCheck& check;
  Plan plan;
  std::vector<WhatIfRow> rows;  ///< the first is the step as traced
};

/// The report as text.
void write_whatif_text(std::ostream&, const WhatIfReport&);

}  // namespace stepcast
