#include "helpers/random_input.hpp"

#include <stepcast/plan/strategy.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/schedule/critical_cycle.hpp>
#include <stepcast/schedule/lower.hpp>
#include <stepcast/schedule/schedule.hpp>

#include <doctest/doctest.h>

using namespace stepcast;

namespace {

// Calls check(strategy, profile, cluster, cost, plan) for every strategy on seeded random inputs.
template <class Check>
void for_random_plans(unsigned seed, int rounds, const Check& check) {
  test::Draw draw(seed);
  for (int round = 0; round < rounds; ++round) {
    const Profile profile = test::random_profile(draw, {.device = draw.coin()});
    const Cluster cluster = test::random_cluster(draw);
    const Answer<CommunicationCost> cost = communication_cost(cluster);
    REQUIRE(cost);
    for (const Strategy& strategy : strategies()) {
      const Answer<CommPlan> plan = strategy.plan({profile, cluster, *cost, standard_options(strategy), 0.5});
      if (plan) check(strategy, profile, cluster, *cost, *plan);
    }
  }
}

}  // namespace

TEST_CASE("merging runs of layers changes no iteration time") {
  for_random_plans(
      1, 150,
      [](const Strategy& s, const Profile& p, const Cluster& c, const CommunicationCost& cost, const CommPlan& plan) {
        CAPTURE(s.name);
        const Timeline merged = schedule(lowered(p, plan, cost, c.contention));
        const Timeline full = schedule(lowered(p, plan, cost, c.contention, {.merge = false}));
        if (!merged.steady || !full.steady) return;
        CHECK(merged.iteration_time().value() == doctest::Approx(full.iteration_time().value()).epsilon(1e-7));
      });
}

TEST_CASE("one iteration of a plan with a full barrier tells all") {
  for_random_plans(
      2, 60,
      [](const Strategy& s, const Profile& p, const Cluster& c, const CommunicationCost& cost, const CommPlan& plan) {
        CAPTURE(s.name);
        TaskGraph graph = lowered(p, plan, cost, c.contention);
        if (!graph.barrier) return;
        const Picoseconds once = schedule(graph).period;
        graph.barrier = false;
        CHECK(schedule(graph).period == once);
      });
}

TEST_CASE("the steady state of every strategy is the maximum cycle ratio of its graph") {
  int compared = 0, all = 0;
  for_random_plans(
      3, 150,
      [&](const Strategy& s, const Profile& p, const Cluster&, const CommunicationCost& cost, const CommPlan& plan) {
        CAPTURE(s.name);
        const TaskGraph graph = lowered(p, plan, cost, {});
        const Timeline timeline = schedule(graph, {.least_iterations = 6});
        ++all;
        if (!timeline.steady || timeline.period_iterations != 1 || !has_critical_cycle(graph)) return;
        ++compared;
        CHECK(critical_cycle_of(graph, timeline).period.value() ==
              doctest::Approx(timeline.iteration_time().value()).epsilon(1e-6));
      });
  MESSAGE(compared << " of " << all << " random plans settle into a period of one iteration");
  CHECK(compared * 10 >= all * 9);
}

TEST_CASE("the breakdown partitions the iteration") {
  test::Draw draw(4);
  for (int round = 0; round < 40; ++round) {
    const Profile profile = test::random_profile(draw, {.device = draw.coin()});
    Cluster cluster = test::random_cluster(draw);
    if (draw.coin()) cluster.contention = {1.3, 1.2, 2, 1.1};
    for (const Strategy& strategy : strategies()) {
      const Answer<Prediction> p = predicted(profile, cluster, {&strategy, standard_options(strategy)});
      if (!p || !p->steady) continue;
      CAPTURE(strategy.name);
      const Breakdown& b = p->breakdown;
      const Seconds sum = b.compute + b.exposed_communication + b.codec + b.input_stall + b.bubble + b.idle;
      CHECK(sum.value() == doctest::Approx(p->iteration.value()).epsilon(1e-6));
      for (const Seconds part :
           {b.compute, b.exposed_communication, b.hidden_communication, b.codec, b.input_stall, b.idle})
        CHECK(part.value() >= -1e-9);
      CHECK(p->interval_low <= p->iteration);
      CHECK(p->iteration <= p->interval_high);
      CHECK(!p->critical_path.empty());
      CHECK(!p->bound.empty());
    }
  }
}
