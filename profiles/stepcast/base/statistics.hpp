#pragma once
// Order statistics of samples (internal to the library).
#include <utility>
#include <vector>

namespace stepcast {

/// Quantile q of the values by linear interpolation between order statistics; 0 for none.
[[nodiscard]] double quantile(std::vector<double> values, double q);
[[nodiscard]] inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }
/// The value that a normally distributed error exceeds with a probability of 10 %, in standard deviations.
inline constexpr double normal_p90 = 1.2815515655446004;

}  // namespace stepcast
