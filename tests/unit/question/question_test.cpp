// One question, one answer: plans with and without a layout, after what-ifs, and along the axes of a sweep.
#include "helpers/random_input.hpp"

#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/question/question.hpp>
#include <stepcast/question/whatif_rows.hpp>
#include <stepcast/roofline/model_shape.hpp>
#include <stepcast/sweep/sweep.hpp>

#include <doctest/doctest.h>

#include <algorithm>
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
  const Answer<Prediction> asked = PreparedQuestion(question).answer(plan_of("ddp(bucket=5 MiB)"));
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

TEST_CASE("question: of a job traced under FSDP, a plan without a layout updates all parameters, as one with it") {
  Question question = small_question();
  question.profile.described = false;
  const auto update_of = [&] { return PreparedQuestion(question).profile()->optimizer; };
  const PassCost traced = question.profile.optimizer;
  CHECK(update_of().device == traced.device);
  question.profile.collectives = {
      {.operation = "reducescatter", .count = 4, .group_size = 8, .role = CollectiveRole::gradient_scatter}};
  CHECK(update_of().device == traced.device * 8);
  CHECK(update_of().host == traced.host);  // a kernel for every tensor, as before
  CHECK(updating_all(updating_all(question.profile)).optimizer.device == traced.device * 8);
  const Answer<Prediction> plain = PreparedQuestion(question).answer(plan_of("ddp"));
  const Answer<Prediction> divided = PreparedQuestion(question).answer(plan_of("layout()/ddp"));
  REQUIRE(plain);
  REQUIRE(divided);
  CHECK(plain->iteration.value() == doctest::Approx(divided->iteration.value()).epsilon(0.002));
}

TEST_CASE("question: what-ifs come before the plan, and change what a layout divides") {
  Question question = small_question();
  const Answer<Prediction> before = PreparedQuestion(question).answer(plan_of("ddp"));
  question.changes = scenario_of("faster_device(by=2)");
  const Answer<Prediction> after = PreparedQuestion(question).answer(plan_of("ddp"));
  REQUIRE(before);
  REQUIRE(after);
  CHECK(after->iteration < before->iteration);
  question.shape = model_shape_of("gpt:hidden=1024,layers=4,heads=16,seq=512,vocab=8192");
  question.global_batch = 32;
  const Answer<Prediction> refused = PreparedQuestion(question).answer(plan_of("layout(tp=2)/ddp"));
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
    const Answer<Prediction> alone = PreparedQuestion(sweep).answer(plan);
    REQUIRE(alone);
    CHECK(alone->iteration == rows[i].prediction->iteration);
  }
}

TEST_CASE("question: a described model shares out its profile's batch where nothing else is said") {
  Question question = small_question();
  question.shape = model_shape_of("gpt:hidden=1024,layers=4,heads=16,seq=512,vocab=8192");
  const PreparedQuestion by_worker(question);
  CHECK(by_worker.layout_options().global_batch == 4.0 * 8);
  question.global_batch = 32;
  const Plan plan = plan_of("layout(tp=2, mb=1)/ddp");
  CHECK(by_worker.answer(plan)->iteration == PreparedQuestion(question).answer(plan)->iteration);
  SweepQuestion sweep;
  static_cast<Question&>(sweep) = question;
  sweep.plans = {plan};
  sweep.axes = {sweep_axis_of("compute=1,2", sweep.plans)};
  CHECK_THROWS_AS((void)swept(sweep), InputError);  // the times of a description are its device's
}

TEST_CASE("question: a plan of a described model takes the same batch with a layout and without one") {
  Question question = small_question();
  question.shape = model_shape_of("gpt:hidden=1024,layers=4,heads=16,seq=512,vocab=8192");
  question.usual_batch = 64;
  const PreparedQuestion asked(question);
  const Answer<Prediction> plain = asked.answer(plan_of("ddp")), divided = asked.answer(plan_of("layout/ddp"));
  REQUIRE(plain);
  REQUIRE(divided);
  CHECK(plain->iteration == divided->iteration);
  CHECK(plain->throughput_samples_per_s * plain->iteration.value() == doctest::Approx(64));
  question.cluster.nodes = 3;  // 12 devices, which 64 samples do not divide by
  const Answer<Prediction> twelve = PreparedQuestion(question).answer(plan_of("ddp"));
  REQUIRE(twelve);
  CHECK(std::fmod(std::round(twelve->throughput_samples_per_s * twelve->iteration.value()), 12) == 0);
  question.cluster.nodes = 2;
  question.usual_batch = 0;  // the profile's batch is said
  CHECK(PreparedQuestion(question).answer(plan_of("ddp"))->layout == nullptr);
  question.usual_batch = 64;
  question.changes = scenario_of("faster_device(by=2)");  // of a step, which has a batch of its own
  const Answer<Prediction> changed = PreparedQuestion(question).answer(plan_of("ddp"));
  REQUIRE(changed);
  CHECK(changed->layout == nullptr);
}

TEST_CASE("question: a saved described profile errs as its device does") {
  const Question question = small_question();
  const Device& device = *question.device;
  REQUIRE(device.relative_error > 0);
  Question saved = question;
  saved.profile = profile_of_json(json_of(question.profile), "saved.json");
  const auto width = [](const Question& q, const char* plan) {
    const Answer<Prediction> p = PreparedQuestion(q).answer(plan_of(plan));
    REQUIRE(p);
    return (p->interval_high - p->interval_low) / (2 * p->iteration);
  };
  CHECK(width(saved, "ddp") > 1.28 * device.relative_error * 0.8);
  CHECK(width(saved, "layout(zero=3)/ddp") > 1.28 * device.relative_error * 0.8);
  Question traced = saved;
  traced.profile.described = false, traced.profile.device_error = 0;
  CHECK(width(traced, "ddp") < width(saved, "ddp"));
  Question named = question;
  named.shape = model_shape_of("gpt:hidden=1024,layers=4,heads=16,seq=512,vocab=8192");
  CHECK(width(saved, "ddp") == doctest::Approx(width(named, "ddp")));
}

TEST_CASE("question: the device that the trace names completes cluster and question") {
  Question question = small_question();
  question.device.reset();
  question.cluster.device_memory = Bytes(0);
  const PreparedQuestion prepared(question);
  CHECK(prepared.cluster().device_memory == device_named("a100-sxm4-80gb").memory);
  CHECK(prepared.on(question.cluster).cluster().device == prepared.cluster().device);
  Question named = question;
  named.device = device_named("a100-sxm4-80gb");
  const Plan plan = plan_of("layout(tp=2, mb=1)/ddp");
  CHECK(prepared.answer(plan)->iteration == PreparedQuestion(named).answer(plan)->iteration);
}

TEST_CASE("question: what violates an invariant is refused before anything is answered") {
  Question question = small_question();
  for (const double batch : {-1.0, double(NAN), double(INFINITY)}) {
    question.global_batch = batch;
    CHECK_THROWS_AS(PreparedQuestion{question}, InputError);
  }
  question = small_question();
  question.profile.layers.front().forward.host = Seconds(NAN);
  CHECK_THROWS_AS(PreparedQuestion{question}, InputError);
  question = small_question();
  question.cluster.network.bandwidth = BytesPerSecond(-1);
  CHECK_THROWS_AS(PreparedQuestion{question}, InputError);
}

TEST_CASE("question: what-if rows start from the question as it stands") {
  const Question question = small_question();
  const auto rows = whatif_rows(question, {scenario_of("faster_device(by=2)")}, plan_of("ddp"));
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].distributed->iteration == PreparedQuestion(question).answer(plan_of("ddp"))->iteration);
  Question changed = question;
  changed.changes = scenario_of("faster_device(by=2)");
  CHECK(rows[1].distributed->iteration == PreparedQuestion(changed).answer(plan_of("ddp"))->iteration);
  CHECK(rows[1].gain_distributed == rows[0].distributed->iteration / rows[1].distributed->iteration);
  CHECK(rows[1].gain_distributed > 1);
}

TEST_CASE("question: memory is the same however a plan is written, and is the sum of its parts") {
  test::Draw draw(71);
  for (int round = 0; round < 60; ++round) {
    Question question = small_question();
    if (round % 2 == 0) {
      question.profile = test::random_profile(draw, {.most_layers = 20, .device = draw.coin(), .most_bytes = 4e7});
      if (question.profile.layers.size() < 2) continue;
      question.profile.batch_samples = draw.whole(1, 64);
      if (draw.coin()) question.profile.activation_memory = Bytes(draw.log_uniform(1e6, 1e9));
      for (Tensor& t : question.profile.tensors) {
        if (round % 4 == 0) t.dtype = DataType::bf16, t.size = t.size / 2;
      }
    }
    question.cluster.nodes = draw.whole(1, 4);
    const Answer<Prediction> plain = PreparedQuestion(question).answer(plan_of("ddp"));
    const Answer<Prediction> divided = PreparedQuestion(question).answer(plan_of("layout()/ddp"));
    REQUIRE(plain);
    REQUIRE_MESSAGE(divided, divided.reason());
    CHECK(plain->memory.value() == doctest::Approx(divided->memory.value()).epsilon(1e-9));
    // By hand: Adam on numbers of four bytes holds 16 bytes a parameter, as it does in mixed precision.
    double parameters = 0;
    const Bytes kept = question.profile.activation_memory + question.profile.transient_memory;
    Bytes gradients;
    for (const Tensor& t : question.profile.tensors) {
      parameters += t.size.value() / size_of(t.dtype);
      gradients += t.size;
    }
    const Bytes buckets = question.cluster.workers() > 1 ? 2 * std::min(gradients, mebibytes(25)) : Bytes(0);
    CHECK(plain->memory.value() ==
          doctest::Approx((Bytes(16 * parameters) + kept + buckets).value() * 1.05 + 1e9).epsilon(1e-9));
    const std::string note = "the memory of activations is not known and not counted";
    const auto noted = [&](const Prediction& p) { return std::count(p.warnings.begin(), p.warnings.end(), note); };
    CHECK(noted(*plain) == (kept > Bytes(0) ? 0 : 1));
    CHECK(noted(*plain) == noted(*divided));
  }
}

TEST_CASE("question: a described model takes as much memory by its profile as by its units") {
  for (const char* text :
       {"gpt:hidden=512,layers=3,heads=8,seq=256,vocab=4096,dtype=bf16",
        "gpt:hidden=512,layers=3,heads=8,seq=256,vocab=4096,dtype=f32", "resnet18:", "vgg11:dtype=f16"}) {
    CAPTURE(std::string(text));
    Question question = small_question();
    question.profile = described_profile(model_shape_of(text), *question.device, 4);
    const Answer<Prediction> plain = PreparedQuestion(question).answer(plan_of("ddp"));
    question.shape = model_shape_of(text);
    question.global_batch = 4.0 * static_cast<double>(question.cluster.workers());
    const Answer<Prediction> divided = PreparedQuestion(question).answer(plan_of("layout(mb=4)/ddp"));
    REQUIRE(plain);
    REQUIRE_MESSAGE(divided, divided.reason());
    CHECK(plain->memory.value() == doctest::Approx(divided->memory.value()).epsilon(1e-6));
  }
}

TEST_CASE("question: a global batch of a trace of unknown batch takes as long as the trace does") {
  Question question = small_question();
  const Answer<Prediction> known = PreparedQuestion(question).answer(plan_of("layout()/ddp"));
  question.profile.batch_samples = 0;
  question.global_batch = 32;
  const Answer<Prediction> unknown = PreparedQuestion(question).answer(plan_of("ddp"));
  REQUIRE(known);
  REQUIRE_MESSAGE(unknown, unknown.reason());
  CHECK(unknown->layout->micro_batches == 1);
  CHECK(unknown->iteration.value() == doctest::Approx(known->iteration.value()));
  const std::vector<std::string>& assumed = unknown->layout->assumed;
  CHECK(std::any_of(assumed.begin(), assumed.end(), [](const std::string& line) {
    return line.find("taken for the 4 samples that the global batch gives a device") != std::string::npos;
  }));
}

}  // namespace stepcast
