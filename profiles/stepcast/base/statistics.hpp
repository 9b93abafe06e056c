#pragma once
// Order statistics of samples, and which differences matter (internal to the library).
#include <utility>
#include <vector>

namespace stepcast {

/// Quantile q of the values by linear interpolation between order statistics; 0 for none.
[[nodiscard]] double quantile(std::vector<double> values, double q);
[[nodiscard]] inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }
/// The value that a normally distributed error exceeds with a probability of 10 %, in standard deviations.
inline constexpr double normal_p90 = 1.2815515655446004;
inline constexpr double normal_p99 = 2.3263478740408408;

/// By how much the median of values may be off because they vary (80 %, one side), as if they varied normally: of three
/// or more from their quartiles, of two from their distance (Student's t of one degree of freedom); 0 for fewer, which
/// tell nothing of it.
[[nodiscard]] double doubt_of_median(const std::vector<double>& values);

/// Step times that differ by less than this share are equal: steps of one run vary by more, so that nobody would notice
/// the gain, and a plan that is simpler to run is worth it.
inline constexpr double indifference = 0.005;

}  // namespace stepcast
