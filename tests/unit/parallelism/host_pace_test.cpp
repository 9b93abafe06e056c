// Layouts of a traced job whose host sets the pace: what is sent runs while the device waits.
#include "helpers/even_profile.hpp"
#include "helpers/random_input.hpp"

#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/roofline/model_shape.hpp>
#include <stepcast/step_nodes/layout_step.hpp>
#include <stepcast/whatif/whatif.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

using namespace stepcast;

namespace {

/// Four layers that the host issues in `host` each way and the device runs in `device`, for 8 samples; 4 MB of
/// gradients each. A step of both with the update: 8 host + 4 ms.
Profile traced(Seconds host, Seconds device) {
  Profile p = test::even_profile({host, device}, 1000);
  p.optimizer = {milliseconds(4), milliseconds(1)};
  return p;
}
/// Four machines of one device; an all-reduce of the 16 MB takes 24 ms.
Cluster four_machines() {
  Cluster c;
  c.name = "four";
  c.nodes = 4;
  c.inside = c.network = {Seconds(0), BytesPerSecond(1e9)};
  return c;
}
LayoutPrediction predict(const Profile& p, const std::string& plan, double batch = 32) {
  const Answer<Workload> w = workload_of(p);
  REQUIRE_MESSAGE(w, w.reason());
  LayoutOptions options;
  options.global_batch = batch;
  const Answer<LayoutPrediction> out = predicted(*w, four_machines(), layout_plan_of(plan), options);
  REQUIRE_MESSAGE(out, plan << ": " << out.reason());
  return *out;
}
double milliseconds_of(Seconds s) { return s.value() * 1e3; }

}  // namespace

TEST_CASE("a host that sets the pace hides what the device sends while it waits") {
  // The device waits 8 x 9 ms, in which 24 ms of messages have room.
  const LayoutPrediction hidden = predict(traced(milliseconds(10), milliseconds(1)), "layout()/ddp");
  CHECK(milliseconds_of(hidden.iteration) == doctest::Approx(84));
  CHECK(hidden.breakdown.gradients == Seconds(0));
  CHECK(hidden.bound.find("compute at the pace of the host") == 0);
  // It waits 8 x 1 ms, and 3 ms in the update: of 24 ms behind the backward pass the other 13 are left. One bucket.
  const LayoutPrediction left = predict(traced(milliseconds(10), milliseconds(9)), "layout()/ddp(bucket=1GiB)");
  CHECK(milliseconds_of(left.iteration) == doctest::Approx(84 + 24 - 11));
  CHECK(milliseconds_of(left.breakdown.gradients) == doctest::Approx(13));
  // ZeRO-1 deals the update out, and sends as much.
  const LayoutPrediction dealt =
      predict(traced(milliseconds(10), milliseconds(1)), "layout(zero=1, overlap_gather=off)/ddp");
  CHECK(milliseconds_of(dealt.iteration) == doctest::Approx(81));
  // fully_shard divides every tensor instead, and has its part of the host.
  const LayoutPrediction sharded = predict(traced(milliseconds(10), milliseconds(1)), "layout(zero=1)/ddp");
  CHECK(milliseconds_of(sharded.iteration) == doctest::Approx(84 + 4 * (0.5 + 0.04 + 0.6 + 0.06)));
}

TEST_CASE("under FSDP a host that sets the pace issues its part of it, and updates as many tensors") {
  // Four equal blocks of one tensor each.
  const LayoutPrediction sharded = predict(traced(milliseconds(10), milliseconds(1)), "layout(zero=3)/ddp");
  CHECK(milliseconds_of(sharded.iteration) == doctest::Approx(84 + 4 * (0.5 + 0.04 + 0.6 + 0.06)));
  CHECK(sharded.breakdown.gradients == Seconds(0));
  CHECK(std::any_of(sharded.warnings.begin(), sharded.warnings.end(),
                    [](const std::string& a) { return a.find("the host sets the pace") == 0; }));
  // A device that sets the pace has the host issue all of this beside it, and divides the update.
  const LayoutPrediction beside = predict(traced(milliseconds(1), milliseconds(10)), "layout(zero=3)/ddp");
  CHECK(milliseconds_of(beside.breakdown.compute) == doctest::Approx(80));
  CHECK(milliseconds_of(beside.breakdown.update) == doctest::Approx(0.25));
  CHECK(std::none_of(beside.assumed.begin(), beside.assumed.end(),
                     [](const std::string& a) { return a.find("the host sets the pace") == 0; }));
}

TEST_CASE("a layout that divides data alone takes as long as its strategy does without one") {
  test::Draw draw(17);
  int host_paced = 0, exposed = 0;
  for (int round = 0; round < 80; ++round) {
    Profile p = traced(microseconds(draw.whole(500, 20'000)), microseconds(draw.whole(500, 20'000)));
    for (const char* plan : {"ddp", "wfbp", "ddp(bucket=8MiB)"}) {
      CAPTURE(plan);
      const Answer<Prediction> plain = predicted(p, four_machines(), plan_spec_of(plan));
      REQUIRE(plain);
      const LayoutPrediction divided = predict(p, "layout()/" + std::string(plan));
      CHECK(divided.iteration.value() == doctest::Approx(plain->iteration.value()).epsilon(1e-3));
      host_paced += p.layers[0].forward.host > p.layers[0].forward.device;
      exposed += divided.breakdown.gradients > Seconds(0);
    }
  }
  CHECK(host_paced > 60);
  CHECK(exposed > 60);
}

TEST_CASE("a written step of a job that the host paces ends with its prediction") {
  for (const char* plan : {"layout()/ddp", "layout(zero=1)/ddp", "layout(zero=3)/ddp", "layout(pp=2, mb=8)/ddp"}) {
    CAPTURE(plan);
    const Profile p = traced(milliseconds(10), milliseconds(1));
    LayoutOptions options;
    options.global_batch = 32;
    const Answer<LayoutStep> step = layout_step(*workload_of(p), four_machines(), layout_plan_of(plan), options);
    REQUIRE_MESSAGE(step, step.reason());
    CHECK(step->end.value() == doctest::Approx(predict(p, plan).iteration.value()).epsilon(1e-6));
  }
}

namespace {

LayoutPrediction described(const std::string& words, const std::string& plan, Seconds issue) {
  Device device = *shipped_device("h100-sxm5-80gb");
  device.issue = issue;
  LayoutOptions options;
  options.global_batch = 4;
  const Workload w = workload_of(model_shape_of("llama:hidden=1024,layers=12,heads=16,seq=512" + words), device);
  Cluster one;
  one.name = "one";
  const Answer<LayoutPrediction> out = predicted(w, one, layout_plan_of(plan), options);
  REQUIRE_MESSAGE(out, plan << ": " << out.reason());
  return *out;
}

}  // namespace

TEST_CASE("a described model is at the pace of the host from some time a kernel on") {
  for (const char* kernels : {"megatron", "compiled", "eager"}) {
    CAPTURE(kernels);
    int changes = 0;
    bool before = false;
    for (int i = 0; i <= 400; ++i) {
      const LayoutPrediction p =
          described(std::string(",kernels=") + kernels, "layout(mb=4)/ddp", Seconds(1e-6 * std::pow(1e3, i / 400.0)));
      const bool now = p.bound.find("compute at the pace of the host") != std::string::npos;
      changes += now != before;
      before = now;
    }
    CHECK(before);
    CHECK(changes == 1);
  }
}

TEST_CASE("data parallelism of a described model is one step, whoever predicts it and whatever paces it") {
  Cluster eight;
  eight.name = "eight";
  eight.nodes = 1, eight.devices_per_node = 8;
  eight.inside = {microseconds(5), BytesPerSecond(200e9)};
  for (const char* kernels : {"megatron", "compiled", "eager", "deepspeed", "compiled,launch=blocking"})
    for (const double issue : {0.0, 10e-6, 46e-6, 300e-6})
      for (const double samples : {1.0, 8.0}) {
        CAPTURE(kernels);
        CAPTURE(issue);
        CAPTURE(samples);
        Device device = *shipped_device("h100-sxm5-80gb");
        device.issue = Seconds(issue);
        const ModelShape model =
            model_shape_of(std::string("gpt:hidden=768,layers=12,heads=12,seq=1024,kernels=") + kernels);
        const Answer<Prediction> plain =
            predicted(described_profile(model, device, samples), eight, plan_spec_of("ddp"));
        REQUIRE(plain);
        LayoutOptions options;
        options.global_batch = 8 * samples;
        const Answer<LayoutPrediction> layout =
            predicted(workload_of(model, device), eight, layout_plan_of("layout()/ddp"), options);
        REQUIRE(layout);
        CHECK(layout->iteration.value() == doctest::Approx(plain->iteration.value()).epsilon(0.02));
      }
}

TEST_CASE("what-ifs of a described model change kernels and launches, and not what the host is late by") {
  Device device = *shipped_device("h100-sxm5-80gb");
  for (const char* kernels : {"megatron", "deepspeed"}) {
    CAPTURE(kernels);
    const ModelShape model =
        model_shape_of(std::string("gpt:hidden=768,layers=12,heads=12,seq=1024,kernels=") + kernels);
    const Profile one = described_profile(model, device, 1), eight = described_profile(model, device, 8);
    const auto step = [](const Profile& p) { return lone_step_time(p).value(); };
    const auto after = [&](const char* what) {
      const Answer<Profile> changed = profile_after(scenario_of(what), one);
      REQUIRE_MESSAGE(changed, changed.reason());
      return step(*changed);
    };
    CHECK(after("cuda_graphs") < step(one) / 3);
    CHECK(after("batch(to=8)") == doctest::Approx(step(eight)).epsilon(0.1));
    CHECK(after("faster_device(by=10)") > step(one) * 0.8);
  }
}

TEST_CASE("stages of a launch-bound pipeline under FSDP are even by the host's work, so that doing less is no slower") {
  Cluster eight;
  eight.name = "eight";
  eight.nodes = 1, eight.devices_per_node = 8;
  eight.inside = {microseconds(5), BytesPerSecond(200e9)};
  const Workload w = workload_of(model_shape_of("gpt:hidden=768,layers=12,heads=12,seq=1024,kernels=compiled"),
                                 *shipped_device("h100-sxm5-80gb"));
  LayoutOptions options;
  options.global_batch = 64;
  for (const char* zero : {"2", "3"}) {
    const auto step = [&](const std::string& more) {
      const Answer<LayoutPrediction> p = predicted(
          w, eight, layout_plan_of("layout(dp=4, pp=2, mb=4, zero=" + std::string(zero) + more + ")/ddp"), options);
      REQUIRE_MESSAGE(p, p.reason());
      return p->iteration;
    };
    CHECK(step("") <= step(", recompute=selective"));
    CHECK(step("") <= step(", stages=7+7"));
  }
}

TEST_CASE("a host that is a step ahead hides gradients and update behind its own work") {
  const auto parts = [](const char* words, double issue) {
    const LayoutPrediction p = described(words, "layout(mb=4)/ddp", Seconds(issue));
    CHECK(p.iteration.value() ==
          doctest::Approx((p.breakdown.compute + p.breakdown.copies + p.breakdown.update).value()));
    return p.breakdown;
  };
  CHECK(parts(",kernels=compiled", 0).update > Seconds(0));
  CHECK(parts(",kernels=compiled", 1e-3).update == Seconds(0));
  CHECK(parts(",kernels=megatron", 1e-3).update > Seconds(0));  // its host waits for the norm of the gradients
}

TEST_CASE("a host that waits for every kernel adds the time that it takes for each") {
  const auto step = [](const char* words, double issue) {
    return described(words, "layout(mb=2)/ddp", Seconds(issue)).iteration.value();
  };
  const double device = step("", 0), once = step(",launch=blocking", 20e-6), twice = step(",launch=blocking", 40e-6);
  CHECK(step(",launch=blocking", 0) == doctest::Approx(device));
  CHECK(once > device * 1.01);
  CHECK(twice - once == doctest::Approx(once - device).epsilon(1e-6));
  CHECK(step("", 20e-6) < once);
  // Of the host alone, what is launched: the same as where the device takes no time at all.
  CHECK(once - device == doctest::Approx(step("", 20e-3) / 1e3).epsilon(0.02));
}

TEST_CASE("a step that was recorded has no host that sets its pace, nor one that counts tokens") {
  const auto step = [](const std::string& words, double issue) {
    return described(words.c_str(), "layout(mb=2)/ddp", Seconds(issue)).iteration.value();
  };
  for (const std::string kernels : {"compiled", "eager", "deepspeed"}) {
    CAPTURE(kernels);
    CHECK(step(",launch=graphs,kernels=" + kernels, 1e-3) == doctest::Approx(step(",kernels=" + kernels, 0)));
    CHECK(step(",kernels=" + kernels, 1e-3) > 2 * step(",kernels=" + kernels, 0));
  }
  // Megatron-LM's norm of whole gradients is left out, which the host would read.
  const double recorded = step(",launch=graphs", 1e-3), launched = step("", 0);
  CHECK(recorded < launched);
  CHECK(recorded > 0.95 * launched);
}

TEST_CASE("layouts of one device whose copies differ by ZeRO stage are told apart by one evaluator") {
  const Workload w =
      workload_of(model_shape_of("gpt:hidden=1024,layers=12,heads=16,seq=512,dtype=bf16,kernels=deepspeed"),
                  *shipped_device("h100-sxm5-80gb"));
  Cluster one;
  one.name = "one";
  LayoutOptions options;
  options.global_batch = 4;
  const LayoutPlan plain = layout_plan_of("layout()/ddp"), sharded = layout_plan_of("layout(zero=3)/ddp");
  for (const bool plain_first : {true, false}) {
    LayoutEvaluator evaluator(w, one, options);
    for (const LayoutPlan& plan : plain_first ? std::array{plain, sharded} : std::array{sharded, plain}) {
      const Answer<LayoutPrediction> alone = predicted(w, one, plan, options), again = evaluator.predicted(plan);
      REQUIRE(alone);
      REQUIRE(again);
      CHECK(again->iteration == alone->iteration);
    }
  }
  CHECK(predicted(w, one, plain, options)->iteration > predicted(w, one, sharded, options)->iteration);
}
