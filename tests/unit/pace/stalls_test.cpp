// Stalls: the lateness of a step against draws, and slacks against timelines by hand.
#include "helpers/graph_text.hpp"
#include "helpers/plan_cases.hpp"
#include "helpers/random_input.hpp"

#include <stepcast/pace/stalls.hpp>

#include <algorithm>
#include <cmath>
#include <random>

using namespace stepcast;
using namespace stepcast::test;
using doctest::Approx;

namespace {

// How late the worst of `packets` is, each of which stalls again as often as it is lost; drawn are those that stall.
double stall_of_message(std::mt19937_64& random, const Transport& t, double packets) {
  std::binomial_distribution<int> stalled(static_cast<int>(packets), t.stalls);
  std::uniform_real_distribution<double> uniform(0, 1);
  double worst = 0;
  for (int i = stalled(random); i > 0; --i) {
    double late = 0, wait = t.timeout.value();
    do {
      late += wait;
      wait = std::min(2 * wait, 64 * t.timeout.value());
    } while (uniform(random) < std::max(t.loss, t.stalls));
    worst = std::max(worst, late);
  }
  return worst;
}

}  // namespace

TEST_CASE("stalls: the lateness of a step is that of draws, packet by packet") {
  Draw draw(17);
  for (int round = 0; round < 12; ++round) {
    Transport t{.loss = draw.between(0.0, 0.3), .stalls = draw.between(0.0005, 0.02), .timeout = milliseconds(10)};
    std::vector<StallingMessage> messages;
    for (int m = draw.whole(1, 5); m > 0; --m)
      messages.push_back({static_cast<double>(draw.whole(1, 200)), Seconds(draw.between(0.0, 0.05))});
    const StepLateness lateness(messages, t);
    std::mt19937_64 random(static_cast<std::uint64_t>(round));
    std::vector<double> late;
    double sum = 0;
    for (int i = 0; i < 20000; ++i) {
      double worst = 0;
      for (const StallingMessage& m : messages)
        worst = std::max(worst, stall_of_message(random, t, m.packets) - m.slack.value());
      late.push_back(std::max(0.0, worst));
      sum += late.back();
    }
    CHECK(lateness.mean().value() == Approx(sum / 20000).epsilon(0.06));
    for (const double at : {0.0, 0.01, 0.03, 0.1}) {
      const auto within = std::count_if(late.begin(), late.end(), [&](double l) { return l <= at; });
      CHECK(lateness.probability_up_to(Seconds(at)) == Approx(static_cast<double>(within) / 20000).epsilon(0.02));
    }
    for (const double p : {0.3, 0.5, 0.9}) {
      // Where the draws are unsure the probabilities decide.
      const Seconds q = lateness.quantile(p);
      CHECK(lateness.probability_up_to(q) >= p);
      if (q > Seconds(0)) CHECK(lateness.probability_up_to(q * (1 - 1e-9)) < p);
    }
  }
  CHECK(StepLateness().mean() == Seconds(0));
  CHECK(StepLateness().probability_up_to(Seconds(0)) == 1);
}

TEST_CASE("stalls: slicing a message changes nothing, more of anything is never earlier") {
  const Transport t{.loss = 1e-3, .stalls = 1e-5};
  const StallingMessage whole{1000, milliseconds(3)};
  const std::vector<StallingMessage> slices(50, {20, milliseconds(3)});
  CHECK(StepLateness({&whole, 1}, t).mean().value() == Approx(StepLateness(slices, t).mean().value()));
  CHECK(StepLateness({&whole, 1}, t).mean().value() ==
        Approx(-std::expm1(1000 * std::log1p(-1e-5)) * 0.197).epsilon(0.01));
  Seconds before;
  for (const double stalls : {1e-7, 1e-6, 1e-4, 1e-2}) {
    const Seconds now = StepLateness({&whole, 1}, {.loss = 1e-3, .stalls = stalls}).mean();
    CHECK(now > before);
    before = now;
  }
  before = Seconds(1e9);
  for (const double slack : {1e-3, 0.1, 0.19, 0.3, 1.0}) {
    const StallingMessage loose{1000, Seconds(slack)};
    const Seconds now = StepLateness({&loose, 1}, {.loss = 1e-3, .stalls = 1e-2}).mean();
    CHECK(now < before);
    before = now;
  }
}

TEST_CASE("stalls: steps of plans against draws of every message") {
  // Wait-free backpropagation: message k starts when its gradient is there and the channel is free; it arrives later by
  // its stall, beside the channel; the step ends when all have arrived. BSP: one message at the end.
  Draw draw(5);
  for (int round = 0; round < 10; ++round) {
    std::vector<Produced> gradients;
    for (int k = draw.whole(1, 8); k > 0; --k)
      gradients.push_back({milliseconds(draw.between(0.5, 20.0)), Bytes(draw.between(1e5, 2e7))});
    const Profile p = profile_of_gradients(gradients, milliseconds(5));
    Cluster c = plain_cluster(draw.whole(2, 8), BytesPerSecond(1e9));
    c.transport = {.stalls = 2e-6, .timeout = milliseconds(draw.between(5.0, 60.0))};
    const double n = static_cast<double>(c.nodes);
    Produced sum_of_all{Seconds(0), Bytes(0)};
    for (const Produced& g : gradients) sum_of_all.backward += g.backward, sum_of_all.size += g.size;
    const std::vector<Produced> one{sum_of_all};
    std::mt19937_64 random(static_cast<std::uint64_t>(round));
    for (const bool overlapped : {true, false}) {
      std::vector<double> steps;
      double sum = 0;
      for (int i = 0; i < 20000; ++i) {
        double ready = 5e-3, channel = 0, end = 0;
        for (const Produced& g : overlapped ? gradients : one) {
          ready += g.backward.value();
          channel = std::max(channel, ready) + 2 * (n - 1) / n * g.size.value() / 1e9;
          end = std::max(end, channel + stall_of_message(random, c.transport, 2 * (n - 1) * g.size.value() / 1500));
        }
        steps.push_back(end);
        sum += end;
      }
      const auto prediction = predicted(p, c, plan_spec_of(overlapped ? "wfbp" : "bsp"));
      REQUIRE(prediction);
      CHECK(prediction->iteration.value() == Approx(sum / 20000).epsilon(0.02));
      // As many draws as said are at most that long, and fewer are at most a hundredth less.
      for (const auto& [p_of, step] : {std::pair{0.5, prediction->step_p50}, {0.99, prediction->step_p99}}) {
        const auto share_up_to = [&](double time) {
          return static_cast<double>(std::count_if(steps.begin(), steps.end(), [&](double s) { return s <= time; })) /
                 static_cast<double>(steps.size());
        };
        CHECK(share_up_to(step.value() * 1.0001) > p_of - 0.01);
        CHECK(share_up_to(step.value() * 0.99) < p_of + 0.01);
      }
    }
  }
}

TEST_CASE("stalls: a plan that waits for its gradients a step later has that long for time-outs") {
  const Profile p = profile_of_gradients({{milliseconds(20), Bytes(1e7)}}, milliseconds(20));
  Cluster c = plain_cluster(2, BytesPerSecond(1e9));
  c.transport = {.stalls = 1e-5, .timeout = milliseconds(25)};
  // 10 MB on two machines: 13,333 packets; BSP waits for all of 25 ms, LB-SGD has 40 - 10 = 30 ms to spare for it.
  const double stalled = -std::expm1(2 * 1e7 / 1500 * std::log1p(-1e-5));
  CHECK(predicted(p, c, plan_spec_of("bsp"))->iteration.value() == Approx(50e-3 + stalled * 25e-3).epsilon(1e-3));
  CHECK(predicted(p, c, plan_spec_of("lb_sgd"))->iteration.value() == Approx(40e-3).epsilon(1e-3));
  c.transport.timeout = milliseconds(36);
  CHECK(predicted(p, c, plan_spec_of("lb_sgd"))->iteration.value() == Approx(40e-3 + stalled * 6e-3).epsilon(2e-3));
  // A plan that may lose packets waits for none of them.
  CHECK(predicted(p, c, plan_spec_of("bsp+mlt(loss=0)"))->iteration.value() == Approx(50e-3));
}

TEST_CASE("stalls: both of DLCP's published ratios of flow completion come out of one time-out") {
  // ns-3, 100 Gb/s, against DCTCP: mean 0.569, tail 0.082 (arXiv 2008.08445, secondary). A message of 1 MB and a
  // time-out of a millisecond are assumed; the probability of a stall is chosen for the mean, and the tail follows.
  const double alone = 1e6 / 12.5e9, bounded = 0.99 * alone, packets = 1e6 / 1500;
  Transport t{.timeout = milliseconds(1)};
  t.stalls = (bounded / 0.569 - alone) / 1e-3 / packets;
  const StallingMessage flow{packets, Seconds(0)};
  const StepLateness lateness({&flow, 1}, t);
  CHECK(bounded / (alone + lateness.mean().value()) == Approx(0.569).epsilon(0.06));
  CHECK(bounded / (alone + lateness.quantile(0.99).value()) == Approx(0.082).epsilon(0.2));
}
