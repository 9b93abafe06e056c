// ZeRO++: a second copy of the parameters for backward passes, parameters in 8 bits, gradients in 4.
#include "helpers/layout_machines.hpp"

#include <stepcast/layout/process_group.hpp>
#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/parallelism/priced_split.hpp>
#include <stepcast/search/layout_search.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace stepcast;
using doctest::Approx;

namespace {

Cluster machines(std::int64_t nodes, double network = 2.2e10) {
  Cluster c = test::layout_machines(nodes, 8, 8);
  c.network.bandwidth = BytesPerSecond(network);
  return c;
}
/// By PyTorch's kernels, compiled, unless `more` says otherwise.
Workload llama(const std::string& more = ",kernels=compiled") {
  return workload_of(
      model_shape_of("llama:hidden=2048,layers=8,heads=16,ffn=5632,vocab=32000,seq=1024,attention=flash,causal=yes" +
                     more),
      test::layout_device(DataType::bf16));
}
Answer<LayoutPrediction> predict(const Workload& w, const Cluster& c, const std::string& plan, double batch) {
  LayoutOptions options;
  options.global_batch = batch;
  return predicted(w, c, layout_plan_of(plan), options);
}
LayoutPrediction answer(const Workload& w, const Cluster& c, const std::string& plan, double batch) {
  Answer<LayoutPrediction> p = predict(w, c, plan, batch);
  REQUIRE_MESSAGE(p, plan << ": " << (p ? "" : p.reason()));
  return *std::move(p);
}
std::string refusal(const std::string& plan, std::int64_t nodes = 4) {
  const Answer<LayoutPrediction> p = predict(llama(), machines(nodes), plan, 64);
  return p ? "" : p.reason();
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// All-gather of all parameters, unit by unit, over a group along these ranks.
Seconds gathered(const Workload& w, const Cluster& c, const RankAxis& ranks, double bytes) {
  const PricedGroup group = priced(group_cluster(c, group_shape(c, c.workers(), std::span(&ranks, 1))));
  Seconds sum;
  for (const std::uint32_t kind : w.units) {
    const UnitKind& k = w.kinds[kind];
    sum += group.cost(Operation::all_gather, Bytes((k.divided_parameters + k.other_parameters) * bytes));
  }
  return sum;
}

}  // namespace

TEST_CASE("ZeRO++ is said in a layout and read back, and machine is a number of ranks on a cluster") {
  for (const std::string text : {"layout(zero=3, hpz=8)/ddp", "layout(zero=3, hpz=machine, qwz=on, qgz=on)/ddp"})
    CHECK(text_of(layout_plan_of(text)) == text);
  CHECK(answer(llama(), machines(4), "fsdp(hpz=machine, mb=1)", 64).plan.layout.backward_shard == 8);
  CHECK(answer(llama(), machines(4), "layout(tp=2, zero=3, hpz=machine, mb=1)/ddp", 64).plan.layout.backward_shard ==
        4);
  CHECK(answer(llama(), machines(1), "fsdp(hpz=machine, mb=1)", 64).plan.layout.backward_shard == 0);
}

TEST_CASE("A second copy takes the place of every backward gather, and its own memory") {
  const Workload w = llama();
  const Cluster c = machines(4);
  const std::string plan = "layout(zero=3, mb=1, overlap_dp=off";
  const Seconds saved = gathered(w, c, {1, 32}, 2) - gathered(w, c, {1, 8}, 2);
  for (const double micro_batches : {1.0, 3.0}) {
    const LayoutPrediction all = answer(w, c, plan + ")/ddp", 32 * micro_batches);
    const LayoutPrediction group = answer(w, c, plan + ", hpz=8)/ddp", 32 * micro_batches);
    // Beside the gathers PyTorch's shards are copied and cast otherwise: little.
    CHECK((all.iteration - group.iteration).value() == Approx(saved.value() * micro_batches).epsilon(0.02));
    CHECK(group.memory.total() > all.memory.total());
  }
}

TEST_CASE("DeepSpeed's second copy is there until the update: all passes but the first gather from it") {
  const Workload w = llama(",kernels=deepspeed");
  const Cluster c = machines(4);
  const std::string plan = "layout(zero=3, mb=1, overlap_dp=off";
  const Seconds wide = gathered(w, c, {1, 32}, 2), narrow = gathered(w, c, {1, 8}, 2);
  for (const double micro_batches : {1.0, 4.0}) {
    const LayoutPrediction all = answer(w, c, plan + ")/ddp", 32 * micro_batches);
    const LayoutPrediction group = answer(w, c, plan + ", hpz=8)/ddp", 32 * micro_batches);
    CHECK((all.iteration - group.iteration).value() ==
          Approx(((wide - narrow) * (2 * micro_batches - 1)).value()).epsilon(1e-6));
    CHECK((group.memory.parameters - all.memory.parameters).value() == Approx(w.parameters() * 2 / 8).epsilon(1e-6));
  }
}

TEST_CASE("Parameters in 8 bits take half the bytes of their gathers, and kernels before and behind") {
  const Workload w = llama(",kernels=deepspeed");
  const Cluster c = machines(8, 2e9);
  const std::string plan = "layout(zero=3, mb=1, overlap_dp=off";
  const LayoutPrediction all = answer(w, c, plan + ")/ddp", 64), eight = answer(w, c, plan + ", qwz=on)/ddp", 64);
  const Seconds saved = (gathered(w, c, {1, 64}, 2) - gathered(w, c, {1, 64}, 1)) * 2.0;
  const Seconds rest = saved - (all.iteration - eight.iteration);
  // At least the codes are read and two bytes written, in both passes.
  CHECK(rest > 2.0 * memory_time(*w.device, Bytes(w.parameters() * 3)));
  CHECK(rest < 0.25 * saved);
}

TEST_CASE("Gradients in 4 bits are summed in two hops across machines, and as they are inside one") {
  const Workload w = llama(",kernels=deepspeed");
  const std::string plan = "layout(zero=3, mb=1";
  const LayoutPrediction all = answer(w, machines(8, 2e9), plan + ")/ddp", 64);
  const LayoutPrediction four = answer(w, machines(8, 2e9), plan + ", qgz=on)/ddp", 64);
  CHECK(four.iteration < 0.8 * all.iteration);
  CHECK(answer(w, machines(1), plan + ", qgz=on)/ddp", 8).iteration ==
        answer(w, machines(1), plan + ")/ddp", 8).iteration);
  // Over links that cost nothing, kernels are left.
  Cluster fast = machines(8, 1e15);
  fast.inside = fast.network = {Seconds(0), BytesPerSecond(1e15)};
  CHECK(answer(w, fast, plan + ", overlap_dp=off, qgz=on)/ddp", 64).iteration >
        answer(w, fast, plan + ", overlap_dp=off)/ddp", 64).iteration);
}

TEST_CASE("What ZeRO++ cannot do is refused with the reason") {
  CHECK(contains(refusal("layout(zero=2, hpz=8)/ddp"), "zero is 2"));
  CHECK(contains(refusal("layout(qwz=on)/ddp"), "zero is 0"));
  CHECK(contains(refusal("layout(zero=3, hpz=5)/ddp"), "hpz 5 does not divide dp 32"));
  CHECK(contains(refusal("layout(zero=3, hpz=1)/ddp"), "zero=2"));
  CHECK(contains(refusal("layout(zero=3, hpz=8, shard=8)/ddp"), "divides within groups"));
  CHECK(contains(refusal("layout(zero=3, hpz=8, offload=parameters)/ddp"), "with the host"));
  CHECK(contains(refusal("layout(zero=3, hpz=8, ep=2)/ddp"), "ep=1"));
  CHECK(contains(refusal("layout(zero=3, qgz=on, mb=1)/ddp+fp16"), "encoded once"));
  CHECK(contains(refusal("layout(hpz=4, units=10*tp1-zero3)/ddp", 1), "leave pp"));
  CHECK(contains(refusal("layout(tp=8, zero=3, hpz=machine)/ddp"), "one data-parallel rank"));
  CHECK(contains(refusal("layout(tp=16, zero=3, hpz=machine)/ddp"), "one data-parallel rank"));
  // Beside context parallelism, over which ZeRO divides as well, one rank of data is a group.
  CHECK(refusal("layout(cp=8, zero=3, hpz=machine, mb=1)/ddp").empty());
  Cluster threes = machines(3);
  const Answer<LayoutPrediction> cut = predict(llama(), threes, "layout(tp=3, zero=3, shard=machine)/ddp", 64);
  CHECK(contains(cut ? "" : cut.reason(), "cut through"));
}

TEST_CASE("Of groups that machines cut through, only those share a machine's card that are cut") {
  Cluster c = machines(3);
  const auto shape = [&](std::int64_t stride, std::int64_t members) {
    const RankAxis axis{stride, members};
    return group_shape(c, 24, std::span(&axis, 1));
  };
  CHECK(shape(1, 3).sharing_network == 2);  // 6 to 8 and 15 to 17: the second machine has a part of both
  CHECK(shape(1, 6).sharing_network == 2);
  CHECK(shape(1, 12).sharing_network == 2);
  CHECK(shape(1, 4).nodes == 1);
  CHECK(shape(8, 3).sharing_network == 8);
  const auto step = [&](const std::string& hpz) {
    return answer(llama(), c, "layout(zero=3, mb=1, " + hpz + ")/ddp", 24).iteration;
  };
  CHECK(step("hpz=3") < 2.0 * step("hpz=4"));
}

TEST_CASE("A search tries a second copy within machines and finds it where it wins") {
  LayoutSearchOptions options;
  options.layout.global_batch = 512;
  options.layout.memory_cap = Bytes(15e9);
  LayoutSpace space;
  space.tensor = space.context = space.pipeline = {1};
  space.zero = {3};
  space.micro_batch = {1};
  const Answer<LayoutSearchResult> found = best_layouts(llama(), machines(8, 2e9), space, options);
  REQUIRE(found);
  REQUIRE_FALSE(found->best.empty());
  CHECK(found->proved);
  CHECK(contains(found->space, "a second copy"));
  for (const LayoutPrediction& p : found->best) CHECK(p.plan.layout.shard * p.plan.layout.backward_shard == 0);
  const auto tried = [&](std::int64_t hpz) {
    return std::ranges::any_of(found->best,
                               [&](const LayoutPrediction& p) { return p.plan.layout.backward_shard == hpz; });
  };
  CHECK(tried(8));
}
