// SA-ATP's leaders: numbers by hand, and the bounds between a healthy cluster and ATP.
#include "helpers/plan_cases.hpp"
#include "helpers/random_input.hpp"

#include <stepcast/prediction/model.hpp>
#include <stepcast/prediction/prediction.hpp>

#include <doctest/doctest.h>

using namespace stepcast;
using namespace stepcast::test;
using doctest::Approx;

namespace {

/// 18 ms of compute, then 10 MB.
Profile toy() { return profile_of_gradients({{milliseconds(12), Bytes(1e7)}}, milliseconds(6)); }

/// Eight machines at 10 Gb/s, whose switch may let leaders take over a share.
Cluster helping(double absorbed) {
  Cluster c = plain_cluster(8, BytesPerSecond(1.25e9));
  c.servers = 1;
  c.aggregation = Aggregation{.program = "sa_atp", .absorbed_share = absorbed};
  return c;
}

double step_ms(const Profile& profile, const Cluster& cluster, const std::string& plan) {
  const Answer<Prediction> p = predicted(profile, cluster, plan_spec_of(plan));
  REQUIRE_MESSAGE(p, (p ? "" : p.reason()));
  return p->iteration.value() * 1e3;
}

constexpr double wire = 1e7 * 308 / 248 / 1.25e9 * 1e3;  // 9.93548 ms

}  // namespace

TEST_CASE("SA-ATP: who starts 5 ms late is helped until both sides are through together") {
  Cluster c = helping(0.5);
  c.stragglers.slow = {{.delay = milliseconds(5)}};
  CHECK(step_ms(toy(), c, "bsp@atp") == Approx(18 + 5 + wire));
  // The straggler sends (1 - x) from 23 ms on, each of seven leaders 1 + x/7 from 18 ms on: x = 5 / (8/7 wire).
  const double x = 5 / (wire * 8 / 7);
  CHECK(x == Approx(0.44034).epsilon(1e-4));
  CHECK(step_ms(toy(), c, "bsp@sa_atp") == Approx(18 + wire * (1 + x / 7)).epsilon(1e-6));  // 28.5605 ms
  // Less help than that leaves the straggler last.
  c.aggregation->absorbed_share = 0.2;
  CHECK(step_ms(toy(), c, "bsp@sa_atp") == Approx(18 + 5 + 0.8 * wire).epsilon(1e-6));  // 30.9484 ms
  c.aggregation->absorbed_share = 0;
  CHECK(step_ms(toy(), c, "bsp@sa_atp") == step_ms(toy(), c, "bsp@atp"));
}

TEST_CASE("SA-ATP: who computes 1.5 times as long is helped") {
  Cluster c = helping(0.5);
  c.stragglers.slow = {{.compute_factor = 1.5}};
  CHECK(step_ms(toy(), c, "bsp@atp") == Approx(27 + wire));
  CHECK(step_ms(toy(), c, "bsp@sa_atp") == Approx(27 + 0.5 * wire).epsilon(1e-6));  // 31.9677 ms
  c.aggregation->absorbed_share = 1;
  const double x = 9 / (wire * 8 / 7);
  CHECK(step_ms(toy(), c, "bsp@sa_atp") == Approx(18 + wire * (1 + x / 7)).epsilon(1e-6));  // 29.0605 ms
}

TEST_CASE("SA-ATP: without a leader it is ATP") {
  Cluster c = helping(0.5);
  for (const SlowWorkers& slow :
       {SlowWorkers{.workers = 8, .delay = milliseconds(5)}, SlowWorkers{.workers = 8, .compute_factor = 1.5}}) {
    c.stragglers.slow = {slow};
    CHECK(step_ms(toy(), c, "bsp@sa_atp") == step_ms(toy(), c, "bsp@atp"));
  }
  // One leader carries for seven: x = 5 / (8 wire), and 18 + wire (1 + 7 x).
  c.stragglers.slow = {{.workers = 7, .delay = milliseconds(5)}};
  CHECK(step_ms(toy(), c, "bsp@sa_atp") == Approx(18 + wire + 5 * 7 / 8.0).epsilon(1e-6));
}

TEST_CASE("SA-ATP: never better than the healthy cluster, never worse than ATP, and the hot loop agrees") {
  Draw draw(91);
  int helped = 0;
  for (int round = 0; round < 40; ++round) {
    const Profile profile = random_profile(draw, {.device = draw.coin()});
    Cluster c = helping(draw.whole(1, 100) / 100.0);
    c.nodes = draw.whole(2, 16);
    c.stragglers.slow = {{.workers = draw.whole(1, static_cast<int>(c.nodes)),
                          .compute_factor = draw.coin() ? 1.0 : draw.whole(100, 200) / 100.0,
                          .delay = microseconds(draw.whole(0, 20000)),
                          .link_share = draw.coin() ? 1.0 : draw.whole(20, 100) / 100.0}};
    Cluster healthy = c;
    healthy.stragglers = {};
    for (const std::string plan : {"bsp", "wfbp", "ddp"}) {
      CAPTURE(plan);
      const double with = step_ms(profile, c, plan + "@sa_atp"), atp = step_ms(profile, c, plan + "@atp");
      CHECK(with <= atp * (1 + 1e-9));
      CHECK(with >= step_ms(profile, healthy, plan + "@sa_atp") * (1 - 1e-9));
      helped += with < atp * 0.999;
      Model::Scratch scratch;
      const Answer<Seconds> hot = Model(profile, c).iteration(plan_spec_of(plan + "@sa_atp"), scratch);
      REQUIRE(hot);
      CHECK(hot->value() * 1e3 == with);
    }
  }
  CHECK(helped > 20);
}
