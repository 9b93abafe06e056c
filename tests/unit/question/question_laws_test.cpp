// Laws over questions as users ask them: a thousand random tables on random clusters, each under a random strategy and
// as a recommendation. Every law compares an answer with another one that must follow from it.
#include "helpers/random_input.hpp"
#include "helpers/random_plan.hpp"

#include <stepcast/prediction/recommend.hpp>
#include <stepcast/question/question.hpp>
#include <stepcast/sweep/sweep.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace stepcast {
namespace {

using test::Draw;

constexpr int rounds = 1000;
constexpr double tolerance = 1e-9;  // rounding to picoseconds

/// A table on a cluster, and a strategy with random options.
struct Case {
  Profile profile;
  Cluster cluster;
  Plan plan;
};

template <class Check>
void for_random_questions(unsigned seed, const Check& check) {
  Draw draw(seed);
  for (int round = 0; round < rounds; ++round) {
    const Profile profile = test::random_profile(draw, {.device = draw.coin()});
    const Cluster cluster = test::random_cluster(draw);
    const Strategy& strategy = test::any_of(draw, strategies());
    const Case c{profile, cluster, PlanSpec{&strategy, test::random_options(draw, strategy.options)}};
    CAPTURE(round);
    CAPTURE(text_of(c.plan));
    check(c);
  }
}

Answer<Prediction> answer(const Profile& profile, const Cluster& cluster, const Plan& plan) {
  return PreparedQuestion({.profile = profile, .cluster = cluster}).answer(plan);
}

/// The same step in every respect that an answer shows.
void check_same(const Answer<Prediction>& a, const Answer<Prediction>& b) {
  REQUIRE(bool(a) == bool(b));
  if (!a) return;
  CHECK(a->iteration == b->iteration);
  CHECK(a->breakdown.compute == b->breakdown.compute);
  CHECK(a->breakdown.exposed_communication == b->breakdown.exposed_communication);
  CHECK(a->memory == b->memory);
  CHECK(a->messages == b->messages);
}

/// True where the strategy has a clock or a memory of its own, which does not scale with the job.
bool keeps_time(const Strategy& strategy) {
  return std::ranges::any_of(strategy.options,
                             [](const OptionSpec& o) { return o.kind == OptionKind::duration || o.name == "memory"; });
}

/// What host or device has to do in a step, whichever has more: no order of passes and updates takes less.
Seconds busiest(const Profile& p) {
  Seconds host = p.optimizer.host + p.other.host, device = p.optimizer.device + p.other.device;
  for (const Layer& layer : p.layers) {
    host += layer.forward.host + layer.backward.host;
    device += layer.forward.device + layer.backward.device;
  }
  return std::max(host, device);
}

Seconds best_at_hand(const Ranking& ranking) {
  Seconds best = ranking.exact.front().prediction.iteration;
  for (const RankedPlan& plan : ranking.exact)
    if (plan.is_at_hand()) best = std::min(best, plan.prediction.iteration);
  return best;
}

}  // namespace

TEST_CASE("law: more bandwidth or less latency slows neither the recommended plan nor the fastest one") {
  Draw draw(41);
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const Profile profile = test::random_profile(draw, {.device = draw.coin()});
    const Cluster cluster = test::random_cluster(draw);
    Cluster faster = cluster, sooner = cluster;
    faster.network.bandwidth *= 1.5, faster.inside.bandwidth *= 1.5;
    sooner.network.latency *= 0.5, sooner.inside.latency *= 0.5, sooner.message_overhead *= 0.5;
    const RecommendOptions quick{.tune = false, .sensitivity = false};
    const Ranking now = recommended(profile, cluster, quick);
    const Prediction& first = now.exact.front().prediction;
    CAPTURE(text_of(first.plan));
    for (const Cluster& better : {faster, sooner}) {
      const Answer<Prediction> then = answer(profile, better, first.plan);
      REQUIRE(then);
      CHECK(then->iteration <= first.iteration * (1 + tolerance));
      CHECK(best_at_hand(recommended(profile, better, quick)) <= best_at_hand(now) * (1 + tolerance));
    }
  }
}

TEST_CASE("law: a step takes at least its compute and at most compute and communication one after the other") {
  for_random_questions(42, [](const Case& c) {
    const Answer<Prediction> p = answer(c.profile, c.cluster, c.plan);
    if (!p) return;
    const Breakdown& b = p->breakdown;
    // Delayed updates take the optimizer's step out of the worker's.
    if (fidelity_of(c.plan.strategy) == Fidelity::exact) CHECK(p->iteration >= busiest(c.profile) * (1 - tolerance));
    CHECK((b.compute + b.exposed_communication + b.codec + b.input_stall + b.bubble + b.idle).value() ==
          doctest::Approx(p->iteration.value()).epsilon(1e-6));
    CHECK(p->iteration <= (b.compute + b.exposed_communication + b.hidden_communication + b.codec + b.idle) * 1.000001);
    CHECK(p->interval_low <= p->iteration);
    CHECK(p->interval_high >= p->iteration);
  });
}

TEST_CASE("law: a job of twice the times on a network of half the speed takes twice the step") {
  for_random_questions(43, [](const Case& c) {
    if (keeps_time(*c.plan.strategy.strategy)) return;
    const Answer<Prediction> p = answer(c.profile, c.cluster, c.plan);
    if (!p) return;
    Profile slow = c.profile;
    for (Layer& layer : slow.layers)
      for (PassCost* pass : {&layer.forward, &layer.backward}) pass->host *= 2, pass->device *= 2;
    for (PassCost* pass : {&slow.optimizer, &slow.other}) pass->host *= 2, pass->device *= 2;
    for (Seconds& step : slow.step_times) step *= 2;
    Cluster network = c.cluster;
    for (Link* link : {&network.network, &network.inside}) link->latency *= 2, link->bandwidth *= 0.5;
    network.message_overhead *= 2;
    const Answer<Prediction> twice = answer(slow, network, c.plan);
    REQUIRE(twice);
    CHECK(twice->iteration.value() == doctest::Approx(2 * p->iteration.value()).epsilon(1e-6));
  });
}

TEST_CASE("law: names of layers and tensors, and of model and cluster, change nothing") {
  for_random_questions(44, [](const Case& c) {
    Profile renamed = c.profile;
    renamed.model = "another";
    for (std::size_t i = 0; i < renamed.layers.size(); ++i) renamed.layers[i].name = "x" + std::to_string(97 - int(i));
    for (Tensor& tensor : renamed.tensors) tensor.name = "w." + tensor.name;
    Cluster other = c.cluster;
    other.name = "elsewhere";
    check_same(answer(c.profile, c.cluster, c.plan), answer(renamed, other, c.plan));
  });
}

TEST_CASE("law: a layer that takes no time and has no parameters changes nothing") {
  for_random_questions(45, [](const Case& c) {
    Profile longer = c.profile;
    longer.layers.push_back({"nothing", {}, {}});
    longer.backward_order.insert(longer.backward_order.begin(), static_cast<std::uint32_t>(longer.layers.size() - 1));
    const Answer<Prediction> a = answer(c.profile, c.cluster, c.plan), b = answer(longer, c.cluster, c.plan);
    REQUIRE(bool(a) == bool(b));
    if (a) CHECK(b->iteration.value() == doctest::Approx(a->iteration.value()).epsilon(1e-9));
  });
}

TEST_CASE("law: a sweep's row is the answer to the question at its point") {
  for_random_questions(46, [](const Case& c) {
    SweepQuestion sweep;
    sweep.profile = c.profile;
    sweep.cluster = c.cluster;
    sweep.plans = {c.plan};
    sweep.axes = {sweep_axis_of("bandwidth=1Gb/s,20Gb/s", sweep.plans)};
    const std::vector<SweepRow> rows = swept(sweep, {.threads = 1});
    REQUIRE(rows.size() == 2);
    for (const SweepRow& row : rows) {
      Cluster there = c.cluster;
      (there.nodes > 1 ? there.network : there.inside).bandwidth = BytesPerSecond(row.values[0]);
      const Answer<Prediction> alone = answer(c.profile, there, c.plan);
      REQUIRE(bool(alone) == row.prediction.has_value());
      if (alone) CHECK(alone->iteration == row.prediction->iteration);
    }
  });
}

TEST_CASE("law: a worker that starts late costs its lateness where nothing is hidden") {
  Draw draw(47);
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const Profile profile = test::random_profile(draw, {.device = draw.coin()});
    Cluster cluster = test::random_cluster(draw);
    if (cluster.workers() == 1) continue;
    const Plan plan = plan_of("bsp");
    const Answer<Prediction> before = answer(profile, cluster, plan);
    const Seconds late = microseconds(draw.whole(1, 20000));
    cluster.stragglers.slow.push_back({.workers = 1, .delay = late});
    const Answer<Prediction> after = answer(profile, cluster, plan);
    REQUIRE(before);
    REQUIRE(after);
    CHECK(after->iteration.value() == doctest::Approx((before->iteration + late).value()).epsilon(1e-6));
  }
}

}  // namespace stepcast
