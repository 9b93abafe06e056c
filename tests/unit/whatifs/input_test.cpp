// The what-if `input`: a whole pipeline in its notation, CoorDL's changes of it, and what they take by hand.
#include "helpers/plan_cases.hpp"

#include <stepcast/question/question.hpp>
#include <stepcast/sweep/sweep.hpp>
#include <stepcast/whatif/input_pipeline.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace stepcast;
using namespace stepcast::test;
using doctest::Approx;

namespace {

/// ImageNet-1k on a SATA disk; 24 workers that prepare 199 images a second each.
const std::string imagenet = "input(dataset=146 GB, samples=1281167, storage=530 MB/s, prep=199, workers=24";

/// A step of 18 ms with 512 samples of one worker.
Question question_of(const std::string& what, std::int64_t machines = 1) {
  Profile profile = profile_of_gradients({{milliseconds(12), Bytes(1e7)}}, milliseconds(6));
  profile.batch_samples = 512;
  Question question{.profile = profile, .cluster = plain_cluster(machines, BytesPerSecond(1.25e9))};
  question.changes = scenario_of(what);
  return question;
}

double period_ms(const std::string& what, std::int64_t machines = 1) {
  const PreparedQuestion asked(question_of(what, machines));
  REQUIRE_MESSAGE(asked.profile(), (asked.profile() ? "" : asked.profile().reason()));
  return asked.profile()->input_period.value() * 1e3;
}

std::string refusal(const std::string& what) {
  const PreparedQuestion asked(question_of(what));
  return asked.profile() ? "" : asked.profile().reason();
}

}  // namespace

TEST_CASE("input: caches, loaders and coordination in the notation of what-ifs, by hand") {
  // Each worker: 1 / (what misses of 113,959 bytes at 530 MB/s, and 5.0251 ms); LRU hits 7.00 % of the reads at 0.35.
  CHECK(period_ms(imagenet + ", cache=0.35)") == Approx(111.469).epsilon(1e-5));
  CHECK(period_ms(imagenet + ", cache=0.35, loader=pipelined)") == Approx(107.203).epsilon(1e-5));
  CHECK(period_ms(imagenet + ", cache=0.8)") == Approx(109.597).epsilon(1e-5));
  CHECK(period_ms(imagenet + ", cache=0.35, policy=never-evict)") == Approx(110.184).epsilon(1e-5));
  CHECK(period_ms(imagenet + ", cache=0.35, policy=never-evict, jobs=4)") == Approx(440.737).epsilon(1e-5));
  CHECK(period_ms(imagenet + ", cache=0.35, policy=never-evict, jobs=4, coordinated=yes)") ==
        Approx(110.184).epsilon(1e-5));
  // Two machines hold 70 %, half of that the other one's: over the network of the cluster, unless another is named.
  CHECK(period_ms(imagenet + ", cache=0.35, policy=partitioned)", 2) == Approx(109.259).epsilon(1e-5));
  CHECK(period_ms(imagenet + ", cache=0.35, policy=partitioned, network=1.25 GB/s)", 2) ==
        Approx(109.259).epsilon(1e-5));
  CHECK(period_ms(imagenet + ", cache=0.35, policy=partitioned)") ==
        period_ms(imagenet + ", cache=0.35, policy=never-evict)"));
}

TEST_CASE("input: a second one changes the pipeline of the first") {
  CHECK(period_ms(imagenet + ")+input(cache=0.35)+input(policy=never-evict)") ==
        period_ms(imagenet + ", cache=0.35, policy=never-evict)"));
  CHECK(period_ms(imagenet + ", jobs=3)+input(workers=12)+input(workers=24, jobs=2)") ==
        period_ms(imagenet + ", jobs=2)"));
}

TEST_CASE("input: what is missing or makes no sense is said") {
  CHECK(refusal("input(cache=0.5)").find("dataset=146GB") != std::string::npos);
  CHECK(refusal("input(dataset=146 GB, samples=1281167)").find("storage=") != std::string::npos);
  CHECK(refusal(imagenet + ", coordinated=yes)").find("give jobs=") != std::string::npos);
  CHECK_THROWS_AS((void)scenario_of("input(policy=minio)"), InputError);
  CHECK_THROWS_AS((void)scenario_of("input(cache=1.5)"), InputError);
}

TEST_CASE("input: a prediction tells prep stall and fetch stall, and what would end them") {
  // Synthetic 18 ms. Cached 512 / (24 x 199/s) = 107.203 ms, and 111.469 ms as it is.
  const Answer<Prediction> p = PreparedQuestion(question_of(imagenet + ", cache=0.35)")).answer(plan_of("ddp"));
  REQUIRE(p);
  REQUIRE(p->input);
  CHECK(p->input->synthetic.value() == Approx(0.018));
  CHECK(p->input->cached.value() == Approx(0.107203).epsilon(1e-5));
  CHECK(p->input->prep_stall.value() == Approx(0.089203).epsilon(1e-5));
  CHECK(p->input->fetch_stall.value() == Approx(0.004266).epsilon(1e-3));
  CHECK(p->input->sufficient_cache == Approx(1));
  // 28,444 samples/s need 152 workers of 187.02; the disk delivers no more than 5,000.7 with these hits: 27 workers.
  CHECK(p->input->sufficient_workers == 27);
  // Where the batches of all jobs come late, the exchange of gradients makes the step that waits no longer.
  const Answer<Prediction> fast =
      PreparedQuestion(question_of(imagenet + ", cache=1)+input(prep=100000)")).answer(plan_of("ddp"));
  REQUIRE(fast);
  CHECK(fast->input->prep_stall == Seconds(0));
  CHECK(fast->input->fetch_stall == Seconds(0));
  CHECK_FALSE(PreparedQuestion(question_of("faster_device(by=2)")).answer(plan_of("ddp"))->input);
}

TEST_CASE("input: stalls of a divided model add up to its step") {
  Question question = question_of(imagenet + ", cache=0.35)", 2);
  question.profile =
      profile_of_gradients({{milliseconds(6), Bytes(5e6)}, {milliseconds(6), Bytes(5e6)}}, milliseconds(6));
  question.profile.batch_samples = 512;
  const Answer<Prediction> p = PreparedQuestion(question).answer(stepcast::plan_of("layout(dp=2)/ddp"));
  REQUIRE_MESSAGE(p, (p ? "" : p.reason()));
  REQUIRE(p->input);
  REQUIRE(p->layout->input);
  CHECK(p->input->prep_stall > Seconds(0));
  CHECK(p->input->fetch_stall > Seconds(0));
  CHECK((p->input->synthetic + p->input->prep_stall + p->input->fetch_stall).value() == Approx(p->iteration.value()));
}

TEST_CASE("input: an axis of a sweep") {
  SweepQuestion question;
  static_cast<Question&>(question) = question_of(imagenet + ", policy=never-evict)");
  question.plans = {stepcast::plan_of("ddp")};
  question.axes = {sweep_axis_of("input.cache=0,0.35,1", question.plans),
                   sweep_axis_of("input.policy=lru,never-evict", question.plans)};
  const std::vector<SweepRow> rows = swept(question);
  REQUIRE(rows.size() == 6);
  for (const SweepRow& row : rows) {
    REQUIRE(row.prediction);
    const std::string cache = value_text(question.axes[0], row.values[0]);
    const std::string policy = value_text(question.axes[1], row.values[1]);
    CHECK(row.prediction->iteration.value() * 1e3 ==
          Approx(period_ms(imagenet + ", cache=" + cache + ", policy=" + policy + ")")));
  }
  CHECK(column_of(question.axes[0]) == "input.cache");
  // A what-if that nobody named is added, if all that it has to be told is the axis.
  question.changes = {};
  question.axes = {sweep_axis_of("faster_device.by=1,2", question.plans)};
  const std::vector<SweepRow> faster = swept(question);
  CHECK(faster.at(0).prediction->iteration.value() >= 0.017);
  CHECK_THROWS_AS((void)sweep_axis_of("input.policy=minio", question.plans), InputError);
  CHECK_THROWS_AS((void)sweep_axis_of("input.cash=1", question.plans), InputError);
}
