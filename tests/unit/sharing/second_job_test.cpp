// Two jobs on one network: numbers by hand, an exact form of another derivation, and jobs that meet event by event.
#include "helpers/random_input.hpp"

#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/roofline/model_shape.hpp>
#include <stepcast/sharing/second_job.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

namespace stepcast {
namespace {

using doctest::Approx;

/// Machines of one device that 1 GB/s joins; start-ups cost nothing.
Cluster machines(std::int64_t nodes) {
  Cluster c;
  c.nodes = nodes;
  c.network = {Seconds(0), BytesPerSecond(1e9)};
  c.inside = {Seconds(0), BytesPerSecond(8e9)};
  c.provenance = {"test"};
  return c;
}

/// Four of them on a rail, four rails under a spine.
Cluster on_rails(std::int64_t nodes) {
  Cluster c = machines(nodes);
  c.levels.resize(2);
  c.levels[0].name = "rail", c.levels[0].units = 4;
  c.levels[1].name = "spine", c.levels[1].units = 4, c.levels[1].bandwidth = BytesPerSecond(1e9);
  c.levels[1].oversubscription = 4;  // as fast as one machine
  return c;
}

/// One layer that computes for `compute` in all, and then sends gradients that take `sends` on two such machines: a
/// ring of two sends each half of them twice.
Profile job_of(Seconds compute, Seconds sends) {
  Profile p;
  p.model = "one layer";
  p.layers.push_back({"layer", {compute * 0.5, Seconds(0)}, {compute * 0.5, Seconds(0)}});
  p.backward_order = {0};
  Tensor tensor;
  tensor.name = "weight";
  tensor.shape = {static_cast<std::int64_t>(1e9 * sends.value() / 4)};
  tensor.size = Bytes(4.0 * static_cast<double>(tensor.shape[0]));
  p.tensors.push_back(tensor);
  p.step_times = {compute};
  p.provenance = "test";
  return p;
}

OtherJob asked(Question question, const char* plan) {
  return {std::move(question), [plan = plan_of(plan)](const PreparedQuestion& q) { return q.answer(plan); }};
}
OtherJob alternating(Seconds compute, Seconds sends) {
  return asked({.profile = job_of(compute, sends), .cluster = machines(2)}, "bsp");
}

/// Both jobs, told of the first one; with what the first one takes beside the second.
struct Both {
  SecondJob job;
  Seconds step;
};
Both both_of(const OtherJob& first, const OtherJob& second, std::size_t level = 0) {
  const Answer<SecondJob> job = second_job_of(second, level);
  REQUIRE_MESSAGE(job, job.reason());
  const Answer<SecondJob> told = told_of_both(*job, first, second, level);
  REQUIRE_MESSAGE(told, told.reason());
  Question beside = first.question;
  beside.cluster = with_share_taken(beside.cluster, level, told->share);
  const Answer<Prediction> prediction = first.answer(PreparedQuestion(beside));
  REQUIRE_MESSAGE(prediction, prediction.reason());
  return {*told, prediction->iteration};
}

/// Mean time from start to start of two jobs that compute for a random time, then send `sends` over one link of which
/// each gets half while both send; from event to event.
std::pair<double, double> steps_by_events(double compute_1, double sends_1, double compute_2, double sends_2) {
  std::mt19937 engine(7);
  const double compute[] = {compute_1, compute_2}, sends[] = {sends_1, sends_2};
  double left[] = {0, 0}, now = 0;
  bool sending[] = {true, true};
  long steps[] = {0, 0};
  while (steps[0] + steps[1] < 400'000) {
    const double rate = sending[0] && sending[1] ? 0.5 : 1;
    double time = 1e300;
    for (int i = 0; i < 2; ++i) time = std::min(time, sending[i] ? left[i] / rate : left[i]);
    now += time;
    for (int i = 0; i < 2; ++i) {
      left[i] -= sending[i] ? time * rate : time;
      if (left[i] > 1e-12) continue;
      steps[i] += sending[i];
      sending[i] = !sending[i];
      left[i] = sending[i] ? sends[i] : std::uniform_real_distribution<double>(0, 2 * compute[i])(engine);
    }
  }
  return {now / static_cast<double>(steps[0]), now / static_cast<double>(steps[1])};
}

}  // namespace

TEST_CASE("second job: two equal jobs that only send each take twice as long") {
  const OtherJob job = alternating(Seconds(0), milliseconds(20));
  const Both both = both_of(job, job);
  CHECK(both.job.step.value() == Approx(0.020));
  CHECK(both.job.sends.value() == Approx(0.020));
  CHECK(both.job.share == Approx(0.5));
  CHECK(both.step.value() == Approx(0.040));
  CHECK(both.job.slowed.value() == Approx(0.040));
  CHECK(both.job.alone.value() == Approx(0.020));
  CHECK(both.job.at_most.value() == Approx(0.040));
  CHECK(both.job.level == "network");
}

TEST_CASE("second job: by hand, half of whose step is sent, makes messages half as long again") {
  // u_2 = 10 / (10 + 10), so that 20 ms of messages become 30: 5 + 30. The first job sends 20 of 25 ms: 10 + 10 x 1.8.
  const Both both =
      both_of(alternating(milliseconds(5), milliseconds(20)), alternating(milliseconds(10), milliseconds(10)));
  CHECK(both.job.share == Approx(1.0 / 3));
  CHECK(both.step.value() == Approx(0.035));
  CHECK(both.job.alone.value() == Approx(0.025));
  CHECK(both.job.at_most.value() == Approx(0.045));
  CHECK(both.job.slowed.value() == Approx(0.028));
}

TEST_CASE("second job: one that never crosses the level changes nothing") {
  const OtherJob second = asked({.profile = job_of(milliseconds(5), milliseconds(20)), .cluster = on_rails(2)}, "bsp");
  OtherJob first = second;
  first.question.cluster.nodes = 8;  // which do cross it
  const Both both = both_of(first, second, 1);
  CHECK(both.job.sends == Seconds(0));
  CHECK(both.job.share == 0);
  CHECK(both.step == both.job.alone);
  CHECK(both.job.at_most > both.job.alone);  // another one would
  CHECK(both.job.level == "spine");
}

TEST_CASE("second job: a flow below the rate of a level counts as what it takes, and is not slowed by its like") {
  Question question{.profile = job_of(milliseconds(5), milliseconds(20)), .cluster = on_rails(8)};
  question.cluster.levels[1].oversubscription = 1;  // the uplinks of a rail carry what four machines send
  const OtherJob ring = asked(question, "bsp@ring");
  const Both both = both_of(ring, ring, 1);
  // A ring of eight sends 2 x 7/8 of 20 MB over one card, which is a quarter of the uplinks.
  CHECK(both.job.step.value() == Approx(0.005 + 0.035));
  CHECK(both.job.sends.value() == Approx(0.035 / 4));
  CHECK(both.job.share == Approx(0.00875 / 0.04875));
  CHECK(both.step == both.job.alone);
  CHECK(both.job.at_most == both.job.alone);
}

TEST_CASE("second job: links inside machines are no part of what is shared") {
  Question question{.profile = job_of(milliseconds(5), milliseconds(20)), .cluster = machines(2)};
  question.cluster.devices_per_node = 4;
  const OtherJob job = asked(question, "bsp@hierarchical");
  const Both both = both_of(job, job);
  // Inside, 20 MB are reduced and broadcast or scattered and gathered at 8 GB/s; between, they take 20 ms as before.
  CHECK(both.job.sends.value() == Approx(0.020));
  const Seconds inside = both.job.step - milliseconds(5) - both.job.sends;
  CHECK(inside > milliseconds(1));
  const double sending = both.job.sends / both.job.step;
  CHECK(both.step.value() == Approx((milliseconds(5) + inside + both.job.sends * (1 + sending)).value()));
}

TEST_CASE("second job: of a layout what crosses machines is slowed, and tensor collectives inside are not") {
  const ModelShape shape = model_shape_of("gpt:hidden=1024,layers=4,heads=16,seq=512,vocab=8192");
  const Device device = device_named("a100-sxm4-80gb");
  ClusterDescription words;
  words.workers = "8", words.per_node = "4", words.network = "10GbE", words.inside = "250GB/s";
  Question question{
      .profile = described_profile(shape, device, 4), .shape = shape, .device = device, .cluster = cluster_of(words)};
  question.global_batch = 32;
  const OtherJob job = asked(question, "layout(tp=4)/ddp");
  const Answer<SecondJob> second = second_job_of(job, 0);
  REQUIRE_MESSAGE(second, second.reason());
  const Answer<Prediction> alone = job.answer(PreparedQuestion(question));
  // A ring over two machines sends each device's gradients once at what it has of the card, 10 Gb/s x 0.94 / 4.
  const double gradients = 0.25 * (12 * 1024.0 * 1024 * 4 + 8192 * 1024) * 2;
  CHECK(second->sends.value() == Approx(gradients / (1.25e9 * 0.94 / 4)).epsilon(0.03));
  question.cluster = with_share_taken(question.cluster, 0, second->share);
  const Answer<Prediction> beside = job.answer(PreparedQuestion(question));
  REQUIRE(alone);
  REQUIRE(beside);
  CHECK(beside->layout->breakdown.tensor == alone->layout->breakdown.tensor);
  CHECK(beside->layout->breakdown.gradients > alone->layout->breakdown.gradients);
}

TEST_CASE("second job: a plan that sends every fourth step sends a quarter a step") {
  const Question question{.profile = job_of(milliseconds(5), milliseconds(20)), .cluster = machines(2)};
  const Answer<SecondJob> rare = second_job_of(asked(question, "wfbp+local(period=4)"), 0);
  REQUIRE_MESSAGE(rare, rare.reason());
  CHECK(rare->sends.value() == Approx(0.005));
  CHECK(rare->step.value() == Approx(0.010));
}

TEST_CASE("second job: what others take already is shared by neither") {
  OtherJob job = alternating(milliseconds(0), milliseconds(20));
  job.question.cluster.transport.background = 0.5;
  const Both both = both_of(job, job);
  CHECK(both.job.step.value() == Approx(0.040));
  CHECK(both.job.sends.value() == Approx(0.040));
  CHECK(both.step.value() == Approx(0.080));
}

TEST_CASE("second job: the closed network of two customers with a shared processor takes as long") {
  test::Draw draw(11);
  for (int round = 0; round < 100; ++round) {
    const double c1 = draw.log_uniform(1e-3, 1), s1 = draw.log_uniform(1e-3, 1);
    const double c2 = draw.log_uniform(1e-3, 1), s2 = draw.log_uniform(1e-3, 1);
    const Both both = both_of(alternating(Seconds(c1), Seconds(s1)), alternating(Seconds(c2), Seconds(s2)));
    // Weights of its states in equilibrium (Baskett et al. 1975): none sends, one of them, both in either order.
    const double none = c1 * c2, first = s1 * c2, second = c1 * s2, two = 2 * s1 * s2;
    const double steps_a_second = (first + two / 2) / s1 / (none + first + second + two);
    CHECK(both.step.value() == Approx(1 / steps_a_second).epsilon(1e-6));
  }
}

TEST_CASE("second job: jobs that meet at random, event by event, take as long on average") {
  for (const auto& [c1, s1, c2, s2] : {std::array{0.5, 0.5, 0.5, 0.5}, {0.2, 0.8, 1.0, 0.3}, {1.0, 0.1, 0.1, 0.9}}) {
    const auto [first, second] = steps_by_events(c1, s1, c2, s2);
    const Both both = both_of(alternating(Seconds(c1), Seconds(s1)), alternating(Seconds(c2), Seconds(s2)));
    CHECK(both.step.value() == Approx(first).epsilon(0.02));
    CHECK(both.job.slowed.value() == Approx(second).epsilon(0.02));
  }
}

TEST_CASE("law: beside another job no step is shorter, nor longer than if both always sent") {
  test::Draw draw(3);
  constexpr double rounding = 1e-9;
  int slower = 0;
  for (int round = 0; round < 300; ++round) {
    Cluster cluster = test::random_cluster(draw);
    cluster.nodes = std::max<std::int64_t>(2, cluster.nodes);
    constexpr const char* plans[] = {"bsp", "wfbp", "ddp", "ddp+fp16"};
    const auto any = [&] {
      return asked({.profile = test::random_profile(draw, {.device = draw.coin()}), .cluster = cluster},
                   plans[draw.whole(0, 3)]);
    };
    const OtherJob first = any(), second = any();
    const Both both = both_of(first, second);
    const Answer<Seconds> sends =
        time_on_level(PreparedQuestion(first.question), *first.answer(PreparedQuestion(first.question)), 0);
    REQUIRE(sends);
    const double alone = both.job.alone.value();
    CHECK(both.job.share >= 0);
    CHECK(both.job.share <= share_of_always_sending);
    CHECK(both.step.value() >= alone * (1 - rounding));
    CHECK(both.step.value() <= both.job.at_most.value() * (1 + rounding));
    CHECK(both.job.at_most.value() <= (alone + sends->value()) * (1 + rounding));
    CHECK(both.job.slowed.value() >= both.job.step.value() * (1 - rounding));
    slower += both.step.value() > alone * 1.01 ? 1 : 0;
  }
  CHECK(slower > 50);  // the law is about something
}

TEST_CASE("second job: the level that is shared is named, or the outermost") {
  CHECK(shared_level(machines(16), "", "--beside") == 0);
  Cluster cluster = on_rails(16);
  CHECK(shared_level(cluster, "", "--beside") == 1);
  CHECK(shared_level(cluster, "rail", "--beside") == 0);
  CHECK_THROWS_AS(static_cast<void>(shared_level(cluster, "leaf", "--beside")), InputError);
  CHECK(with_share_taken(cluster, 1, 0.5).levels[1].background == 0.5);
  CHECK(with_share_taken(cluster, 0, 0.5).transport.background == 0.5);
  cluster.nodes = 1;
  CHECK_THROWS_AS(static_cast<void>(shared_level(cluster, "", "--beside")), InputError);
}

}  // namespace stepcast
