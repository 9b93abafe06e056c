// One question, one answer: plans with and without a layout, after what-ifs, and along the axes of a sweep.
#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/question/question.hpp>
#include <stepcast/question/whatif_rows.hpp>
#include <stepcast/roofline/model_shape.hpp>
#include <stepcast/sweep/sweep.hpp>

#include <doctest/doctest.h>

#include <cmath>

namespace stepcast {
namespace {

/// A transformer of four layers as a profile, with its times from a device's roofline.
Question small_question() {
  const ModelShape shape = model_shape_of("gpt:hidden=1024,layers=4,heads=16,seq=512,vocab=8192");
  const Device device = device_named("a100-sxm4-80gb");
  ClusterDescription words;
  words.workers = "8", words.per_node = "4", words.network = "100GbE", words.inside = "250GB/s";
  Question question{.profile = described_profile(shape, device, 4), .cluster = cluster_of(words)};
  question.cluster.device_memory = Bytes(80e9);
  question.device = device;
  return question;
}

Seconds sum_of(const Breakdown& b) {
  return b.compute + b.exposed_communication + b.codec + b.input_stall + b.bubble + b.idle;
}

}  // namespace

TEST_CASE("question: a plan without a layout is answered as predicted() answers it") {
  const Question question = small_question();
  const Answer<Prediction> asked = answer(question, plan_of("ddp(bucket=5 MiB)"));
  const Answer<Prediction> direct = predicted(question.profile, question.cluster, plan_spec_of("ddp(bucket=5 MiB)"));
  REQUIRE(asked);
  REQUIRE(direct);
  CHECK(asked->iteration == direct->iteration);
  CHECK(asked->layout == nullptr);
  CHECK(text_of(plan_of(*asked)) == "ddp(bucket=5 MiB)");
}

TEST_CASE("question: a described model divides, and the parts of the answer sum to its step") {
  Question question = small_question();
  question.shape = model_shape_of("gpt:hidden=1024,layers=4,heads=16,seq=512,vocab=8192");
  question.global_batch = 32;
  const PreparedQuestion prepared(question);
  for (const char* plan :
       {"layout(tp=2)/ddp", "layout(pp=2, mb=1)/dear", "layout(tp=4, zero=1)/ddp(bucket=1 MiB)", "ddp"}) {
    CAPTURE(plan);
    const Answer<Prediction> asked = prepared.answer(plan_of(plan));
    REQUIRE_MESSAGE(asked, asked.reason());
    REQUIRE(asked->layout);
    CHECK(asked->layout->iteration == asked->iteration);
    CHECK(sum_of(asked->breakdown).value() == doctest::Approx(asked->iteration.value()).epsilon(1e-9));
    const Answer<LayoutPrediction> direct =
        predicted(*prepared.workload(), prepared.cluster(), layout_plan_of(plan), prepared.layout_options());
    REQUIRE(direct);
    CHECK(direct->iteration == asked->iteration);
  }
}

TEST_CASE("question: what-ifs come before the plan, and change what a layout divides") {
  Question question = small_question();
  const Answer<Prediction> before = answer(question, plan_of("ddp"));
  question.changes = scenario_of("faster_device(by=2)");
  const Answer<Prediction> after = answer(question, plan_of("ddp"));
  REQUIRE(before);
  REQUIRE(after);
  CHECK(after->iteration < before->iteration);
  question.shape = model_shape_of("gpt:hidden=1024,layers=4,heads=16,seq=512,vocab=8192");
  question.global_batch = 32;
  const Answer<Prediction> refused = answer(question, plan_of("layout(tp=2)/ddp"));
  REQUIRE_FALSE(refused);
  CHECK(refused.reason().find("described") != std::string::npos);
}

TEST_CASE("question: a sweep over a number of the layout asks the same question at each point") {
  SweepQuestion sweep;
  static_cast<Question&>(sweep) = small_question();
  sweep.shape = model_shape_of("gpt:hidden=1024,layers=4,heads=16,seq=512,vocab=8192");
  sweep.global_batch = 32;
  sweep.plans = {plan_of("layout(mb=1)/ddp")};
  sweep.axes = {sweep_axis_of("tp=1,2,4", sweep.plans)};
  const std::vector<SweepRow> rows = swept(sweep);
  REQUIRE(rows.size() == 3);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    REQUIRE_MESSAGE(rows[i].prediction, rows[i].inapplicable);
    Plan plan = plan_of("layout(mb=1)/ddp");
    plan.layout = with_field(*plan.layout, "tp", std::to_string(1 << i));
    const Answer<Prediction> alone = answer(sweep, plan);
    REQUIRE(alone);
    CHECK(alone->iteration == rows[i].prediction->iteration);
  }
}

TEST_CASE("question: what-if rows start from the question as it stands") {
  const Question question = small_question();
  const auto rows = whatif_rows(question, {scenario_of("faster_device(by=2)")}, plan_of("ddp"));
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].distributed->iteration == answer(question, plan_of("ddp"))->iteration);
  Question changed = question;
  changed.changes = scenario_of("faster_device(by=2)");
  CHECK(rows[1].distributed->iteration == answer(changed, plan_of("ddp"))->iteration);
  CHECK(rows[1].gain_distributed == rows[0].distributed->iteration / rows[1].distributed->iteration);
  CHECK(rows[1].gain_distributed > 1);
}

}  // namespace stepcast
