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

TEST_CASE("merging runs of layers changes no iteration time where the worker packs for its messages") {
  test::Draw draw(9);
  for (int round = 0; round < 150; ++round) {
    const Profile profile = test::random_profile(draw, {.device = draw.coin(), .packs = true});
    const Cluster cluster = test::random_cluster(draw);
    const Answer<CommunicationCost> cost = communication_cost(cluster);
    for (const Strategy& strategy : strategies()) {
      CAPTURE(strategy.name);
      const Answer<CommPlan> plan = strategy.plan({profile, cluster, *cost, standard_options(strategy), 0.5});
      if (!plan) continue;
      const Timeline merged = schedule(lowered(profile, *plan, *cost, cluster.contention));
      const Timeline full = schedule(lowered(profile, *plan, *cost, cluster.contention, {.merge = false}));
      if (!merged.steady || !full.steady) continue;
      CHECK(merged.iteration_time().value() == doctest::Approx(full.iteration_time().value()).epsilon(1e-7));
    }
  }
}

TEST_CASE("a worker pays for packing what travels together, and for each message") {
  // Computed on the host: forward 1 ms a layer, backward 2 ms a layer, update 1 ms; links that take no time.
  Profile p;
  p.model = "two layers";
  p.layers = {{"a", {milliseconds(1), {}}, {milliseconds(2), {}}}, {"b", {milliseconds(1), {}}, {milliseconds(2), {}}}};
  p.backward_order = {1, 0};
  p.optimizer.host = milliseconds(1);
  p.tensors = {{.name = "b", .shape = {}, .dtype = DataType::f32, .size = mebibytes(2), .layer = 1},
               {.name = "a", .shape = {}, .dtype = DataType::f32, .size = mebibytes(2), .layer = 0}};
  p.tensors[0].packing.host = microseconds(100), p.tensors[1].packing.host = microseconds(200);
  p.communication = {{microseconds(10), {}}, {microseconds(40), {}}, microseconds(1000)};
  Cluster two;
  two.nodes = 2;
  two.inside = two.network = {Seconds(0), BytesPerSecond(1e18)};
  const auto step = [&](std::string_view plan, const Cluster& cluster) {
    const Answer<Prediction> prediction = predicted(p, cluster, plan_spec_of(plan));
    REQUIRE(prediction);
    return std::llround(prediction->iteration.value() * 1e6);
  };
  constexpr long long compute = 7000, before = 10, after = 40;
  // One bucket; two buckets of a tensor each, which are copied as well; a message for each tensor where it lies.
  CHECK(step("bsp", two) == compute + before + 300 + 1000 + after);
  CHECK(step("ddp", two) == compute + before + 300 + 2000 + after);
  CHECK(step("wfbp", two) == compute + before + 300 + 2000);
  CHECK(step("ddp+accumulate(steps=2)", two) ==
        (2 * compute - 1000 + 2 * before + 300 + 2000 + after) / 2);  // only the second step sends and updates
  Cluster one;
  CHECK(step("ddp", one) == compute);
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
