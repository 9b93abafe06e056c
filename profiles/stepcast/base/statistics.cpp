// Quantiles by linear interpolation.
#include <stepcast/base/statistics.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace stepcast {

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = values.begin() + static_cast<std::ptrdiff_t>(at);
  std::nth_element(values.begin(), below, values.end());
  if (below + 1 == values.end()) return *below;
  const double above = *std::min_element(below + 1, values.end());
  return *below + (at - static_cast<double>(below - values.begin())) * (above - *below);
}

double doubt_of_median(const std::vector<double>& values) {
  constexpr double student_p90 = 3.0776835371752527;  // of one degree of freedom
  constexpr double of_quartiles = 1 / 1.349;          // standard deviation over interquartile range
  constexpr double of_median = 1.2533;                // standard error of a median over that of a mean
  if (values.size() < 2) return 0;
  if (values.size() == 2) return student_p90 * std::abs(values[0] - values[1]) / 2;
  const double range = quantile(values, 0.75) - quantile(values, 0.25);
  return normal_p90 * of_median * of_quartiles * range / std::sqrt(static_cast<double>(values.size()));
}

}  // namespace stepcast
