// Statistics: how far off the median of values that vary may be.
#include <stepcast/base/statistics.hpp>

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace stepcast {
namespace {

TEST_CASE("statistics: fewer than two values tell nothing of their doubt, two by their distance") {
  CHECK(doubt_of_median({}) == 0);
  CHECK(doubt_of_median({3}) == 0);
  CHECK(doubt_of_median({3, 3}) == 0);
  CHECK(doubt_of_median({1, 2}) == doctest::Approx(1.5388).epsilon(1e-4));
}

TEST_CASE(
    "statistics: the median of many samples is off by more than the doubt in a tenth of all cases on either side") {
  std::mt19937 random(7);
  std::normal_distribution<double> normal(10, 2);
  int above = 0, below = 0;
  constexpr int trials = 4000;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> values(41);
    for (double& v : values) v = normal(random);
    const double off = median(values) - 10, doubt = doubt_of_median(values);
    above += off > doubt, below += -off > doubt;
  }
  CHECK(above / double(trials) == doctest::Approx(0.1).epsilon(0.25));
  CHECK(below / double(trials) == doctest::Approx(0.1).epsilon(0.25));
}

}  // namespace
}  // namespace stepcast
