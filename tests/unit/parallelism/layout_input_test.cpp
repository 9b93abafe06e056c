// Input pipelines under layouts: a machine loads for the replicas that it feeds.
#include "helpers/even_profile.hpp"
#include "helpers/random_input.hpp"

#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/prediction/prediction.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

using namespace stepcast;

namespace {

/// Four layers of 10 ms each way for 8 samples, on a device; what is sent is small.
Profile traced() {
  Profile p = test::even_profile({Seconds(0), milliseconds(10)}, 100);
  p.step_times = {milliseconds(80), milliseconds(80)};
  return p;
}
Cluster two_machines_of_four() {
  Cluster c;
  c.name = "two";
  c.nodes = 2;
  c.devices_per_node = 4;
  c.inside = c.network = {Seconds(0), BytesPerSecond(1e12)};
  return c;
}
LayoutPrediction predict(const Profile& p, const std::string& plan, double batch) {
  const Answer<Workload> w = workload_of(p);
  REQUIRE_MESSAGE(w, w.reason());
  LayoutOptions options;
  options.global_batch = batch;
  const Answer<LayoutPrediction> out = predicted(*w, two_machines_of_four(), layout_plan_of(plan), options);
  REQUIRE_MESSAGE(out, out.reason());
  return *out;
}

}  // namespace

TEST_CASE("a layout waits for its loaders, and says so") {
  Profile p = traced();
  const double free = predict(p, "layout()/ddp", 64).iteration.value();
  // Four devices of a machine take 8 samples each: all of them every 200 ms.
  p.input_period = milliseconds(200);
  const LayoutPrediction plain = predict(p, "layout()/ddp", 64);
  CHECK(plain.iteration.value() == doctest::Approx(0.2));
  CHECK(plain.breakdown.input.value() == doctest::Approx(0.2 - free));
  CHECK(plain.bound.find("waiting for input") == 0);
  CHECK(plain.throughput_samples_per_s == doctest::Approx(64 / 0.2));
  // Pipelines over both machines: every one of four replicas begins on the first machine, which loads all samples.
  CHECK(predict(p, "layout(pp=2, mb=8)/ddp", 64).iteration.value() == doctest::Approx(0.4));
  // Pipelines inside machines: two replicas a machine of twice the samples.
  CHECK(predict(p, "layout(pp=2, mb=8, order=pp-tp-cp-dp)/ddp", 64).iteration.value() == doctest::Approx(0.2));
  // Pipelines that fill a machine: one replica of four times the samples each.
  CHECK(predict(p, "layout(pp=4, mb=8, order=pp-tp-cp-dp)/ddp", 64).iteration.value() == doctest::Approx(0.2));
  // Half the batch takes half the time to load.
  CHECK(predict(p, "layout(mb=4)/ddp", 32).breakdown.input.value() ==
        doctest::Approx(0.1 - predict(traced(), "layout(mb=4)/ddp", 32).iteration.value()).epsilon(1e-6));
}

TEST_CASE("a layout of degree one waits for its input as the profile does") {
  test::Draw draw(91);
  int waited = 0;
  for (int round = 0; round < 60; ++round) {
    Profile p = traced();
    const bool host = draw.coin();
    if (host) {
      for (Layer& l : p.layers)
        std::swap(l.forward.host, l.forward.device), std::swap(l.backward.host, l.backward.device);
      p.device.clear();
    }
    (draw.coin() || !host ? p.input_period : p.input) = microseconds(draw.whole(1, 300'000));
    const Answer<Prediction> plain = predicted(p, two_machines_of_four(), plan_spec_of("ddp"));
    REQUIRE(plain);
    const LayoutPrediction divided = predict(p, "layout()/ddp", 64);
    CHECK(divided.iteration.value() == doctest::Approx(plain->iteration.value()).epsilon(1e-3));
    CHECK(std::abs(divided.breakdown.input.value() - plain->breakdown.input_stall.value()) <
          2e-3 * plain->iteration.value());
    waited += divided.breakdown.input > Seconds(0);
  }
  CHECK(waited > 20);
}
