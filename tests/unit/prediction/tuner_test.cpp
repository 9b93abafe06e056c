// The Bayesian tuner: never worse than the start, within its range and budget, and better than an even grid.
#include "helpers/plan_cases.hpp"
#include "helpers/random_input.hpp"

#include <stepcast/prediction/bayesian.hpp>

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
