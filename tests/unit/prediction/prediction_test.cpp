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
  // By a factor of exp(2 P90), down and up.
  const double factor = std::exp(2 * 1.2815515655);
  CHECK(p.interval_low.value() < 0.2 * p.iteration.value());
  CHECK(p.interval_high.value() == doctest::Approx(factor * p.iteration.value()).epsilon(1e-2));
}

TEST_CASE("links that may be slower expose what is hidden, and never make a step shorter than its compute") {
  // 40 ms of messages hidden behind 50 ms of compute, then far slower.
  Cluster cluster = plain_cluster(2, BytesPerSecond(1e9));
  const Profile hiding = profile_of_gradients({{milliseconds(10), Bytes(20e6)}, {milliseconds(40), Bytes(20e6)}}, {});
  const Profile waiting = profile_of_gradients({{milliseconds(1), Bytes(40e6)}}, {});
  for (const double error : {0.05, 0.8}) {
    cluster.relative_error = error;
    const double factor = std::exp(error * 1.2815515655);
    Cluster slower = cluster, faster = cluster;
    slower.network.bandwidth = cluster.network.bandwidth / factor;
    faster.network.bandwidth = cluster.network.bandwidth * factor;
    for (const Profile& profile : {hiding, waiting}) {
      const Prediction p = prediction_of("wfbp", profile, cluster);
      if (error > 0.5) {
        CHECK(p.interval_high.value() >= 0.98 * prediction_of("wfbp", profile, slower).iteration.value());
        CHECK(p.interval_high.value() <= 1.1 * prediction_of("wfbp", profile, slower).iteration.value());
        CHECK(p.interval_low.value() <= 1.01 * prediction_of("wfbp", profile, faster).iteration.value());
      }
      CHECK(p.interval_low.value() >= 0.9 * p.breakdown.compute.value());
    }
  }
}

TEST_CASE("a cluster known by name alone: the answer names the log that would narrow its interval") {
  Cluster cluster = plain_cluster(16, BytesPerSecond(1e9));
  cluster.all_reduce = "nccl";
  const Profile profile = profile_of_gradients({{milliseconds(10), Bytes(20e6)}}, {});
  const auto told = [&] {
    for (const std::string& warning : prediction_of("ddp", profile, cluster).warnings)
      if (warning.find("all_reduce_perf -b 8 -e 1G -f 2") != std::string::npos) return warning;
    return std::string();
  };
  const std::string nominal = told();
  CHECK(nominal.find("nominal") != std::string::npos);
  CHECK(nominal.find("2.8 times as long") != std::string::npos);
  CHECK(nominal.find("on 2 machines") != std::string::npos);
  const Prediction before = prediction_of("ddp", profile, cluster);
  const Answer<Cluster> pair = resized(cluster, 2);
  REQUIRE(pair);
  MeasuredCollective& log = cluster.tables.emplace_back();
  log.operation = "all_reduce", log.workers = log.nodes = 2;
  for (double m = 8; m <= 1e9; m *= 4) {
    log.sizes.emplace_back(m);
    log.times.push_back(predicted(profile, *pair, plan_spec_of("ddp"))->iteration * (1 + m / 20e6));
  }
  CHECK(told().empty());
  const Prediction after = prediction_of("ddp", profile, cluster);
  CHECK(after.interval_high / after.iteration < before.interval_high / before.iteration);
}
