// Sharded passes: the laws of ZeRO's and FSDP's gathers under compute.
#include <stepcast/parallelism/sharded_pass.hpp>

#include <doctest/doctest.h>

#include <random>
#include <vector>

using namespace stepcast;
using doctest::Approx;

namespace {

std::vector<ShardedUnit> random_units(std::mt19937_64& random, std::size_t count) {
  std::uniform_real_distribution<double> time(0, 1);
  std::vector<ShardedUnit> units(count);
  for (ShardedUnit& u : units) u = {Seconds(time(random)), Seconds(time(random)), Seconds(time(random))};
  return units;
}

}  // namespace

TEST_CASE("Without prefetch everything follows one another") {
  std::mt19937_64 random(1);
  for (std::size_t n = 1; n <= 8; ++n) {
    const auto units = random_units(random, n);
    Seconds sum;
    for (const ShardedUnit& u : units) sum += u.gather + u.compute + u.reduce;
    CHECK(sharded_pass(units, 1).value() == Approx(sum.value()));
  }
}

TEST_CASE("A single unit gathers all, computes, reduces") {
  const ShardedUnit unit{Seconds(2), Seconds(3), Seconds(5)};
  for (const int in_flight : {1, 2, 7}) CHECK(sharded_pass({&unit, 1}, in_flight).value() == Approx(10));
}

TEST_CASE("A pass takes at least its compute and at least its transfers, and prefetch never costs the most") {
  std::mt19937_64 random(2);
  for (int i = 0; i < 500; ++i) {
    const auto units = random_units(random, 1 + static_cast<std::size_t>(i % 12));
    Seconds compute, net;
    for (const ShardedUnit& u : units) {
      compute += u.compute;
      net += u.gather + u.reduce;
    }
    for (const int in_flight : {1, 2, 3, 100}) {
      const double time = sharded_pass(units, in_flight).value();
      CHECK(time >= Approx(std::max(compute, net).value()));
      CHECK(time <= Approx((compute + net).value()));
    }
  }
}

TEST_CASE("Transfers slow the compute beside them by their share, and never by more") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 500; ++i) {
    const auto units = random_units(random, 1 + static_cast<std::size_t>(i % 12));
    Seconds compute, net;
    for (const ShardedUnit& u : units) compute += u.compute, net += u.gather + u.reduce;
    const double slowed = 1 + 0.5 * (1 + i % 4);
    for (const int in_flight : {1, 2, 3, 100}) {
      const double alone = sharded_pass(units, in_flight).value();
      const double time = sharded_pass(units, in_flight, slowed).value();
      CHECK(time >= Approx(alone));
      CHECK(time <= Approx(alone + net.value() * (1 - 1 / slowed)));
      CHECK(time <= Approx((compute + net).value()));  // waiting is never better
    }
  }
  // Two units, the second's gather of 1 under the first's compute of 4: it takes 4.2 where it is slowed by 1.25.
  const std::vector<ShardedUnit> units{{Seconds(0), Seconds(4), Seconds(0)}, {Seconds(1), Seconds(4), Seconds(0)}};
  CHECK(sharded_pass(units, 2, 1.25).value() == Approx(8.2));
  CHECK(compute_beside(Seconds(4), Seconds(100), 1.25) == Seconds(5));
  CHECK(compute_beside(Seconds(4), Seconds(0), 1.25) == Seconds(4));
}

TEST_CASE("A gather runs under the unit before it, as far as there is room") {
  // Four equal units, gathers as long as compute: the first one is seen, the others hide.
  const std::vector<ShardedUnit> units(4, {Seconds(1), Seconds(1), Seconds(0)});
  CHECK(sharded_pass(units, 1).value() == Approx(8));
  CHECK(sharded_pass(units, 2).value() == Approx(5));
  // Gathers of nothing are no transfers: stages 1 and 2 only reduce, the last reduction is seen.
  const std::vector<ShardedUnit> reduced(4, {Seconds(0), Seconds(1), Seconds(0.5)});
  CHECK(sharded_pass(reduced, 1).value() == Approx(4.5));
  CHECK(sharded_pass({}, 2) == Seconds(0));
}
