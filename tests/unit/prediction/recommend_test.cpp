#include "helpers/plan_cases.hpp"
#include "helpers/random_input.hpp"

#include <stepcast/prediction/alike.hpp>
#include <stepcast/prediction/recommend.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

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

TEST_CASE("a plan in use stays where its options make no difference, unless others are named") {
  // Messages take no time: no bucket is better than another.
  const Profile p =
      test::profile_of_gradients(std::vector<test::Produced>(4, {milliseconds(1), mebibytes(8)}), milliseconds(1));
  RecommendOptions options;
  options.sensitivity = false;
  const Cluster cluster = test::plain_cluster(4, BytesPerSecond(1e18));
  options.baseline = *predicted(p, cluster, plan_spec_of("ddp(bucket=7 MiB)"));
  const auto has = [](const Ranking& ranking, std::string_view plan) {
    return std::ranges::any_of(ranking.exact, [&](const RankedPlan& r) { return text_of(r.prediction.plan) == plan; });
  };
  CHECK(text_of(recommended(p, cluster, options).exact.front().prediction.plan) == "ddp(bucket=7 MiB)");
  options.plans = {plan_spec_of("ddp(bucket=5 MiB)"), plan_spec_of("wfbp")};
  options.tune = false;
  const Ranking named = recommended(p, cluster, options);
  CHECK(has(named, "ddp(bucket=5 MiB)"));
  CHECK(has(named, "wfbp"));
}

TEST_CASE("a plan in use stays where nobody can tell that other options are faster") {
  const Cluster cluster = cluster_of_flags(16, 4, "10GbE");
  RecommendOptions options;
  options.sensitivity = false;
  const Ranking tuned = recommended(balanced_profile(), cluster, options);
  const auto ddp =
      std::ranges::find_if(tuned.exact, [](const RankedPlan& p) { return p.prediction.plan.strategy->name == "ddp"; });
  REQUIRE(ddp != tuned.exact.end());
  PlanSpec near = ddp->prediction.plan;
  near.options[0] *= 1.3;
  options.baseline = *predicted(balanced_profile(), cluster, near);
  REQUIRE(options.baseline->iteration > ddp->prediction.iteration * 1.0001);
  REQUIRE(options.baseline->iteration < ddp->prediction.iteration * 1.04);
  CHECK(text_of(recommended(balanced_profile(), cluster, options).exact.front().prediction.plan) == text_of(near));
}

TEST_CASE("a setting is worth writing down where its gain can be told, and then all that are as good are told") {
  RecommendOptions options;
  options.sensitivity = false;
  options.baseline = *predicted(balanced_profile(), cluster_of_flags(16, 4, "10GbE"), plan_spec_of("bsp"));
  const auto ranked = [&](const char* network) {
    return recommended(balanced_profile(), cluster_of_flags(16, 4, network), options);
  };
  bool kept = false, tuned = false;
  for (const char* network : {"2GbE", "5GbE", "10GbE", "25GbE", "50GbE", "100GbE"}) {
    CAPTURE(network);
    const Ranking ranking = ranked(network);
    const RankedPlan& best = ranking.exact.front();
    const std::string name = text_of(best.prediction.plan), standard = text_of(best.standard.plan);
    (name == standard ? kept : tuned) = true;
    Prediction fastest = best.prediction;
    for (const RankedPlan& p : ranking.exact)
      if (p.is_at_hand() && p.prediction.iteration < fastest.iteration) fastest = p.prediction;
    if (name != standard)  // the default is told from the fastest
      CHECK(best.standard.iteration > fastest.iteration * (1 + resolution_between(fastest, best.standard)));
    REQUIRE(ranking.as_good.has_value() == (name != standard));
    if (!ranking.as_good) continue;
    const OptionRange& range = *ranking.as_good;
    const Cluster cluster = cluster_of_flags(16, 4, network);
    for (const PlanSpec& end : {range.low, range.high}) {
      CAPTURE(text_of(end));
      CHECK(predicted(balanced_profile(), cluster, end)->iteration <=
            best.prediction.iteration * (1 + ranking.as_good->tolerance) * (1 + 1e-9));
      CHECK(end.strategy == best.prediction.plan.strategy);
    }
    CHECK(range.low.options != range.high.options);
  }
  CHECK(kept);
  CHECK(tuned);
}

TEST_CASE("what is in use and has a name only takes its place among the plans, and gains are over it") {
  const Profile p = balanced_profile();
  const Cluster cluster = test::plain_cluster(8, BytesPerSecond(1.25e9));
  RecommendOptions options;
  const Ranking plain = recommended(p, cluster, options);
  Prediction used = plain.exact.front().prediction;
  used.plan = spec_named("layout(zero=3)/ddp", {});
  used.iteration *= 1.001;
  options.baseline = used;
  const Ranking kept = recommended(p, cluster, options);
  CHECK(text_of(kept.exact.front().prediction.plan) == "layout(zero=3)/ddp");  // nothing is worth a change
  CHECK(kept.exact.front().speed_up == 1);
  CHECK(kept.exact.size() == plain.exact.size() + 1);
  CHECK_FALSE(kept.holds);
  CHECK(kept.exact[1].speed_up == doctest::Approx(used.iteration / kept.exact[1].prediction.iteration));
  // Three times as slow it is the last but for those that need something else.
  options.baseline->iteration *= 3;
  const Ranking left = recommended(p, cluster, options);
  CHECK(text_of(left.exact.front().prediction.plan) == text_of(plain.exact.front().prediction.plan));
  CHECK(left.exact.front().speed_up == doctest::Approx(3 * 1.001).epsilon(0.01));
  options.allow_lossy = options.allow_periodic = true;
  CHECK_FALSE(recommended(p, cluster, options).others.empty());
}

TEST_CASE("a ranking is sorted, tuned plans are never worse than their defaults, the baseline is DDP") {
  test::Draw draw(5);
  for (int round = 0; round < 6; ++round) {
    const Profile profile = round == 0 ? balanced_profile() : test::random_profile(draw, {.device = draw.coin()});
    const Cluster cluster = round == 0 ? cluster_of_flags(16, 4, "10GbE") : test::random_cluster(draw);
    const Ranking ranking = recommended(profile, cluster, {.allow_stale = true});
    REQUIRE(!ranking.exact.empty());
    // What PyTorch runs as it is comes first; either list is sorted, but for the first plan, which may be slower than
    // others by no more than the answer resolves, if it needs less.
    const auto others = std::ranges::find_if_not(ranking.exact, &RankedPlan::is_at_hand);
    CHECK(std::all_of(others, ranking.exact.end(), [](const RankedPlan& p) { return !p.is_at_hand(); }));
    const auto faster = [](const RankedPlan& a, const RankedPlan& b) {
      return a.prediction.iteration < b.prediction.iteration;
    };
    CHECK(std::is_sorted(ranking.exact.begin() + 1, others, faster));
    CHECK(std::is_sorted(others, ranking.exact.end(), faster));
    const RankedPlan& first = ranking.exact.front();
    const RankedPlan& fastest = *std::min_element(ranking.exact.begin(), others, faster);
    const auto told_apart_from = [&](const RankedPlan& p) {
      const double of_links = (p.prediction.error_of_links - fastest.prediction.error_of_links).value();
      const double own = residual_of_model * fastest.prediction.iteration.value();
      return (p.prediction.iteration - fastest.prediction.iteration).value() >
             1.2815515655446 * std::hypot(own, of_links);
    };
    CHECK(!told_apart_from(first));
    for (auto p = ranking.exact.begin(); p != others; ++p) {
      if (p->as_good_as_any) CHECK(!told_apart_from(*p));
      if (p->as_good_as_any) CHECK(first.machines <= p->machines);
      const bool is_ddp = p->prediction.plan.strategy->name == "ddp" && p->prediction.plan.collective.empty();
      if (is_ddp && p->as_good_as_any) CHECK(first.prediction.plan.strategy->name == "ddp");
    }
    const Ranking by_step = recommended(profile, cluster, {.sensitivity = false, .by_step = true});
    CHECK(std::is_sorted(by_step.exact.begin() + 1, by_step.exact.end(), faster));
    for (const RankedPlan& p : by_step.exact)
      CHECK(by_step.exact.front().prediction.iteration <= p.prediction.iteration * 1.005000001);
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

TEST_CASE("what the links have wrong for all plans alike does not make plans equal") {
  Cluster cluster = cluster_of_flags(16, 1, "10GbE");
  cluster.relative_error = 0.5;
  const Ranking ranking = recommended(balanced_profile(), cluster, {});
  const auto at_hand = [](const RankedPlan& p) { return p.is_at_hand(); };
  const auto faster = [](const RankedPlan& a, const RankedPlan& b) {
    return a.prediction.iteration < b.prediction.iteration;
  };
  const auto end = std::ranges::find_if_not(ranking.exact, at_hand);
  const Prediction& fastest = std::min_element(ranking.exact.begin(), end, faster)->prediction;
  REQUIRE(fastest.error_of_links > Seconds(0));
  const auto in_interval = std::count_if(
      ranking.exact.begin(), end, [&](const RankedPlan& p) { return p.prediction.iteration <= fastest.interval_high; });
  CHECK(std::count_if(ranking.exact.begin(), end, std::mem_fn(&RankedPlan::as_good_as_any)) < in_interval);
  // The best plan is as good as the fastest one by the tolerance of the range over which it holds.
  REQUIRE(ranking.holds);
  CHECK(ranking.exact.front().prediction.iteration <= fastest.iteration * (1 + ranking.holds->tolerance));
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
  const double tolerance = ranking.holds->tolerance;
  CHECK(tolerance > 0.005);
  const auto best_holds_at = [&](BytesPerSecond bandwidth) {
    Cluster other = cluster;
    other.network.bandwidth = bandwidth;
    other.server_link.bandwidth *= bandwidth / cluster.network.bandwidth;
    const Seconds own = predicted(profile, other, best)->iteration;
    for (const RankedPlan& p : ranking.exact)
      if (p.is_at_hand() && predicted(profile, other, p.prediction.plan)->iteration * (1.005 * (1 + tolerance)) < own)
        return false;
    return true;
  };
  CHECK(best_holds_at(ranking.holds->low * 1.05));
  CHECK(best_holds_at(ranking.holds->high * 0.95));
}

TEST_CASE("the best plan holds between the ends of its range, also where step times rise with the bandwidth") {
  // Three layers, nearest the input first: milliseconds forward and backward, megabytes. Urgent-first queues that do
  // not pre-empt make one plan faster and another slower when a large message just misses its turn, so that between two
  // bandwidths at which a plan is the best it may be 14 % behind.
  struct Row {
    double forward, backward, megabytes;
  };
  const std::vector<std::vector<Row>> tables{{{6, 15, 1.6}, {5, 7, 7.6}, {2, 7, 15}},
                                             {{11, 11, 13.2}, {10, 14, 0}, {0, 7, 19.7}},
                                             {{12, 11, 6}, {3, 25, 15.7}, {4, 15, 0}},
                                             {{10, 13, 1.2}, {2, 18, 3.1}, {12, 8, 19.2}}};
  Cluster cluster = cluster_of_flags(16, 2, "10GbE");
  cluster.inside.bandwidth = BytesPerSecond(300e9);
  int inside = 0;
  for (const std::vector<Row>& rows : tables) {
    Profile profile;
    profile.model = "table";
    profile.provenance = "made for the test";
    for (std::uint32_t l = 0; l < rows.size(); ++l) {
      profile.layers.push_back({"layer" + std::to_string(l), {}, {}});
      profile.layers[l].forward.host = milliseconds(rows[l].forward);
      profile.layers[l].backward.host = milliseconds(rows[l].backward);
    }
    for (auto l = static_cast<std::uint32_t>(rows.size()); l-- > 0;) {
      profile.backward_order.push_back(l);
      if (rows[l].megabytes > 0)
        profile.tensors.push_back({"w" + std::to_string(l), {}, DataType::f32, Bytes(rows[l].megabytes * 1e6), l});
    }
    const Ranking ranking = recommended(profile, cluster, {.by_step = true});
    REQUIRE(ranking.holds);
    const BytesPerSecond low = ranking.holds->low, high = ranking.holds->high;
    CAPTURE(text_of(ranking.exact.front().prediction.plan));
    CHECK(low <= cluster.network.bandwidth);
    CHECK(high >= cluster.network.bandwidth);
    for (int i = -7 * 64; i <= 7 * 64; ++i) {
      const double factor = std::exp2(i / 64.0);
      if (cluster.network.bandwidth * factor < low || cluster.network.bandwidth * factor > high) continue;
      ++inside;
      CAPTURE(factor);
      const Cluster there = with_bandwidth_scaled(cluster, factor);
      Seconds best(1e9);
      for (const RankedPlan& p : ranking.exact)
        best = std::min(best, predicted(profile, there, p.prediction.plan)->iteration);
      CHECK(predicted(profile, there, ranking.exact.front().prediction.plan)->iteration <= best * 1.01);
    }
  }
  CHECK(inside > 50);
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
      if (needs_servers(spec) || !plan.is_at_hand()) continue;
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

TEST_CASE("DeAR is tuned in both of its options: never worse than its bucket alone, never better than its bound") {
  test::Draw draw(61);
  const Strategy& dear = *strategy_named("dear");
  const std::size_t bucket = position_of("bucket", dear.options), prefetch = position_of("prefetch", dear.options);
  int ahead = 0;
  for (int round = 0; round < 25; ++round) {
    Profile p = test::random_profile(draw, {.most_layers = 40, .most_bytes = 4e7});
    p.other = {};
    const Cluster c = test::plain_cluster(8, BytesPerSecond(draw.log_uniform(1e9, 2e10)));
    RecommendOptions options;
    options.plans = {plan_spec_of("dear")};
    options.sensitivity = false;
    const Ranking ranking = recommended(p, c, options);
    REQUIRE(ranking.exact.size() == 1);
    const Prediction& best = ranking.exact.front().prediction;
    Seconds alone(1e9), with_more(1e9);
    for (int i = 0; i <= 60; ++i) {
      PlanSpec spec{&dear, standard_options(dear)};
      spec.options[bucket] = std::exp2(20 + 8.0 * i / 60);
      alone = std::min(alone, test::time_of(text_of(spec), p, c));
      spec.options[prefetch] = 100;
      with_more = std::min(with_more, test::time_of(text_of(spec), p, c));
    }
    CHECK(best.iteration <= alone * 1.003);
    // max(forward, T/2) + max(backward, T/2), where T/2 is what a ring takes to scatter.
    const double half = 7.0 / 8 * p.gradient_size().value() / c.network.bandwidth.value();
    CHECK(best.iteration.value() >
          0.999 * (std::max(forward_time(p).value(), half) + std::max(backward_time(p).value(), half)));
    ahead += best.plan.options[prefetch] > 1 && best.iteration < alone * 0.98;
    if (with_more < alone * 0.98) CHECK(best.iteration < alone * 0.995);
    // Its own tuner takes ten steps, and knows nothing of prefetch.
    options.search = Search::bayesian;
    const Ranking own = recommended(p, c, options);
    CHECK(own.exact.front().prediction.plan.options[prefetch] == 1);
  }
  CHECK(ahead > 0);
}

TEST_CASE("a modifier is ranked on the base that it makes fastest, and plans of other networks are not ranked") {
  const Profile p = balanced_profile();
  Cluster c = test::plain_cluster(8, BytesPerSecond(3e8), microseconds(50));
  c.servers = 8;
  RecommendOptions options;
  options.allow_lossy = options.allow_stale = options.allow_periodic = true;
  options.sensitivity = false;
  const Ranking ranking = recommended(p, c, options);
  REQUIRE(ranking.exact.size() > 4);
  int moved = 0;
  for (const RankedPlan& row : ranking.others) {
    CAPTURE(text_of(row.prediction.plan));
    CHECK(row.prediction.plan.strategy->name != "ist");
    if (row.prediction.plan.modifiers.size() != 1) continue;
    const ModifierSpec& m = row.prediction.plan.modifiers.front();
    moved += row.prediction.plan.strategy->name != m.modifier->usual_base;
    // No slower than on the best two exact plans as they are.
    for (std::size_t i = 0; i < 2; ++i) {
      PlanSpec composed = ranking.exact[i].prediction.plan;
      composed.modifiers = {m};
      const Answer<Prediction> other = predicted(p, c, composed);
      if (other) CHECK(row.prediction.iteration <= other->iteration * 1.0051);
    }
    CHECK(row.prediction.iteration <= row.standard.iteration * (1 + 1e-9));
  }
  CHECK(moved > 0);
}

TEST_CASE("a network that is scaled leaves what was measured inside machines as it is") {
  const auto measured = [](std::int64_t workers, std::int64_t nodes) {
    MeasuredCollective table;
    table.workers = workers, table.nodes = nodes;
    table.sizes = {Bytes(1e6), Bytes(2e6)}, table.times = {milliseconds(1), milliseconds(2)};
    return table;
  };
  Cluster cluster = cluster_of_flags(16, 8, "100GbE");
  cluster.tables = {measured(8, 1), measured(8, 0), measured(8, 8), measured(16, 2), measured(16, 0)};
  const Cluster faster = with_bandwidth_scaled(cluster, 2);
  CHECK(faster.inside.bandwidth == cluster.inside.bandwidth);
  CHECK(faster.network.bandwidth == 2 * cluster.network.bandwidth);
  const auto halved = [&](std::size_t i) { return faster.tables[i].times[1] == cluster.tables[i].times[1] / 2; };
  CHECK((!halved(0) && !halved(1) && halved(2) && halved(3) && halved(4)));
  CHECK(faster.tables[0].times == cluster.tables[0].times);

  Cluster machine = cluster_of_flags(8, 8, "100GbE");
  machine.tables = {measured(8, 1), measured(16, 2)};
  const Cluster inside = with_bandwidth_scaled(machine, 2);
  CHECK(inside.inside.bandwidth == 2 * machine.inside.bandwidth);
  CHECK(inside.tables[0].times[1] == milliseconds(1));
  CHECK(inside.tables[1].times == machine.tables[1].times);
}
