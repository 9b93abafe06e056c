#pragma once
// The ranking as text: what to run and why, or a plain comparison of all plans (internal to the reports).
#include <stepcast/report/report.hpp>

#include <iosfwd>

namespace stepcast {

void write_ranking_text(std::ostream&, const RankingReport&);

}  // namespace stepcast
