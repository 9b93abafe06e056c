// Strategies that do not wait, or not at once: ASGD, SSP, EASGD, D-PSGD and AD-PSGD, by hand and by their orders.
#include "helpers/random_gradients.hpp"

#include <cmath>

using namespace stepcast;
using namespace stepcast::test;
using doctest::Approx;

namespace {

/// One key of 6.4 MB: 4 ms forward, 6 ms backward, 2 ms of updates on the worker, where it makes them.
Profile one_key() { return profile_of_gradients({{milliseconds(6), Bytes(6.4e6)}}, milliseconds(4), milliseconds(2)); }
Cluster four_servers(double bytes_per_second) {
  Cluster c = plain_cluster(4, BytesPerSecond(bytes_per_second));
  c.servers = 4;
  return c;
}
double ms(const std::string& plan, const Profile& p, const Cluster& c) { return 1e3 * time_of(plan, p, c).value(); }

Profile without_update(Profile p) {
  p.optimizer = {};
  return p;
}

}  // namespace

TEST_CASE("SSP and ASGD by hand: a push and a pull of 6.4 ms, or 64 ms, and 10 ms of compute") {
  const Profile p = one_key();
  const Cluster fast = four_servers(1e9), slow = four_servers(1e8);
  CHECK(ms("ssp(staleness=0)", p, fast) == Approx(10 + 12.8));
  CHECK(ms("ssp(staleness=1)", p, fast) == Approx((10 + 12.8) / 2));  // two steps in one round trip
  CHECK(ms("ssp(staleness=2)", p, fast) == Approx(10));
  CHECK(ms("asgd", p, fast) == Approx(10));
  CHECK(ms("asgd(fetch=blocking)", p, fast) == Approx(10 + 12.8));
  CHECK(ms("ssp(staleness=0)", p, slow) == Approx(10 + 128));
  CHECK(ms("ssp(staleness=1)", p, slow) == Approx((10 + 128) / 2));
  CHECK(ms("ssp(staleness=2)", p, slow) == Approx(64));
  CHECK(ms("asgd", p, slow) == Approx(64));
  // Two servers take in what four workers push: 2 * 6.4 ms a step.
  Cluster two = fast;
  two.servers = 2;
  CHECK(ms("asgd", p, two) == Approx(12.8));
  // Both directions of a card carry both roles of a machine: 2 * 3/4 * 6.4 ms.
  Cluster co_located = fast;
  co_located.servers = 0;
  CHECK(ms("asgd", p, co_located) == Approx(10));
  co_located.network.bandwidth = BytesPerSecond(1e8);
  CHECK(ms("asgd", p, co_located) == Approx(96));
}

TEST_CASE("SSP without staleness is synchronous, and more of it never takes longer, down to ASGD") {
  Draw draw(71);
  int hidden = 0;
  for (int round = 0; round < 60; ++round) {
    const Profile p = without_update(random_profile(draw));
    Cluster c = random_cluster(draw);
    c.servers = draw.coin() ? 0 : draw.whole(1, 8);
    CAPTURE(round);
    const double synchronous = ms("dist_sync", p, c);
    CHECK(ms("ssp(staleness=0)", p, c) == Approx(synchronous));
    // Where one queue carries pushes and pulls of several steps, which one goes first depends on timing.
    const double slack = c.servers == 0 ? 1.02 : 1 + 1e-9;
    double before = synchronous;
    for (const char* s : {"1", "2", "3", "5", "7", "20"}) {
      const double now = ms("ssp(staleness=" + std::string(s) + ")", p, c);
      CAPTURE(std::string(s));
      CHECK(now <= before * slack);
      before = now;
    }
    CHECK(before == Approx(ms("ssp(staleness=64)", p, c)));
    const double asynchronous = ms("asgd", p, c);
    CHECK(asynchronous <= before * slack);
    hidden += asynchronous < 0.99 * synchronous;
  }
  CHECK(hidden > 20);
}

TEST_CASE("ASGD is bound by compute and by the busier direction of a card, and by nothing else") {
  Draw draw(72);
  for (int round = 0; round < 60; ++round) {
    const Profile p = without_update(random_profile(draw));
    Cluster c = random_cluster(draw);
    c.devices_per_node = 1, c.servers = draw.whole(1, 8);
    const CommunicationCost cost = *communication_cost(c);
    Seconds up, sums;
    for (const Tensor& t : p.tensors) {
      up += cost(Operation::push, t.size);
      sums += cost(Operation::server_sum, t.size);
    }
    const double bound = std::max({lone_step_time(p).value(), up.value(), sums.value()});
    CHECK(time_of("asgd", p, c).value() == Approx(bound).epsilon(1e-6));
  }
}

TEST_CASE("EASGD by hand: the centre travels beside the passes of the first step of a period") {
  const Profile p = one_key();
  const Cluster fast = four_servers(1e9), slow = four_servers(1e8);
  CHECK(ms("easgd(period=4)", p, fast) == Approx(12));  // 6.4 ms of pull under 10 ms of passes
  CHECK(ms("easgd(period=4, overlap=no)", p, fast) == Approx((4 * 12 + 6.4) / 4));
  CHECK(ms("easgd", p, slow) == Approx((64 + 2 + 9 * 12) / 10.));
  CHECK(ms("easgd(overlap=no)", p, slow) == Approx((64 + 10 * 12) / 10.));
  // The next pull waits for the push of the difference: 128 ms in four steps of 12.
  CHECK(ms("easgd(period=4)", p, slow) == Approx(128 / 4.));
  // An all-reduce of 1.5 * 64 ms.
  CHECK(ms("easgd(centre=all_reduce)", p, slow) == Approx((96 + 2 + 9 * 12) / 10.));
  CHECK(ms("easgd(centre=all_reduce, overlap=no)", p, slow) == Approx((96 + 10 * 12) / 10.));
  // Every device of a machine has weights of its own.
  Cluster pairs = slow;
  pairs.devices_per_node = 2;
  CHECK(ms("easgd(period=20, overlap=no)", p, pairs) == Approx((2 * 64 + 20 * 12) / 20.));
}

TEST_CASE("EASGD never gets slower with its period") {
  Draw draw(73);
  for (int round = 0; round < 40; ++round) {
    const Profile p = random_profile(draw);
    Cluster c = random_cluster(draw);
    c.servers = draw.coin() ? 0 : draw.whole(1, 8);
    for (const char* options : {"", ", overlap=no", ", centre=all_reduce", ", centre=all_reduce, overlap=no"}) {
      double before = HUGE_VAL;
      for (const char* tau : {"1", "2", "4", "16"}) {
        const double now = ms("easgd(period=" + std::string(tau) + options + ")", p, c);
        CHECK(now <= before * (1 + 1e-9));
        before = now;
      }
      CHECK(before >= 1e3 * lone_step_time(p).value() * (1 - 1e-9));
    }
  }
}

TEST_CASE("D-PSGD and AD-PSGD by hand: models travel beside the passes of the same step") {
  const Profile p = one_key();
  const Cluster fast = plain_cluster(8, BytesPerSecond(1e9), milliseconds(0.05));
  const Cluster slow = plain_cluster(8, BytesPerSecond(1e8), milliseconds(0.05));
  CHECK(ms("overlay", p, fast) == Approx(10 + 12.85 + 2));
  CHECK(ms("d_psgd", p, fast) == Approx(12.85 + 2));
  CHECK(ms("ad_psgd", p, fast) == Approx(10 + 2));
  CHECK(ms("d_psgd", p, slow) == Approx(128.05 + 2));
  CHECK(ms("d_psgd(degree=4)", p, slow) == Approx(256.05 + 2));
  CHECK(ms("ad_psgd", p, slow) == Approx(64.05 + 2));
  CHECK(ms("ad_psgd(degree=4)", p, slow) == Approx(64.05 + 2));  // one of four
  // Four devices share the card of a machine, and all talk to all: four of a device's seven neighbours are elsewhere.
  Cluster machines = slow;
  machines.nodes = 2, machines.devices_per_node = 4;
  machines.inside.bandwidth = BytesPerSecond(1e12);
  CHECK(ms("ad_psgd(degree=7)", p, machines) == Approx(64 * 4 * 4 / 7. + 0.05 + 2));
}

TEST_CASE("D-PSGD is the overlay's exchange under compute: never slower, and never faster than either") {
  Draw draw(74);
  for (int round = 0; round < 60; ++round) {
    const Profile p = random_profile(draw);
    const Cluster c = random_cluster(draw);
    const double beside = ms("d_psgd", p, c), after = ms("overlay", p, c), lone = 1e3 * lone_step_time(p).value();
    CHECK(beside <= after * (1 + 1e-9));
    CHECK(beside >= lone * (1 - 1e-9));
    CHECK(ms("ad_psgd", p, c) <= beside * (1 + 1e-9));
  }
}
