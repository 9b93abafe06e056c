#include "helpers/plan_cases.hpp"

#include <stepcast/prediction/prediction.hpp>

#include <doctest/doctest.h>

#include <cmath>

using namespace stepcast;
using namespace stepcast::test;

namespace {

// Two layers on a device that is faster than the host issues; input 10 ms, host 12 ms, device 4 ms a step.
Profile fed_profile() {
  Profile p;
  p.model = "fed";
  p.device = "device";
  const PassCost pass{milliseconds(3), milliseconds(1)};
  p.layers = {{"first", pass, pass}, {"second", pass, pass}};
  p.backward_order = {1, 0};
  p.tensors = {{"b", {}, DataType::f32, Bytes(4e3), 1}, {"a", {}, DataType::f32, Bytes(4e3), 0}};
  p.input = milliseconds(10);
  p.step_times = {milliseconds(22), milliseconds(22)};
  return p;
}

Prediction prediction_of(const std::string& plan, const Profile& profile, const Cluster& cluster) {
  const Answer<Prediction> p = predicted(profile, cluster, plan_spec_of(plan));
  REQUIRE_MESSAGE(bool(p), (p ? "" : p.reason()));
  return *p;
}

}  // namespace

TEST_CASE("a device that waits for its input: the stall is input, the rest of the wait is the host's") {
  for (const bool host_waits : {false, true}) {
    Profile profile = fed_profile();
    profile.host_waits_for_device = host_waits;
    const Prediction p = prediction_of("ddp", profile, plain_cluster(1, BytesPerSecond(1e9)));
    CHECK(p.iteration.value() == doctest::Approx(lone_step_time(profile).value()));
    CHECK(p.breakdown.input_stall.value() >= 0.008);
    CHECK(p.breakdown.input_stall <= profile.input);
    CHECK(p.breakdown.idle.value() == doctest::Approx(0));
    if (!host_waits) CHECK(p.bound.starts_with("host issue"));
  }
}

TEST_CASE("input on the host alone: a part of its own, and the bound when it is the largest") {
  Profile profile = profile_of_gradients({{milliseconds(2), Bytes(4)}}, milliseconds(1), milliseconds(1));
  profile.input = milliseconds(30);
  const Prediction p = prediction_of("ddp", profile, plain_cluster(1, BytesPerSecond(1e9)));
  CHECK(p.iteration.value() == doctest::Approx(0.034));
  CHECK(p.breakdown.input_stall.value() == doctest::Approx(0.030));
  CHECK(p.breakdown.compute.value() == doctest::Approx(0.004));
  CHECK(p.bound.starts_with("waiting for input"));
  CHECK(p.critical_path.front() == "input");
}

TEST_CASE("the critical path is the cycle that sets the pace, not what lags behind at the end") {
  // The host needs 22 ms a step, the device 4 ms; the all-reduces of 4 ms end long before the host is back.
  Cluster cluster = plain_cluster(2, BytesPerSecond(1e9), milliseconds(2));
  const Prediction p = prediction_of("wfbp", fed_profile(), cluster);
  CHECK(p.iteration.value() == doctest::Approx(0.022));
  CHECK(p.bound.starts_with("host issue"));
  for (const std::string& name : p.critical_path) CHECK((name == "input" || name.starts_with("issue ")));
}

TEST_CASE("host time that only the end of a step waits for is compute, not idleness") {
  Profile profile = fed_profile();
  profile.input = Seconds(0);
  profile.other.host = milliseconds(5);
  const Prediction p = prediction_of("ddp", profile, plain_cluster(1, BytesPerSecond(1e9)));
  CHECK(p.breakdown.idle.value() == doctest::Approx(0));
  CHECK(p.breakdown.compute.value() == doctest::Approx(p.iteration.value()));
}

TEST_CASE("an error that is larger than the step keeps the upper end of the interval") {
  Cluster cluster = plain_cluster(2, BytesPerSecond(1e6));
  cluster.relative_error = 2;
  const Profile profile = profile_of_gradients({{microseconds(1), Bytes(1e6)}}, microseconds(1));
  const Prediction p = prediction_of("bsp", profile, cluster);
  CHECK(p.interval_low == Seconds(0));
  CHECK(p.interval_high.value() == doctest::Approx((1 + 2 * 1.2815515655) * p.iteration.value()).epsilon(1e-3));
}
