// The Bayesian tuner: never worse than the start, within its range and budget, and better than an even grid.
#include "helpers/plan_cases.hpp"
#include "helpers/random_input.hpp"

#include <stepcast/prediction/bayesian.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/prediction/tuning.hpp>

#include <cmath>

using namespace stepcast;
using namespace stepcast::test;

TEST_CASE("the tuner finds the minimum of a smooth valley within its budget") {
  for (const double target : {2e6, 3e7, 2e8}) {
    int calls = 0;
    const auto valley = [&](double v) {
      ++calls;
      const double x = std::log(v / target);
      return Seconds(1 + 0.1 * x * x);
    };
    const Tuned tuned = bayesian_minimum(valley, 25e6, 1e6, 1e9);
    CAPTURE(target);
    CHECK(calls == 15);
    CHECK(tuned.trials.size() == 15);
    CHECK(std::abs(std::log(tuned.best.value / target)) < 0.2);
    for (const Trial& t : tuned.trials) CHECK((t.value >= 1e6 * 0.999 && t.value <= 1e9 * 1.001));
  }
}

TEST_CASE("the tuner is deterministic, never worse than its start, and survives values that do not apply") {
  const auto jumps = [](double v) {
    return v > 3e7 ? Seconds(HUGE_VAL) : Seconds(1 + std::sin(std::floor(std::log(v) * 3)));
  };
  const Tuned a = bayesian_minimum(jumps, 2e6, 1e6, 1e9), b = bayesian_minimum(jumps, 2e6, 1e6, 1e9);
  REQUIRE(a.trials.size() == b.trials.size());
  for (std::size_t i = 0; i < a.trials.size(); ++i) CHECK(a.trials[i].value == b.trials[i].value);
  CHECK(a.best.time <= jumps(2e6));
  CHECK(std::isfinite(a.best.time.value()));
  // A constant has nothing to find, a range of one value nothing to search.
  CHECK(bayesian_minimum([](double) { return Seconds(1); }, 5, 1, 10).best.value == 5);
  CHECK(bayesian_minimum([](double) { return Seconds(1); }, 4, 4, 4).trials.size() == 1);
}

TEST_CASE("tuning DeAR's buffer: no worse than the default, close to a dense grid") {
  Draw draw(11);
  const Strategy& dear = *strategy_named("dear");
  double regret = 0, worst = 0;
  constexpr int rounds = 40;
  for (int round = 0; round < rounds; ++round) {
    const Profile profile = random_profile(draw, {.most_layers = 40, .most_bytes = 4e7});
    const Cluster cluster =
        plain_cluster(draw.whole(2, 64), BytesPerSecond(draw.log_uniform(1e8, 1e10)), microseconds(draw.whole(1, 100)));
    const Answer<CommunicationCost> cost = communication_cost(cluster);
    REQUIRE(cost);
    Timeline scratch;
    PlanSpec spec{&dear, standard_options(dear)};
    const auto time = [&](double bucket) {
      spec.options[0] = bucket;
      return *predicted_iteration(profile, cluster, *cost, spec, scratch);
    };
    const Tuned tuned = tuned_option(dear.options[0], dear.options[0].standard, time);
    CHECK(tuned.best.time <= time(dear.options[0].standard));
    CHECK(tuned.best.time == time(tuned.best.value));
    double best = HUGE_VAL;
    for (int i = 0; i <= 400; ++i) best = std::min(best, time(std::exp2(20 + 8.0 * i / 400)).value());
    const double excess = tuned.best.time.value() / best - 1;
    regret += excess / rounds;
    worst = std::max(worst, excess);
  }
  MESSAGE("15 evaluations end " << 100 * regret << " % above the best of 401 on average, at worst " << 100 * worst
                                << " %");
  CHECK(regret < 0.01);
}

TEST_CASE("the tuner looks evenly where it is asked to, and spends its trials") {
  const auto valley = [](double v) { return Seconds(1 + std::abs(v - 100)); };
  const Tuned even = bayesian_minimum(valley, 25, 1, 256, {.evaluations = 10, .linear = true});
  REQUIRE(even.trials.size() == 10);
  CHECK(even.trials[0].value == 25);
  CHECK(even.trials[1].value == doctest::Approx(128.5));  // the middle, and then the quarters
  CHECK(even.trials[2].value == doctest::Approx(64.75));
  CHECK(even.trials[3].value == doctest::Approx(192.25));
  const Tuned by_ratio = bayesian_minimum(valley, 25, 1, 256, {.evaluations = 10});
  CHECK(by_ratio.trials[1].value == doctest::Approx(16));
}

TEST_CASE("tuning bucket and prefetch of DeAR ends within 2 % of the best of a grid of both") {
  Draw draw(12);
  const PlanSpec dear = plan_spec_of("dear");
  int most_calls = 0;
  for (int round = 0; round < 25; ++round) {
    const Profile profile = random_profile(draw, {.most_layers = 40, .most_bytes = 4e7});
    const Cluster cluster =
        plain_cluster(draw.whole(2, 64), BytesPerSecond(draw.log_uniform(1e8, 1e10)), microseconds(draw.whole(0, 50)));
    const auto time = [&](const PlanSpec& plan) { return predicted(profile, cluster, plan)->iteration; };
    int calls = 0;
    const PlanSpec best = tuned(
        [&](const PlanSpec& plan) {
          ++calls;
          return time(plan);
        },
        dear);
    most_calls = std::max(most_calls, calls);
    Seconds least(HUGE_VAL);
    for (double bucket = 0x1p20; bucket <= 0x1p28; bucket *= 2)
      for (double prefetch = 1; prefetch <= 256; prefetch *= 4) {
        PlanSpec plan = dear;
        plan.options[0] = bucket, plan.options[2] = prefetch;
        least = std::min(least, time(plan));
      }
    CAPTURE(text_of(best));
    CHECK(time(best) <= 1.02 * least);
    CHECK(time(best) <= time(dear));
  }
  // Two options, each twice, by 43 evaluations and a few for round numbers: one and a half times that.
  CHECK(most_calls <= 1.5 * 4 * 45);
}
