#pragma once
// Stage division: which run of units each stage of a pipeline works on.
//
// Of all ways to cut the sequence of units into as many non-empty runs, the one whose longest run is shortest, and
// among those the most even one (least sum of squares), by dynamic programming over the few run lengths that stay
// within that longest run. Exact. Not modelled: what a stage holds in memory.
#include <stepcast/base/units.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace stepcast {

/// First unit of each run, and the number of units at the end. Requires 1 <= stages <= time.size(), times >= 0.
[[nodiscard]] std::vector<std::uint32_t> stage_division(std::span<const Seconds> time, std::uint32_t stages);

}  // namespace stepcast
