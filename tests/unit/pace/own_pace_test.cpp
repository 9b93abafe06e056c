// Jobs whose workers do not wait for one another: rates by hand, orders, and a simulation with other draws.
#include "helpers/plan_cases.hpp"
#include "helpers/random_input.hpp"

#include <stepcast/pace/own_pace.hpp>
#include <stepcast/prediction/model.hpp>

#include <algorithm>
#include <cmath>
#include <random>

using namespace stepcast;
using namespace stepcast::test;
using doctest::Approx;

namespace {

Profile ten_milliseconds() {
  Profile p = profile_of_gradients({{milliseconds(6), Bytes(6.4e6)}}, milliseconds(4));
  p.batch_samples = 32;
  return p;
}
Cluster servers(std::vector<SlowWorkers> slow, Jitter jitter = {}) {
  Cluster c = plain_cluster(4, BytesPerSecond(1e9));
  c.servers = 4;
  c.stragglers = {std::move(slow), jitter};
  return c;
}
Prediction answer(const std::string& plan, const Profile& p, const Cluster& c) {
  const Answer<Prediction> out = predicted(p, c, plan_spec_of(plan));
  REQUIRE_MESSAGE(bool(out), (out ? "" : out.reason()));
  return *out;
}
double ms(const std::string& plan, const Profile& p, const Cluster& c) {
  return 1e3 * answer(plan, p, c).iteration.value();
}
double sum(const Breakdown& b) {
  return (b.compute + b.exposed_communication + b.codec + b.input_stall + b.bubble + b.idle).value();
}

}  // namespace

TEST_CASE("own pace: rates of workers add up, and the slowest one holds SSP, whatever its staleness") {
  const Profile p = ten_milliseconds();
  const Cluster c = servers({{.workers = 1, .compute_factor = 2}});
  // Three workers take 10 ms, one 20: 3/10 + 1/20 steps a millisecond.
  const Prediction asynchronous = answer("asgd", p, c);
  CHECK(1e3 * asynchronous.iteration.value() == Approx(4 / 0.35));
  CHECK(asynchronous.throughput_samples_per_s == Approx(32 * 350));
  CHECK(sum(asynchronous.breakdown) == Approx(asynchronous.iteration.value()));
  REQUIRE(asynchronous.stragglers);
  CHECK(1e3 * asynchronous.stragglers->without.value() == Approx(10));
  for (const char* s : {"2", "8", "64"}) CHECK(ms("ssp(staleness=" + std::string(s) + ")", p, c) == Approx(20));
  CHECK(ms("ssp(staleness=0)", p, c) == Approx(20 + 12.8));
  CHECK(ms("dist_sync", p, c) == Approx(20 + 12.8));
  CHECK(ms("asgd(fetch=blocking)", p, c) == Approx(4 / (3 / 22.8 + 1 / 32.8)));
  // A late worker, and one whose link is slow: its own 64 ms, while the others need 10.
  CHECK(ms("asgd", p, servers({{.workers = 2, .delay = milliseconds(30)}})) == Approx(4 / (2 / 10. + 2 / 40.)));
  CHECK(ms("asgd", p, servers({{.workers = 1, .link_share = 0.1}})) == Approx(4 / (3 / 10. + 1 / 64.)));
  CHECK(ms("ssp(staleness=8)", p, servers({{.workers = 1, .link_share = 0.1}})) == Approx(64));
  // Averages of pairs: the same workers, 6.4 ms of exchange under 10 of compute.
  CHECK(ms("ad_psgd", p, c) == Approx(4 / 0.35));
  CHECK(ms("d_psgd(degree=1)", p, c) == Approx(20));
  CHECK(ms("easgd(period=1, overlap=no)", p, c) == Approx(4 / (3 / 16.4 + 1 / 26.4)));
  CHECK(ms("easgd(period=1, overlap=no, centre=all_reduce)", p, c) == Approx(20 + 9.6));
}

TEST_CASE("own pace: a model's hot loop, a prediction and workers that are all alike agree") {
  const Profile p = ten_milliseconds();
  for (const char* plan : {"asgd", "ssp", "ad_psgd", "easgd"}) {
    CAPTURE(plan);
    const Cluster alike = servers({{.workers = 4, .compute_factor = 1.5}});
    CHECK(ms(plan, p, alike) == Approx(ms(plan, slowed(p, 1.5), servers({}))));
    const Cluster mixed = servers({{.workers = 1, .compute_factor = 2}, {.workers = 1, .delay = milliseconds(3)}});
    const Model model(p, mixed);
    Model::Scratch scratch;
    CHECK(1e3 * model.iteration(plan_spec_of(plan), scratch)->value() == Approx(ms(plan, p, mixed)));
  }
}

TEST_CASE("own pace: of jitter, SSP leaves less the larger its staleness, between ASGD and synchronous workers") {
  Profile p = ten_milliseconds();
  p.tensors[0].size = Bytes(4);  // compute alone, so that the largest of many factors is the step
  for (const Jitter jitter :
       {Jitter{Jitter::Distribution::normal, 0.1}, Jitter{Jitter::Distribution::exponential, 0.2}}) {
    const Cluster c = servers({{.workers = 1, .compute_factor = 1.05}}, jitter);
    double before = ms("dist_sync", p, c);
    CHECK(ms("ssp(staleness=0)", p, c) == Approx(before));
    const double lower = ms("asgd", p, c);
    for (const char* s : {"1", "2", "4", "16", "64"}) {
      const double now = ms("ssp(staleness=" + std::string(s) + ")", p, c);
      CHECK(now <= before * (1 + 1e-9));
      CHECK(now >= lower * (1 - 1e-9));
      before = now;
    }
    // Nobody waits: the mean over workers of 1 / E[T].
    const double mean = jitter.distribution == Jitter::Distribution::normal ? 10 : 12;
    CHECK(lower == Approx(4 / (3 / mean + 1 / (1.05 * mean))).epsilon(2e-3));
  }
}

TEST_CASE("own pace: SSP under jitter is what a simulation with other draws says") {
  Profile p = ten_milliseconds();
  p.tensors[0].size = Bytes(4);
  const double spread = 0.1;
  Cluster c = servers({}, {Jitter::Distribution::normal, spread});
  c.nodes = c.servers = 16;
  std::mt19937_64 random(7);
  std::normal_distribution<double> factor(1, spread);
  for (const int s : {1, 3}) {
    constexpr int steps = 20000;
    std::vector<double> end(16, 0);
    std::vector<double> last(steps, 0);
    for (int i = 0; i < steps; ++i) {
      const double held = i > s ? last[static_cast<std::size_t>(i - s - 1)] : 0;
      for (double& e : end) e = std::max(e, held) + 10 * std::max(0.0, factor(random));
      last[static_cast<std::size_t>(i)] = *std::max_element(end.begin(), end.end());
    }
    const double simulated = last.back() / steps;
    CHECK(ms("ssp(staleness=" + std::to_string(s) + ")", p, c) == Approx(simulated).epsilon(0.01));
    CHECK(simulated < 0.99 * ms("dist_sync", p, c));
  }
}

TEST_CASE("own pace: ASGD is never slower than SSP, nor SSP than synchronous workers, among random stragglers") {
  Draw draw(75);
  for (int round = 0; round < 40; ++round) {
    Profile p = random_profile(draw);
    p.optimizer = {};
    Cluster c = random_cluster(draw);
    c.servers = draw.whole(1, 8);
    if (c.nodes == 1) continue;
    c.stragglers.slow = {
        {.workers = 1, .compute_factor = draw.log_uniform(1, 3), .link_share = draw.log_uniform(0.2, 1)}};
    const double together = ms("dist_sync", p, c), some = ms("ssp", p, c), none = ms("asgd", p, c);
    CAPTURE(round);
    CHECK(some <= together * (1 + 1e-9));
    CHECK(none <= some * (1 + 1e-9));
  }
}
