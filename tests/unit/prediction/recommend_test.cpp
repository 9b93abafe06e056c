#include "helpers/plan_cases.hpp"
#include "helpers/random_input.hpp"

#include <stepcast/prediction/recommend.hpp>

#include <doctest/doctest.h>

#include <algorithm>

using namespace stepcast;

namespace {

// A profile whose gradients take about as long to send over 10 Gb/s as the backward pass takes.
Profile balanced_profile() {
  Profile p;
  p.model = "balanced";
  p.provenance = "made for the test";
  for (std::uint32_t l = 0; l < 40; ++l) {
    p.layers.push_back({"layer" + std::to_string(l), {}, {}});
    p.layers[l].forward.host = milliseconds(1.25);
    p.layers[l].backward.host = milliseconds(2.5);
  }
  for (std::uint32_t l = 40; l-- > 0;) {
    p.backward_order.push_back(l);
    p.tensors.push_back({"w" + std::to_string(l), {640000}, DataType::f32, Bytes(2560000), l});
  }
  p.optimizer.host = milliseconds(2);
  p.step_times = {milliseconds(152), milliseconds(152), milliseconds(152)};
  return checked(p, "test");
}

}  // namespace

TEST_CASE("a ranking is sorted, tuned plans are never worse than their defaults, the baseline is DDP") {
  test::Draw draw(5);
  for (int round = 0; round < 6; ++round) {
    const Profile profile = round == 0 ? balanced_profile() : test::random_profile(draw, {.device = draw.coin()});
    const Cluster cluster = round == 0 ? cluster_of_flags(16, 4, "10GbE") : test::random_cluster(draw);
    const Ranking ranking = recommended(profile, cluster, {.allow_stale = true});
    REQUIRE(!ranking.exact.empty());
    // Sorted, but for the first, which may be up to half a per cent slower than the second if it needs less.
    CHECK(std::is_sorted(ranking.exact.begin() + 1, ranking.exact.end(), [](const RankedPlan& a, const RankedPlan& b) {
      return a.prediction.iteration < b.prediction.iteration;
    }));
    const RankedPlan& first = ranking.exact.front();
    for (const RankedPlan& p : ranking.exact) {
      CHECK(first.prediction.iteration <= p.prediction.iteration * 1.005000001);
      const bool as_good = p.prediction.iteration <= first.prediction.iteration;
      if (as_good) CHECK(first.machines <= p.machines);
    }
    for (const RankedPlan& p : ranking.exact) {
      CAPTURE(text_of(p.prediction.plan));
      CHECK(p.prediction.iteration <= p.standard.iteration);
      CHECK(p.speed_up == doctest::Approx(ranking.baseline.iteration / p.prediction.iteration));
      CHECK(p.prediction.plan.strategy->fidelity == Fidelity::exact);
      CHECK(!p.settings.empty());
      // No exact plan is faster than the compute alone or than one worker's share of the wire allows.
      CHECK(p.prediction.iteration >= lone_step_time(profile) * (1 - 1e-9));
      if (p.prediction.plan.strategy->name == "ddp") {
        CHECK(p.standard.iteration.value() == doctest::Approx(ranking.baseline.iteration.value()));
        CHECK(p.speed_up >= 1 - 1e-12);
      }
    }
    for (const RankedPlan& p : ranking.others) CHECK(p.prediction.plan.strategy->fidelity == Fidelity::stale);
    for (const RejectedPlan& p : ranking.inapplicable) CHECK(!p.reason.empty());
  }
}

TEST_CASE("lossy, stale and periodic plans are not ranked unless allowed") {
  const Ranking ranking = recommended(balanced_profile(), cluster_of_flags(16, 4, "10GbE"));
  CHECK(ranking.others.empty());
}

TEST_CASE("the best plan holds where the range says so and not beyond") {
  const Profile profile = balanced_profile();
  const Cluster cluster = cluster_of_flags(16, 4, "10GbE");
  const Ranking ranking = recommended(profile, cluster);
  REQUIRE(ranking.holds);
  CHECK(ranking.holds->low <= cluster.network.bandwidth);
  CHECK(ranking.holds->high >= cluster.network.bandwidth);
  const PlanSpec best = ranking.exact.front().prediction.plan;
  const auto best_is_within_one_per_cent_at = [&](BytesPerSecond bandwidth) {
    Cluster other = cluster;
    other.network.bandwidth = bandwidth;
    other.server_link.bandwidth *= bandwidth / cluster.network.bandwidth;
    const Seconds own = predicted(profile, other, best)->iteration;
    for (const RankedPlan& p : ranking.exact)
      if (predicted(profile, other, p.prediction.plan)->iteration * 1.01 < own) return false;
    return true;
  };
  CHECK(best_is_within_one_per_cent_at(ranking.holds->low * 1.05));
  CHECK(best_is_within_one_per_cent_at(ranking.holds->high * 0.95));
}

TEST_CASE("a faster all-reduce than the cluster's own is named, and none where there is none") {
  const Profile profile = balanced_profile();
  Cluster cluster = cluster_of_flags(16, 4, "10GbE");  // a flat ring: every device's volume crosses the cards
  const Ranking ranking = recommended(profile, cluster);
  REQUIRE(ranking.other_collective);
  const RankedPlan &other = ranking.other_collective->plan, &instead = ranking.other_collective->instead;
  CAPTURE(text_of(other.prediction.plan));
  CHECK(collective_of(instead.prediction.plan).empty());
  CHECK(!needs_servers(instead.prediction.plan));
  CHECK(other.prediction.iteration * 1.005 < instead.prediction.iteration);
  CHECK(other.prediction.iteration <= other.standard.iteration);
  CHECK(other.speed_up == doctest::Approx(ranking.baseline.iteration / other.prediction.iteration));
  CHECK(predicted(profile, cluster, other.prediction.plan)->iteration == other.prediction.iteration);
  // No plan that was ranked is faster over any closed form.
  for (const CollectiveAlgorithm& algorithm : collective_algorithms()) {
    if (algorithm.needs_switch || algorithm.needs_servers) continue;
    for (const RankedPlan& plan : ranking.exact) {
      PlanSpec spec = plan.prediction.plan;
      if (needs_servers(spec)) continue;
      spec.collective = algorithm.name;
      CAPTURE(text_of(spec));
      if (const Answer<Prediction> p = predicted(profile, cluster, spec))
        CHECK(p->iteration * 1.005000001 >= other.prediction.iteration);
    }
  }
  // Once the cluster runs that one, nothing is left to gain.
  Cluster best = cluster;
  best.all_reduce = collective_of(other.prediction.plan);
  CHECK(!recommended(profile, best).other_collective);
  CHECK(!recommended(profile, cluster, {.sensitivity = false}).other_collective);
  CHECK(!recommended(profile, cluster_of_flags(1, 1, "10GbE")).other_collective);
  // Nor where a switch does better.
  Cluster switched = cluster;
  switched.aggregation = Aggregation{};
  const Ranking over_switch = recommended(profile, switched);
  REQUIRE(over_switch.exact.front().prediction.iteration < other.prediction.iteration);
  CHECK(!over_switch.other_collective);
  // What was measured is not compared with formulas.
  MeasuredCollective table;
  table.operation = "all_reduce";
  table.workers = 16;
  table.sizes = {Bytes(1000), Bytes(1e9)};
  table.times = {milliseconds(1), Seconds(2)};
  cluster.tables.push_back(table);
  CHECK(!recommended(profile, cluster).other_collective);
}

TEST_CASE("one worker needs no communication") {
  const Profile profile = balanced_profile();
  const Cluster cluster = cluster_of_flags(1, 1, "10GbE");
  const Ranking ranking = recommended(profile, cluster);
  for (const RankedPlan& p : ranking.exact) {
    CAPTURE(text_of(p.prediction.plan));
    CHECK(p.prediction.breakdown.exposed_communication.value() == doctest::Approx(0));
  }
}

TEST_CASE("a step of days is refused, not counted wrong") {
  const Profile profile =
      test::profile_of_gradients({{milliseconds(3), Bytes(4e6)}, {milliseconds(5), Bytes(2e6)}}, milliseconds(4));
  for (const char* text : {"ddp", "p3", "horovod", "dear", "mg_wfbp", "optimal_merge", "bytescheduler_ps", "lb_sgd"}) {
    for (const Cluster& cluster :
         {test::plain_cluster(4, BytesPerSecond(1)), test::plain_cluster(4, BytesPerSecond(1e-300)),
          test::plain_cluster(4, BytesPerSecond(1e9), Seconds(1e300))}) {
      CAPTURE(text);
      CHECK(!predicted(profile, cluster, plan_spec_of(text)));
    }
    CHECK(predicted(profile, test::plain_cluster(4, BytesPerSecond(1e4)), plan_spec_of(text)));
  }
  CHECK_THROWS_AS((void)recommended(profile, test::plain_cluster(4, BytesPerSecond(1))), InputError);
}
