#pragma once
// Cross-overs: where, along the first axis of a sweep, another plan becomes the best.
//
// Rows say between which points the best plan changes, bisection with real predictions says where. Example: up to
// 3.2 Gb/s compressed gradients, above it DDP.
#include <stepcast/sweep/sweep.hpp>

#include <span>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// Where, along the first axis, another plan becomes the best.
struct CrossOver {
  double value = 0;
  std::string below, above;      ///< plans, as asked
  std::vector<double> others{};  ///< values of the other axes there
};
/// A plan gives way at the first point at which another one is faster by more than 0.5 %; the value is where the two
/// took the same time last before it, found by bisection with a prediction at each step (to a thousandth, or to one
/// machine), not by interpolation. Where a third plan is best in between, both changes are told. With `tune`, options
/// between two points are as tuned at either of them, whichever is faster.
[[nodiscard]] std::vector<CrossOver> cross_overs_of(const SweepQuestion&, std::span<const SweepRow>);

}  // namespace stepcast
