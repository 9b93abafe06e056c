// Matching of two ranks' collectives: pairs against brute force, clocks under offsets, losses and drift.
#include <stepcast/ranks/matching.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

namespace stepcast {
namespace {

using Random = std::mt19937;

std::int64_t between(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

std::vector<Arrival> random_arrivals(Random& random, int count) {
  std::vector<Arrival> out;
  for (int i = 0; i < count; ++i) {
    const std::int64_t end = between(random, 0, 3'000'000);
    out.push_back({end - between(random, 0, 400'000), end, std::uint32_t(i)});
  }
  std::ranges::sort(out, {}, &Arrival::end_ns);
  return out;
}

bool allowed(const Arrival& a, const Arrival& b, bool synchronising, std::int64_t slack) {
  return !synchronising || (a.end_ns >= b.start_ns - slack && b.end_ns >= a.start_ns - slack);
}

/// Every crossing-free set of pairs, tried one by one.
double best_reward(const std::vector<Arrival>& a, const std::vector<Arrival>& b, std::size_t i, std::size_t j,
                   bool synchronising, std::int64_t slack) {
  if (i == a.size() || j == b.size()) return 0;
  double best =
      std::max(best_reward(a, b, i + 1, j, synchronising, slack), best_reward(a, b, i, j + 1, synchronising, slack));
  if (allowed(a[i], b[j], synchronising, slack))
    best = std::max(best, reward_of(b[j].end_ns - a[i].end_ns) + best_reward(a, b, i + 1, j + 1, synchronising, slack));
  return best;
}

TEST_CASE("rewards fall with the distance of the ends and never vanish") {
  CHECK(reward_of(0) == 1);
  CHECK(reward_of(-5'000) == 1);
  CHECK(reward_of(1'000'000) == doctest::Approx(0.5));
  double before = 1;
  for (std::int64_t distance = 1; distance < 10'000'000'000; distance *= 3) {
    CHECK(reward_of(distance) <= before);
    CHECK(reward_of(distance) == reward_of(-distance));
    CHECK(reward_of(distance) > 0);
    before = reward_of(distance);
  }
}

TEST_CASE("pairs are the best crossing-free set that brute force finds") {
  Random random(7);
  for (int round = 0; round < 500; ++round) {
    const std::vector<Arrival> a = random_arrivals(random, int(between(random, 0, 6)));
    const std::vector<Arrival> b = random_arrivals(random, int(between(random, 0, 4)));
    const bool synchronising = between(random, 0, 1) == 1;
    const std::int64_t slack = between(random, 0, 1'000'000);
    const std::vector<Pair> pairs = best_pairs(a, b, synchronising, slack);
    double reward = 0;
    for (std::size_t k = 0; k < pairs.size(); ++k) {
      CHECK(allowed(a[pairs[k].a], b[pairs[k].b], synchronising, slack));
      if (k > 0) CHECK((pairs[k - 1].a < pairs[k].a && pairs[k - 1].b < pairs[k].b));
      reward += reward_of(b[pairs[k].b].end_ns - a[pairs[k].a].end_ns);
    }
    CHECK(reward == doctest::Approx(best_reward(a, b, 0, 0, synchronising, slack)));
  }
}

/// Two ranks of a run whose collectives have `keys` kinds in turn; `truth` numbers them.
struct TwoRanks {
  Arrivals a, b;
  std::vector<std::uint32_t> truth_a, truth_b;  ///< by arrival's event
};

Arrivals by_key(const std::vector<std::vector<Arrival>>& lists) {
  Arrivals out;
  out.begin.push_back(0);
  for (const auto& list : lists) {
    out.list.insert(out.list.end(), list.begin(), list.end());
    out.begin.push_back(std::uint32_t(out.list.size()));
  }
  return out;
}

/// `count` collectives about a millisecond apart; b's clock is ahead by offset + drift, and records are lost: of a the
/// first few, of b the last few, and of both one in `losses`.
TwoRanks two_ranks(Random& random, int count, std::size_t keys, std::int64_t offset, double drift, int losses) {
  TwoRanks out;
  std::vector<std::vector<Arrival>> a(keys), b(keys);
  std::int64_t end = 0;
  const auto lost = [&] { return losses > 0 && between(random, 1, losses) == 1; };
  for (int i = 0; i < count; ++i) {
    const std::int64_t duration = between(random, 20'000, 200'000);
    end += duration + between(random, 10'000, 2'000'000);
    const auto end_of = [&] { return end + between(random, -2'000, 2'000); };
    if (!lost() && (losses == 0 || i > 4)) {
      const std::int64_t e = end_of();
      a[std::size_t(i) % keys].push_back({e - duration, e, std::uint32_t(out.truth_a.size())});
      out.truth_a.push_back(std::uint32_t(i));
    }
    if (!lost() && (losses == 0 || i < count - 3)) {
      const std::int64_t e = end_of() + offset + std::int64_t(drift * double(end));
      b[std::size_t(i) % keys].push_back({e - duration / 2, e, std::uint32_t(out.truth_b.size())});
      out.truth_b.push_back(std::uint32_t(i));
    }
  }
  out.a = by_key(a);
  out.b = by_key(b);
  return out;
}

TEST_CASE("a clock is found however far off it is, with records lost on both sides") {
  Random random(11);
  for (const std::int64_t offset : {std::int64_t{0}, std::int64_t{-37'000}, std::int64_t{5'000'000},
                                    std::int64_t{-3'600'000'000'000}, std::int64_t{1'700'000'000'000'000'000}})
    for (const int count : {2, 10, 60, 1000})
      for (const int losses : {0, 12}) {
        CAPTURE(offset);
        CAPTURE(count);
        CAPTURE(losses);
        if (losses > 0 && count < 30) continue;
        const std::size_t keys = 3;
        const TwoRanks ranks = two_ranks(random, count, keys, offset, 0, losses);
        const std::vector<bool> synchronising(keys, true);
        const RankClock clock = clock_of(ranks.a, ranks.b, synchronising, {});
        CHECK(std::abs(clock.offset_ns - offset) < 4'000);
        CHECK(clock.residual < microseconds(4));
        const Arrivals moved = on_clock(clock, ranks.b);
        std::size_t right = 0;
        for (std::size_t key = 0; key < keys; ++key)
          for (const Pair& pair : best_pairs(ranks.a.of(key), moved.of(key), true, 100'000)) {
            const std::uint32_t x = ranks.truth_a[ranks.a.of(key)[pair.a].event];
            const std::uint32_t y = ranks.truth_b[moved.of(key)[pair.b].event];
            CHECK(x == y);
            right += x == y;
          }
        std::size_t possible = 0;
        for (const std::uint32_t x : ranks.truth_a) possible += std::size_t(std::ranges::count(ranks.truth_b, x));
        CHECK(right == possible);
      }
}

TEST_CASE("a clock that runs fast: the drift is found and taken out") {
  Random random(3);
  const TwoRanks ranks = two_ranks(random, 2000, 2, 40'000'000, 60e-6, 0);
  const RankClock clock = clock_of(ranks.a, ranks.b, {true, true}, {});
  CHECK(clock.drift == doctest::Approx(60e-6).epsilon(0.02));
  CHECK(clock.residual < microseconds(5));
  for (const std::int64_t time : {std::int64_t{0}, std::int64_t{1'000'000'007}, std::int64_t{-5}})
    CHECK(std::abs(clock.recorded(clock.common(time)) - time) <= 2);
}

TEST_CASE("steps that repeat exactly: the numbers of the steps decide") {
  std::vector<Arrival> a, b;
  constexpr std::int64_t step = 10'000'000;
  for (int i = 0; i < 8; ++i) a.push_back({i * step, i * step + 100'000, std::uint32_t(i)});
  for (int i = 2; i < 10; ++i) b.push_back({i * step, i * step + 100'000, std::uint32_t(i)});
  const RankClock clock = clock_of(by_key({a}), by_key({b}), {true}, {.near_ns = 0, .within_ns = step / 2});
  CHECK(clock.offset_ns == 0);
  CHECK(clock.matches == 6);
}

TEST_CASE("nothing in common: no clock") {
  CHECK(clock_of(by_key({{}, {{0, 10, 0}}}), by_key({{{0, 10, 0}}, {}}), {true, true}, {}).matches == 0);
}

}  // namespace
}  // namespace stepcast
