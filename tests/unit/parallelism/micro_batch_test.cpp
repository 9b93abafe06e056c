// The micro-batch that a layout leaves open: as traced, or the fastest that fits, by looking at all of them.
#include "helpers/random_layouts.hpp"

#include <stepcast/parallelism/layout_prediction.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

using namespace stepcast;
using namespace stepcast::test;

namespace {

Answer<LayoutPrediction> predict(const Workload& w, const Cluster& c, const std::string& plan, double batch,
                                 Bytes cap) {
  LayoutOptions options;
  options.global_batch = batch;
  options.memory_cap = cap;
  return predicted(w, c, layout_plan_of(plan), options);
}

bool says(const LayoutPrediction& p, const std::string& words) {
  return std::any_of(p.assumed.begin(), p.assumed.end(),
                     [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

/// Two layers of 10 ms each way for 16 samples, on a device.
Profile traced() {
  Profile p;
  p.model = "traced";
  p.device = "device";
  p.batch_samples = 16;
  for (const char* name : {"first", "second"}) {
    Layer layer{name, {}, {}};
    layer.forward.device = layer.backward.device = milliseconds(10);
    p.layers.push_back(layer);
  }
  p.backward_order = {1, 0};
  p.tensors = {{"b", {1000, 1000}, DataType::f32, Bytes(4e6), 1}, {"a", {1000, 1000}, DataType::f32, Bytes(4e6), 0}};
  p.step_times = {milliseconds(40), milliseconds(40)};
  return checked(p, "test");
}

}  // namespace

TEST_CASE("an open micro-batch of a described model is the fastest of those that divide and fit") {
  Draw draw(81);
  int fewer = 0;
  for (int round = 0; round < 40; ++round) {
    const Device device = random_device(draw);
    const Workload w = random_workload(draw, device);
    const Cluster c = random_machines(draw);
    const std::string fields = draw.coin() || w.units.size() < 2 || c.workers() % 2 != 0 ? "" : "pp=2";
    const std::int64_t replicas = c.workers() / (fields.empty() ? 1 : 2), samples = draw.whole(1, 48);
    const double batch = static_cast<double>(replicas * samples);
    CAPTURE(fields);
    CAPTURE(samples);
    // Between the least that any takes and the most, so that some do not fit.
    Bytes least(1e18), most;
    std::vector<LayoutPrediction> all;
    for (std::int64_t mb = 1; mb <= samples; ++mb) {
      if (samples % mb != 0) continue;
      const std::string text = "layout(" + fields + (fields.empty() ? "" : ",") + "mb=" + std::to_string(mb) + ")/ddp";
      const Answer<LayoutPrediction> p = predict(w, c, text, batch, Bytes(1e18));
      if (!p) continue;
      all.push_back(*p);
      least = std::min(least, p->memory.total());
      most = std::max(most, p->memory.total());
    }
    if (all.empty()) continue;
    const Bytes cap = least + (most - least) * (draw.whole(0, 10) / 10.0);
    Seconds best(1e18);
    for (const LayoutPrediction& p : all)
      if (p.memory.total() <= cap) best = std::min(best, p.iteration);
    const Answer<LayoutPrediction> open = predict(w, c, "layout(" + fields + ")/ddp", batch, cap);
    REQUIRE_MESSAGE(open, open.reason());
    CHECK(open->iteration.value() == doctest::Approx(best.value()).epsilon(2e-9));
    CHECK(open->memory.total() <= cap);
    fewer += open->plan.layout.micro_batch < samples;
    if (samples > 1) CHECK(says(*open, "of a replica and fit the fastest; mb= says otherwise"));
  }
  CHECK(fewer > 0);
}

TEST_CASE("an open micro-batch of a traced job is the traced one where that divides, else the nearest") {
  const Answer<Workload> w = workload_of(traced());
  REQUIRE(w);
  Cluster c;
  c.name = "four";
  c.nodes = 4;
  c.inside = c.network = {microseconds(1), BytesPerSecond(1e12)};
  const auto micro_batch = [&](double batch) {
    const Answer<LayoutPrediction> p = predict(*w, c, "ddp", batch, Bytes(0));
    REQUIRE_MESSAGE(p, p.reason());
    return *p;
  };
  CHECK(micro_batch(64).plan.layout.micro_batch == 16);
  CHECK(micro_batch(64).micro_batches == 1);
  // Accumulated: as many micro-batches of the traced size as the batch asks for.
  CHECK(micro_batch(256).plan.layout.micro_batch == 16);
  CHECK(says(micro_batch(256), "micro-batches of 16 samples, as traced"));
  CHECK(micro_batch(256).iteration.value() == doctest::Approx(4 * 0.04).epsilon(0.01));
  // 20, 24 and 17 samples: none is 16, and one of them alone would be sixteen or more launches of next to nothing.
  CHECK(micro_batch(80).plan.layout.micro_batch == 20);
  CHECK(micro_batch(96).plan.layout.micro_batch == 12);
  CHECK(micro_batch(68).plan.layout.micro_batch == 17);
  CHECK(micro_batch(68).iteration.value() == doctest::Approx(0.0425).epsilon(0.01));
  CHECK(says(micro_batch(68), "the nearest to the traced batch of 16"));
  CHECK(micro_batch(24).plan.layout.micro_batch == 6);  // less than was traced
}
