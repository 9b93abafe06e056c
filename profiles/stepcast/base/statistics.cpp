// Quantiles by linear interpolation.
#include <stepcast/base/statistics.hpp>

#include <algorithm>
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

}  // namespace stepcast
