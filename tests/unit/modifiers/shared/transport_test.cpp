// Transport: the slowest of many flows, and what bounded loss saves.
#include "oracles/delivery.hpp"

#include <stepcast/modifiers/shared/transport.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

using namespace stepcast;
using namespace stepcast::test;
using doctest::Approx;

namespace {

Transport lossy(double loss) {
  Transport t;
  t.flows = 8;
  t.stall_probability = 0.02;
  t.timeout = milliseconds(10);
  t.round_trip = microseconds(50);
  t.loss = loss;
  return t;
}

constexpr BytesPerSecond link(1.25e9);
constexpr Bytes message(1e7);

}  // namespace

TEST_CASE("transport: the fullest of the paths, against small cases by hand and draws") {
  CHECK(fullest_path(1, 1) == 1);
  CHECK(fullest_path(100, 1) == 1);
  CHECK(fullest_path(1, 4) == Approx(4));
  // Two flows on two paths: together or apart with 1/2 each.
  CHECK(fullest_path(2, 2) == Approx(1.5));
  // Three flows on two paths: 3 + 0 with 1/4, else 2 + 1.
  CHECK(fullest_path(3, 2) == Approx((0.25 * 3 + 0.75 * 2) / 1.5));
  std::mt19937_64 random(3);
  for (const auto& [flows, paths] : {std::pair{8, 4}, {16, 16}, {200, 8}, {500, 2}}) {
    double sum = 0;
    const int draws = 20000;
    for (int i = 0; i < draws; ++i) {
      std::vector<int> load(static_cast<std::size_t>(paths), 0);
      for (int f = 0; f < flows; ++f) ++load[random() % static_cast<std::uint64_t>(paths)];
      sum += *std::max_element(load.begin(), load.end());
    }
    CHECK(fullest_path(flows, paths) == Approx(sum / draws * paths / flows).epsilon(0.01));
  }
  // More flows spread more evenly.
  double before = 1e9;
  for (const std::int64_t flows : {1, 4, 16, 64, 256, 1000}) {
    const double now = fullest_path(flows, 8);
    CHECK(now >= 1);
    CHECK(now < before);
    before = now;
  }
}

TEST_CASE("transport: spraying shares all uplinks, hashing at most that") {
  Transport t;
  t.flows = 8, t.paths = 4;
  CHECK(path_factor(t) == Approx(fullest_path(8, 4)));
  t.spraying = true;
  CHECK(path_factor(t) == 1);
  t.oversubscription = 4;
  CHECK(path_factor(t) == 4);  // B / o
  t.spraying = false;
  CHECK(path_factor(t) == Approx(4 * fullest_path(8, 4)));
  t.oversubscription = 0.1;  // more uplinks than anybody needs
  CHECK(path_factor(t) == 1);
}

TEST_CASE("transport: the flow that stalls longest") {
  Transport t = lossy(0);
  std::mt19937_64 random(5);
  double sum = 0;
  std::vector<double> stalls;
  for (int i = 0; i < 200000; ++i) {
    double longest = 0;
    for (int f = 0; f < 8; ++f) {
      double stall = 0;
      for (int k = 0; std::uniform_real_distribution<double>(0, 1)(random) < 0.02; ++k)
        stall += 0.01 * std::exp2(std::min(k, 6));
      longest = std::max(longest, stall);
    }
    sum += longest;
    stalls.push_back(longest);
  }
  std::sort(stalls.begin(), stalls.end());
  CHECK(expected_stall(t).value() == Approx(sum / 200000).epsilon(0.03));
  for (const double p : {0.5, 0.8, 0.95, 0.99})
    CHECK(stall_quantile(t, p).value() == Approx(stalls[static_cast<std::size_t>(p * 200000)]));
  // One loss of a tail costs one time-out.
  t.flows = 1;
  t.stall_probability = 1e-6;
  CHECK(expected_stall(t).value() == Approx(1e-8).epsilon(1e-4));
  CHECK(stall_quantile(t, 0.999).value() == 0);
  t.stall_probability = 0;
  CHECK(expected_stall(t).value() == 0);
  // More flows only make it worse; it stays finite for any probability.
  Seconds before;
  for (const std::int64_t flows : {1, 2, 16, 128, 1000}) {
    t.flows = flows;
    t.stall_probability = 0.9;
    CHECK(expected_stall(t) > before);
    CHECK(std::isfinite(expected_stall(t).value()));
    before = expected_stall(t);
  }
}

TEST_CASE("transport: tolerating nothing is the reliable message without its time-outs") {
  for (const double loss : {0.0, 0.001, 0.05, 0.4}) {
    Transport t = lossy(loss);
    const Delivery reliable = reliable_delivery(message, link, t), none = bounded_loss_delivery(message, link, t, 0);
    CHECK(reliable.mean.value() == Approx((none.mean + expected_stall(t)).value()));
    CHECK(reliable.tail >= none.tail);
    CHECK(none.lost == 0);
    t.stall_probability = 0;
    CHECK(reliable_delivery(message, link, t).mean == none.mean);
    CHECK(reliable_delivery(message, link, t).tail == none.tail);
  }
  // Nothing lost, nothing tolerated, nothing shared: the link alone.
  CHECK(reliable_delivery(message, link, Transport{}).mean == message / link);
}

TEST_CASE("transport: bounds of bounded loss") {
  for (const double loss : {0.0, 0.001, 0.01, 0.03, 0.2, 0.6}) {
    Seconds before(1e9);
    for (const double tolerated : {0.0, 0.001, 0.01, 0.02, 0.1, 0.5, 1.0}) {
      CAPTURE(loss);
      CAPTURE(tolerated);
      const Delivery d = bounded_loss_delivery(message, link, lossy(loss), tolerated);
      CHECK(d.mean <= before);  // not increasing in what is tolerated
      before = d.mean;
      CHECK(d.mean >= message * (1 - tolerated) / link * (1 - 1e-12));
      CHECK(d.lost == std::min(loss, tolerated));
      CHECK(d.mean <= bounded_loss_delivery(message, link, lossy(loss * 1.2), tolerated).mean);  // nor less with loss
      if (loss <= tolerated) {
        CHECK(d.repair_rounds == 0);
        CHECK(d.mean <= message / link);  // everything is sent once at most
      } else {
        CHECK(d.repair_rounds >= 1);
      }
    }
  }
  // Loss of 3 %, 1 % tolerated, in packets of 1500 bytes: 2 % of 10 MB are repaired in rounds of 200 000, 6 000 and
  // 180 bytes, the last of which is no packet.
  const Delivery d = bounded_loss_delivery(message, link, lossy(0.03), 0.01);
  CHECK(d.repair_rounds == 2);
  CHECK(d.mean.value() == Approx(0.99 / 0.97 * 1e7 / 1.25e9 + 2 * 50e-6));
  CHECK(bounded_loss_delivery(Bytes(0), link, lossy(0.03), 0.01).mean.value() == 0);
}

TEST_CASE("transport: both of DLCP's published ratios of flow completion come out of one time-out") {
  // ns-3, 100 Gb/s, against DCTCP: mean 0.569, tail 0.082 (arXiv 2008.08445, secondary). A message of 1 MB and a
  // time-out of a millisecond are assumed; the probability of a stall is chosen for the mean, and the tail follows.
  Transport t;
  t.timeout = milliseconds(1);
  const Bytes flow(1e6);
  const BytesPerSecond rate(12.5e9);
  const double bounded = bounded_loss_delivery(flow, rate, t, 0.01).mean.value();
  t.stall_probability = (bounded / 0.569 - (flow / rate).value()) / t.timeout.value();
  const Delivery reliable = reliable_delivery(flow, rate, t);
  CHECK(bounded / reliable.mean.value() == Approx(0.569).epsilon(0.06));
  CHECK(bounded / reliable.tail.value() == Approx(0.082).epsilon(0.2));
}
