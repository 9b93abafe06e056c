#pragma once
// Straggler: for which rank the others wait, in which steps, and why (internal; see ranks.hpp).
#include <stepcast/ranks/ranks.hpp>

#include <optional>
#include <span>

namespace stepcast {

/// Lateness is part of every run. A straggler costs more than a per cent of it, and half as much again as any other.
inline constexpr double worth_telling_share = 0.01, stands_out = 1.5;
/// From the first start to the last end of what was matched.
[[nodiscard]] Seconds span_of(const RunOfRanks&);
/// Fills in transfer, waiting, lateness and the number of collectives without a partner of every rank.
void add_times(RunOfRanks&);
/// Requires at least two ranks and their times.
[[nodiscard]] std::optional<Straggler> straggler_of(std::span<const Trace>, const RunOfRanks&);

}  // namespace stepcast
