// Stretches of time: each moment counts once, in whatever order they come.
#include <stepcast/base/stretches.hpp>

#include <doctest/doctest.h>

#include <bitset>
#include <random>

using namespace stepcast;

TEST_CASE("stretches: length and what two have in common, against moments counted one by one") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Stretches a, b;
    std::bitset<64> in_a, in_b;
    for (int i = 0; i < round % 12; ++i) {
      const auto from = static_cast<std::int64_t>(random() % 60),
                 to = from + static_cast<std::int64_t>(random() % 5) - 1;
      (i % 2 == 0 ? a : b).add(from, to);
      for (std::int64_t t = from; t < to; ++t) (i % 2 == 0 ? in_a : in_b).set(static_cast<std::size_t>(t));
    }
    CHECK(a.length() == static_cast<std::int64_t>(in_a.count()));
    CHECK(b.length() == static_cast<std::int64_t>(in_b.count()));
    CHECK(a.shared_with(b) == static_cast<std::int64_t>((in_a & in_b).count()));
  }
}
