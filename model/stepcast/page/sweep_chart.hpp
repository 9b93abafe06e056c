#pragma once
// Sweep charts: a grid of predictions as pictures, a curve for each plan, cross-overs marked.
//
// Invariant: a chart is drawn from rows alone; nothing is predicted again.
#include <stepcast/page/chart.hpp>
#include <stepcast/sweep/sweep.hpp>

#include <span>
#include <vector>

namespace stepcast {

/// The charts that `write_sweep_svg` draws, one for each combination of the axes behind the first.
[[nodiscard]] std::vector<Chart> charts_of(const SweepQuestion&, std::span<const SweepRow>, std::span<const CrossOver>);

}  // namespace stepcast
