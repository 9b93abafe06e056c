#pragma once
// Sweep picture: a sweep as one SVG, a panel for each value of the axes behind the first (sweep_chart.hpp).
#include <stepcast/sweep/sweep.hpp>

#include <cstddef>
#include <iosfwd>
#include <span>

namespace [[gnu::visibility("default")]] stepcast {

/// Step times against the first axis, a curve for each plan, a panel for each value of the other axes: one SVG
/// (chart.hpp). `rows`: all of the grid. Throws InputError for more than `most_sweep_panels` panels.
void write_sweep_svg(std::ostream&, const SweepQuestion&, std::span<const SweepRow>);
inline constexpr std::size_t most_sweep_panels = 12;
/// Throws that InputError: for those who want to know before the rows are there.
void check_panels(const SweepQuestion&);

}  // namespace stepcast
