// PyTorch's kernels under layouts: what casting and copying weights and gradients takes, and what memory holds of them.
#include "helpers/layout_machines.hpp"

#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace stepcast;
using doctest::Approx;

namespace {

Device device() {
  Device d = test::layout_device(DataType::bf16);
  d.kernel_floor = d.issue = Seconds(0);
  return d;
}
Workload llama(const std::string& kernels) {
  return workload_of(
      model_shape_of("llama:hidden=1024,layers=8,heads=16,seq=1024,vocab=8192,attention=flash,causal=yes,"
                     "kernels=" +
                     kernels),
      device());
}
LayoutPrediction prediction(const Workload& w, std::int64_t devices, const std::string& plan, double batch) {
  LayoutOptions options;
  options.global_batch = batch;
  const Answer<LayoutPrediction> p = predicted(w, test::layout_machines(1, devices, 4), layout_plan_of(plan), options);
  REQUIRE_MESSAGE(p, plan << ": " << (p ? "" : p.reason()));
  return *p;
}
double copied(const std::string& kernels, std::int64_t devices, const std::string& plan, double batch) {
  const Workload w = llama(kernels);
  return prediction(w, devices, plan, batch).breakdown.copies.value() * device().memory_bandwidth.value() /
         w.parameters();
}

}  // namespace

TEST_CASE("Casts and copies of weights and gradients, in bytes a parameter") {
  // Autocast: four bytes to two, and the gradient back.
  CHECK(copied("compiled", 1, "layout(mb=4)/ddp", 4) == Approx(12));
  CHECK(copied("eager", 1, "layout(mb=2)/ddp", 4) == Approx(2 * 12));
  // fully_shard on one device: casts and sends to itself in either pass, gradients into four bytes and on.
  CHECK(copied("compiled", 1, "layout(mb=4, zero=3)/ddp", 4) == Approx(2 * (6 + 4) + 6 + 8));
  // On eight the shard's cast is an eighth, and what was gathered is copied out.
  CHECK(copied("compiled", 8, "layout(dp=8, mb=4, zero=3)/ddp", 32) == Approx(2 * (6. / 8 + 4) + 6));
  CHECK(copied("compiled", 8, "layout(dp=8, mb=4, zero=2)/ddp", 32) == Approx(6. / 8 + 4 + 6));
  // Groups of two: each holds a half.
  CHECK(copied("compiled", 8, "layout(dp=8, mb=4, zero=3, shard=2)/ddp", 32) == Approx(2 * (6. / 2 + 4) + 6));
  // Megatron-LM's stay where they are.
  CHECK(copied("megatron", 8, "layout(dp=8, mb=4, zero=3)/ddp", 32) == 0);
}

TEST_CASE("Experts are copied as often as their own devices share them") {
  const Workload w = workload_of(
      model_shape_of(
          "llama:hidden=1024,layers=4,heads=16,seq=1024,vocab=8192,experts=8,topk=2,ffn=1024,attention=flash,"
          "causal=yes,kernels=compiled"),
      device());
  double experts = 0;
  for (const std::uint32_t kind : w.units) experts += w.kinds[kind].expert_parameters;
  const double bytes = prediction(w, 8, "layout(dp=8, ep=8, mb=1, zero=3)/ddp", 8).breakdown.copies.value() *
                       device().memory_bandwidth.value();
  CHECK(bytes == Approx((w.parameters() - experts) * (2 * (6. / 8 + 4) + 6) + experts / 8 * (2 * (6 + 4) + 6 + 8)));
}

TEST_CASE("One replica under several ZeRO stages: an evaluator keeps them apart") {
  const Workload w = llama("compiled");
  LayoutOptions options;
  options.global_batch = 4;
  const Cluster one = test::layout_machines(1, 1, 4);
  LayoutEvaluator evaluator(w, one, options);
  const auto step = [&](const std::string& plan) { return evaluator.predicted(layout_plan_of(plan))->iteration; };
  const Seconds without = step("layout(mb=4)/ddp"), sharded = step("layout(mb=4, zero=3)/ddp");
  CHECK(sharded > without);
  CHECK(sharded == prediction(w, 1, "layout(mb=4, zero=3)/ddp", 4).iteration);
}

TEST_CASE("Copies are part of the step") {
  const Workload w = llama("compiled");
  const LayoutPrediction p = prediction(w, 1, "layout(mb=4, zero=3)/ddp", 4);
  CHECK((p.breakdown.compute + p.breakdown.copies + p.breakdown.update) / p.iteration == Approx(1));
  // What is done again is computed again, and not copied.
  const LayoutPrediction again = prediction(w, 1, "layout(mb=4, zero=3, recompute=full)/ddp", 4);
  CHECK(again.breakdown.copies == p.breakdown.copies);
  CHECK(again.breakdown.recomputation > Seconds(0));
}

TEST_CASE("fully_shard holds whole weights, Adam's moments, and gradients in place of activations") {
  const Workload w = llama("compiled");
  const double parameters = w.parameters();
  const LayoutPrediction small = prediction(w, 1, "layout(mb=1, zero=3)/ddp", 1);
  const LayoutPrediction large = prediction(w, 1, "layout(mb=32, zero=3)/ddp", 32);
  const LayoutPrediction two = prediction(w, 1, "layout(mb=32, zero=3)/ddp", 64);
  for (const LayoutPrediction* p : {&small, &large}) {
    CHECK((p->memory.parameters + p->memory.optimizer).value() == Approx(12 * parameters));
    CHECK(p->memory.gradients.value() == Approx(4 * parameters));
  }
  // Where activations are larger than gradients these find room among them, and so does what the last unit works with;
  // with a second micro-batch neither does, and the next unit is gathered ahead.
  double largest = 0;
  for (const UnitKind& kind : w.kinds) largest = std::max(largest, kind.divided_parameters + kind.other_parameters);
  CHECK((two.memory.total() - large.memory.total()).value() == Approx(1.05 * (4 * parameters + (4 + 2 * 2) * largest)));
  const LayoutPrediction megatron = prediction(llama("megatron"), 1, "layout(mb=32)/ddp", 32);
  CHECK(megatron.memory.total() > large.memory.total());
}
