// Laws over questions whose plans divide the model: random described models on random machines under random layouts.
// Every law compares an answer with another one that must follow from it.
#include "helpers/random_layouts.hpp"
#include "helpers/random_plan.hpp"

#include <stepcast/question/question.hpp>
#include <stepcast/sweep/sweep.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>

namespace stepcast {
namespace {

using test::Draw;

constexpr int rounds = 1300;  // a law that leaves cases out still has a thousand
constexpr double tolerance = 1e-9;

/// A described model on machines, shared out by a layout, and the answer.
struct Case {
  Question question;
  Plan plan;
  Prediction answer;
};

Question random_question(Draw& draw) {
  const int heads = 1 << draw.whole(1, 4);
  const std::string model =
      "gpt:hidden=" + std::to_string(heads * 8 * draw.whole(1, 16)) + ",layers=" + std::to_string(draw.whole(1, 12)) +
      ",heads=" + std::to_string(heads) + ",seq=" + std::to_string(64 << draw.whole(0, 3)) +
      ",vocab=" + std::to_string(1024 * draw.whole(1, 8)) + (draw.whole(0, 4) == 0 ? ",experts=4,topk=2" : "");
  Question q;
  q.device = test::random_device(draw);
  q.shape = model_shape_of(model);
  q.profile = described_profile(*q.shape, *q.device, 1 << draw.whole(0, 2));
  q.cluster = test::random_machines(draw);
  q.global_batch = static_cast<double>(q.cluster.workers() << draw.whole(0, 3));
  return q;
}

Layout random_layout(Draw& draw, std::int64_t devices) {
  Layout l;
  const auto degree = [&] {
    std::int64_t d = 1 << draw.whole(0, 2);
    while (devices % d != 0) d /= 2;
    devices /= d;
    return d;
  };
  l.tensor = degree();
  l.pipeline = degree();
  if (draw.whole(0, 3) == 0) l.context = degree();
  l.zero = draw.whole(0, 3);
  l.micro_batch = draw.coin() ? 0 : 1 << draw.whole(0, 2);
  if (l.pipeline > 1 && draw.whole(0, 3) == 0) l.chunks = 2;
  l.recomputation = static_cast<Recomputation>(draw.whole(0, 2));
  l.sequence_parallel = draw.coin();
  l.overlap_pipeline = draw.coin();
  l.overlap_tensor = static_cast<TensorOverlap>(draw.whole(0, l.sequence_parallel ? 2 : 1));
  l.overlap_gradients = draw.coin();
  if (draw.whole(0, 2) == 0) l.schedule = &test::any_of(draw, pipeline_schedules());
  std::shuffle(l.order.begin(), l.order.end(), draw.engine());
  return l;
}

template <class Check>
void for_random_layouts(unsigned seed, const Check& check) {
  Draw draw(seed);
  int answered = 0;
  for (int round = 0; answered < rounds; ++round) {
    REQUIRE(round < 20 * rounds);
    const Question question = random_question(draw);
    const char* strategies[] = {"ddp", "ddp(bucket=1 MiB)", "wfbp", "bsp", "dear"};
    const Layout layout = random_layout(draw, question.cluster.workers());
    const Plan plan{plan_spec_of(strategies[draw.whole(0, 4)]), layout};
    const Answer<Prediction> answer = PreparedQuestion(question).answer(plan);
    if (!answer) continue;
    ++answered;
    CAPTURE(round);
    CAPTURE(text_of(plan));
    check(Case{question, plan, *answer});
  }
}

void check_same(const Prediction& a, const Prediction& b) {
  CHECK(a.iteration == b.iteration);
  CHECK(a.memory == b.memory);
  CHECK(a.breakdown.compute == b.breakdown.compute);
  CHECK(a.breakdown.exposed_communication == b.breakdown.exposed_communication);
  CHECK(a.breakdown.bubble == b.breakdown.bubble);
}

}  // namespace

TEST_CASE("law of layouts: step and memory are the same however the layout is written") {
  for_random_layouts(51, [](const Case& c) {
    const PreparedQuestion prepared(c.question);
    const Answer<Prediction> written = prepared.answer(plan_of(text_of(c.plan)));
    REQUIRE(written);
    check_same(c.answer, *written);
    // With everything spelled out that it left open.
    const Answer<Prediction> spelled = prepared.answer(plan_of(c.answer));
    REQUIRE(spelled);
    check_same(c.answer, *spelled);
  });
}

TEST_CASE("law of layouts: a plan that divides nothing is the layout of degree one") {
  Draw draw(52);
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const Question question = random_question(draw);
    const PreparedQuestion prepared(question);
    const PlanSpec spec = plan_spec_of(draw.coin() ? "ddp" : "wfbp");
    const Answer<Prediction> plain = prepared.answer(Plan(spec)), divided = prepared.answer(Plan(spec, Layout{}));
    REQUIRE(bool(plain) == bool(divided));
    if (plain) check_same(*plain, *divided);
  }
}

TEST_CASE("law of layouts: a sweep's row is the answer to the question at its point") {
  for_random_layouts(53, [](const Case& c) {
    SweepQuestion sweep;
    static_cast<Question&>(sweep) = c.question;
    sweep.plans = {c.plan};
    sweep.axes = {sweep_axis_of("bandwidth=1Gb/s,100Gb/s", sweep.plans), sweep_axis_of("zero=0,1", sweep.plans)};
    const std::vector<SweepRow> rows = swept(sweep, {.threads = 1});
    REQUIRE(rows.size() == 4);
    for (const SweepRow& row : rows) {
      Question there = c.question;
      (there.cluster.nodes > 1 ? there.cluster.network : there.cluster.inside).bandwidth =
          BytesPerSecond(row.values[0]);
      Plan plan = c.plan;
      plan.layout->zero = static_cast<int>(row.values[1]);
      const Answer<Prediction> alone = PreparedQuestion(there).answer(plan);
      REQUIRE(bool(alone) == row.prediction.has_value());
      if (alone) check_same(*alone, *row.prediction);
    }
  });
}

TEST_CASE("law of layouts: more bandwidth or less latency is never slower") {
  for_random_layouts(54, [](const Case& c) {
    // With the same units in each stage: other links may balance stages otherwise, which is no better for every step.
    Plan same = plan_of(c.answer);
    if (same.layout->pipeline > 1) {
      const PipelineSchedule* schedule = same.layout->schedule;
      if (same.layout->chunks > 1 || schedule == nullptr || schedule->name != "1f1b") return;
      for (const StageSummary& stage : c.answer.layout->stages) same.layout->stage_units.push_back(stage.units);
    }
    Question faster = c.question, sooner = c.question;
    faster.cluster.network.bandwidth *= 1.5, faster.cluster.inside.bandwidth *= 1.5;
    sooner.cluster.network.latency *= 0.5, sooner.cluster.inside.latency *= 0.5, sooner.cluster.message_overhead *= 0.5;
    for (const Question& better : {faster, sooner}) {
      const Answer<Prediction> then = PreparedQuestion(better).answer(same);
      REQUIRE(then);
      INFO(c.answer.iteration.value(), " s, then ", then->iteration.value(), " s");
      CHECK(then->iteration <= c.answer.iteration * (1 + tolerance));
    }
  });
}

TEST_CASE("law of layouts: no device is faster than its peak, and no step slower than one thing after another") {
  for_random_layouts(55, [](const Case& c) {
    REQUIRE(c.answer.layout);
    const LayoutPrediction& layout = *c.answer.layout;
    const LayoutBreakdown& b = layout.breakdown;
    const Seconds parts = b.compute + b.recomputation + b.tensor + b.context + b.expert + b.pipeline + b.bubble +
                          b.gradients + b.update + b.input + b.other;
    CHECK(parts.value() == doctest::Approx(c.answer.iteration.value()).epsilon(1e-6));
    CHECK(layout.model_flops_utilization <= 1);
    CHECK(layout.model_flops_utilization > 0);
    const double batches = static_cast<double>(layout.micro_batches);
    Seconds busiest, in_a_row;
    for (const StageSummary& s : layout.stages) {
      const Seconds own = batches * (s.forward + s.backward);
      busiest = std::max(busiest, own);
      in_a_row += own;
      CHECK(c.answer.iteration >= s.end * (1 - tolerance));
    }
    // In both directions a device holds two stages, each for half of the micro-batches.
    const PipelineSchedule* schedule = c.plan.layout->schedule;
    if (schedule != nullptr && schedule->name == "bidirectional") busiest *= 0.5;
    CHECK(c.answer.iteration >= busiest * (1 - tolerance));
    // The last backward pass may take longer than the others, where gradients are reduced beside it.
    Seconds last;
    for (const StageSummary& s : layout.stages) last += std::max(Seconds(0), s.last_backward - s.backward);
    CHECK(c.answer.iteration <= (in_a_row + last + b.pipeline + b.gradients + b.update + b.input + b.other) * 1.000001);
  });
}

TEST_CASE("law of layouts: a job of twice the batch takes at least as long, and no less memory") {
  for_random_layouts(56, [](const Case& c) {
    Question twice = c.question;
    twice.global_batch *= 2;
    const Plan same = plan_of(c.answer);
    const Answer<Prediction> then = PreparedQuestion(twice).answer(same);
    if (!then) return;  // a schedule may want other numbers of micro-batches
    CHECK(then->iteration >= c.answer.iteration * (1 - tolerance));
    CHECK(then->memory >= c.answer.memory * (1 - tolerance));
  });
}

}  // namespace stepcast
