#pragma once
// Sweep charts: a grid of predictions as pictures, a curve for each plan, cross-overs marked.
//
// Invariant: a chart is drawn from rows alone; nothing is predicted again.
#include <stepcast/chart/chart.hpp>
#include <stepcast/sweep/cross_overs.hpp>
#include <stepcast/sweep/sweep.hpp>

#include <span>
#include <vector>

namespace stepcast {

/// One chart for each combination of the axes behind the first.
[[nodiscard]] std::vector<Chart> charts_of(const SweepQuestion&, std::span<const SweepRow>, std::span<const CrossOver>);

}  // namespace stepcast
