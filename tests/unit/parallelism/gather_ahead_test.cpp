// ZeRO-1 and 2 gather updated parameters beside the first forward pass of the next step, or behind the update.
#include "helpers/layout_machines.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/plan/strategy.hpp>
#include <stepcast/search/layout_search.hpp>
#include <stepcast/step_nodes/layout_step.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace stepcast;
using doctest::Approx;

namespace {

Cluster machines(std::int64_t nodes, double network) {
  Cluster c = test::layout_machines(nodes, 8, 8);
  c.network.bandwidth = BytesPerSecond(network);
  return c;
}
Workload llama(const std::string& words = {}) {
  return workload_of(model_shape_of("llama:hidden=2048,layers=8,heads=16,ffn=5632,vocab=32000,seq=1024,attention=flash,"
                                    "causal=yes" +
                                    words),
                     test::layout_device(DataType::bf16));
}
LayoutPrediction answer(const Workload& w, const Cluster& c, const std::string& plan, double batch) {
  LayoutOptions options;
  options.global_batch = batch;
  const Answer<LayoutPrediction> p = predicted(w, c, layout_plan_of(plan), options);
  REQUIRE_MESSAGE(p, plan << ": " << (p ? "" : p.reason()));
  return *p;
}
struct Both {
  LayoutPrediction ahead, behind;
  [[nodiscard]] double saved() const { return (behind.iteration - ahead.iteration).value(); }
};
Both both(const Workload& w, const Cluster& c, const std::string& fields, double batch) {
  return {answer(w, c, "layout(" + fields + ")/ddp", batch),
          answer(w, c, "layout(" + fields + ", overlap_gather=off)/ddp", batch)};
}
/// All parameters of the model in two bytes, over all ranks.
double gathered(const Workload& w, const Cluster& c) {
  const Answer<CommunicationCost> cost = communication_cost(c);
  REQUIRE(cost);
  return (*cost)(Operation::all_gather, Bytes(w.parameters() * 2)).value();
}

}  // namespace

TEST_CASE("what is gathered beside a long forward pass costs its first unit alone") {
  const Workload w = llama();
  const Cluster fast = machines(2, 4e11);
  const Both one = both(w, fast, "zero=1, mb=8", 256);
  const double all = gathered(w, fast);
  CHECK(one.saved() > 0.7 * all);
  CHECK(one.saved() < all);
  CHECK(one.ahead.memory.total() == one.behind.memory.total());
  const Both two = both(w, fast, "zero=2, mb=8", 256);
  CHECK(two.saved() == Approx(one.saved()).epsilon(0.05));
}

TEST_CASE("what is gathered beside a short forward pass hides that pass at most") {
  const Workload w = llama();
  const Cluster slow = machines(8, 2e9);
  const Both once = both(w, slow, "zero=1, mb=1", 64);
  const double passes = answer(w, machines(8, 4e12), "layout(zero=1, mb=1)/ddp", 64).breakdown.compute.value();
  CHECK(once.saved() > -0.01 * once.behind.iteration.value());  // many messages begin more often than one
  CHECK(once.saved() < passes / 2);                             // a forward pass is a third of both
}

TEST_CASE("programs that gather behind the update do so whatever the layout says, and so does no overlap at all") {
  const Cluster c = machines(4, 2e10);
  CHECK(both(llama(",kernels=deepspeed"), c, "zero=1, mb=2", 128).saved() == 0);
  CHECK(both(llama(), c, "zero=1, mb=2, overlap_dp=off", 128).saved() == 0);
  for (const std::string zero : {"0", "3"}) {
    LayoutOptions options;
    options.global_batch = 128;
    const LayoutPlan plan = layout_plan_of("layout(zero=" + zero + ", mb=2, overlap_gather=off)/ddp");
    const Answer<LayoutPrediction> p = predicted(llama(), c, plan, options);
    CHECK_FALSE(p);
    if (!p) CHECK(p.reason().find("zero is " + zero) != std::string::npos);
  }
  const auto says = [&](const LayoutPrediction& p, std::string_view text) {
    return std::ranges::any_of(p.assumed, [&](const std::string& a) { return a.find(text) != std::string::npos; });
  };
  const Both one = both(llama(), c, "zero=1, mb=2", 128);
  CHECK(says(one.ahead, "gathered beside the first forward pass"));
  CHECK(says(one.behind, "gathered behind the update"));
}

TEST_CASE("stages behind the first gather while they wait for their first micro-batch") {
  const Workload w = llama();
  const Cluster c = machines(4, 2e10);
  const Both one = both(w, c, "zero=1, mb=1", 32);
  const Both staged = both(w, c, "zero=1, mb=1, pp=4", 32);
  CHECK(one.saved() > 0);
  CHECK(staged.saved() > 0);
  // What is left is of the first stage: no more than all stages would leave one after the other.
  CHECK(staged.ahead.breakdown.gradients <= staged.behind.breakdown.gradients);
}

TEST_CASE("what a device's chunks gather goes over its links one after the other") {
  const Workload w = llama();
  const Cluster slow = machines(4, 1e9);
  const Both one = both(w, slow, "zero=1, mb=1, pp=2", 32), four = both(w, slow, "zero=1, mb=1, pp=2, chunks=4", 32);
  // No more is hidden than the time until a device's last chunk begins, a few forward passes of one micro-batch.
  CHECK(four.saved() < one.saved() + 0.1 * four.behind.iteration.value());
}

TEST_CASE("fully_shard sums unit by unit, whatever buckets the plan has") {
  const Cluster c = machines(4, 2e10);
  const Workload eager = llama(",kernels=eager"), megatron = llama();
  const auto step = [&](const Workload& w, const std::string& plan) { return answer(w, c, plan, 128).iteration; };
  for (const std::string fields : {"zero=1, mb=1", "zero=1, mb=1, shard=8"}) {
    const std::string layout = "layout(" + fields + ")/";
    CHECK(step(eager, layout + "ddp(bucket=1 GiB)") == step(eager, layout + "ddp(bucket=1 MiB)"));
    CHECK(step(megatron, layout + "ddp(bucket=1 GiB)") != step(megatron, layout + "ddp(bucket=1 MiB)"));
  }
}

TEST_CASE("a search for DeepSpeed gathers behind the update") {
  LayoutSearchOptions options;
  options.layout.global_batch = 128;
  LayoutSpace space;
  space.framework = "deepspeed";
  space.zero = {2};
  const Workload w = llama(",kernels=compiled");
  const Answer<LayoutSearchResult> found = best_layouts(w, machines(2, 2e10), space, options);
  REQUIRE(found);
  REQUIRE_FALSE(found->best.empty());
  CHECK_FALSE(found->best.front().plan.layout.overlap_gather);
  space.framework = "megatron";
  CHECK(best_layouts(w, machines(2, 2e10), space, options)->best.front().plan.layout.overlap_gather);
}

TEST_CASE("a written step with its gathers ahead ends with its prediction") {
  for (const std::string kernels : {"", ",kernels=eager"})
    for (const std::string fields : {"zero=1, mb=1", "zero=2, mb=2", "zero=1, mb=1, pp=2", "zero=1, mb=2, tp=2, sp=on",
                                     "zero=1, shard=8, mb=1", "zero=1, mb=1, pp=2, chunks=2"}) {
      const Workload w = llama(kernels);
      const Cluster c = machines(4, 2e10);
      LayoutOptions options;
      options.global_batch = 64;
      const LayoutPlan plan = layout_plan_of("layout(" + fields + ")/ddp");
      const Answer<LayoutStep> step = layout_step(w, c, plan, options);
      REQUIRE_MESSAGE(step, fields << ": " << (step ? "" : step.reason()));
      const LayoutPrediction p = answer(w, c, text_of(plan), 64);
      CAPTURE(kernels);
      CAPTURE(fields);
      CHECK(step->end.value() ==
            Approx(p.iteration.value()).epsilon(fields.find("pp") == std::string::npos ? 1e-3 : 0.02));
    }
}

TEST_CASE("fully_shard that sums once a step holds whole gradients, and with one micro-batch none") {
  const Cluster c = machines(4, 2e10);
  const Workload w = llama(",kernels=eager");
  const auto memory = [&](const std::string& fields, double batch) {
    return answer(w, c, "layout(" + fields + ")/ddp", batch).memory;
  };
  const MemoryUse once = memory("zero=1, mb=1", 32), several = memory("zero=1, mb=1", 128);
  CHECK(once.total() == memory("zero=2, mb=1", 32).total());
  CHECK(several.gradients == Bytes(w.parameters() * 4));
  CHECK(several.parameters == once.parameters);
  CHECK(several.optimizer == once.optimizer);
  // It reduces once where zero=2 reduces in every micro-batch.
  const double sums_once = answer(w, c, "layout(zero=1, mb=1)/ddp", 512).iteration.value();
  CHECK(sums_once < answer(w, c, "layout(zero=2, mb=1)/ddp", 512).iteration.value());
}
