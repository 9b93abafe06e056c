// ZeRO within groups of data-parallel ranks (HSDP): what is divided, what travels where, and what is refused.
#include "helpers/layout_machines.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/layout/process_group.hpp>
#include <stepcast/parallelism/layout_prediction.hpp>
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
Workload llama() {
  return workload_of(
      model_shape_of("llama:hidden=2048,layers=8,heads=16,ffn=5632,vocab=32000,seq=1024,attention=flash,causal=yes"),
      test::layout_device(DataType::bf16));
}
Answer<LayoutPrediction> predict(const Cluster& c, const std::string& plan, double batch) {
  LayoutOptions options;
  options.global_batch = batch;
  return predicted(llama(), c, layout_plan_of(plan), options);
}
LayoutPrediction answer(const Cluster& c, const std::string& plan, double batch) {
  Answer<LayoutPrediction> p = predict(c, plan, batch);
  REQUIRE_MESSAGE(p, plan << ": " << (p ? "" : p.reason()));
  return *std::move(p);
}
std::string refusal(const Cluster& c, const std::string& plan, double batch = 64) {
  const Answer<LayoutPrediction> p = predict(c, plan, batch);
  return p ? "" : p.reason();
}

}  // namespace

TEST_CASE("groups are said with a number, as machine or by the name hsdp, and read back") {
  for (const std::string text : {"layout(zero=3, shard=8)/ddp", "layout(zero=1, shard=machine)/ddp"})
    CHECK(text_of(layout_plan_of(text)) == text);
  CHECK(text_of(layout_plan_of("hsdp")) == "layout(zero=3, shard=machine)/ddp");
  CHECK(text_of(layout_plan_of("hsdp(shard=4, mb=2)")) == "layout(mb=2, zero=3, shard=4)/ddp");
  CHECK_THROWS_AS((void)layout_plan_of("layout(zero=3, shard=0)/ddp"), InputError);
  CHECK_THROWS_AS((void)layout_plan_of("layout(zero=3, shard=node)/ddp"), InputError);
  CHECK(answer(machines(4), "hsdp(mb=1)", 64).plan.layout.shard == 8);
  CHECK(answer(machines(4), "layout(tp=2, zero=3, shard=machine, mb=1)/ddp", 64).plan.layout.shard == 4);
  CHECK(answer(machines(1), "hsdp(mb=1)", 64).plan.layout.shard == 0);  // one machine: its ranks are all
}

TEST_CASE("a group of all ranks is none") {
  for (const char* zero : {"1", "2", "3"}) {
    const std::string z = zero;
    const LayoutPrediction all = answer(machines(2), "layout(zero=" + z + ", mb=1)/ddp", 64);
    const LayoutPrediction group = answer(machines(2), "layout(zero=" + z + ", mb=1, shard=16)/ddp", 64);
    CHECK(group.iteration == all.iteration);
    CHECK(group.memory.total() == all.memory.total());
  }
}

TEST_CASE("a device holds what it would hold if its group were the job") {
  for (const char* zero : {"1", "2", "3"}) {
    const std::string z = zero;
    const MemoryUse group = answer(machines(4), "layout(zero=" + z + ", mb=1, shard=8)/ddp", 256).memory;
    const MemoryUse job = answer(machines(1), "layout(zero=" + z + ", mb=1)/ddp", 64).memory;
    CHECK(group.parameters == job.parameters);
    CHECK(group.gradients == job.gradients);
    CHECK(group.optimizer == job.optimizer);
    CHECK(group.total() == job.total());
  }
}

TEST_CASE("beyond the step of its group a job sums each shard over the groups once") {
  const Cluster cluster = machines(4);
  const RankAxis across{8, 4};
  const Cluster replicas = group_cluster(cluster, group_shape(cluster, 32, std::span(&across, 1)));
  REQUIRE(replicas.nodes == 4);
  const Answer<CommunicationCost> cost = communication_cost(replicas);
  REQUIRE(cost);
  // In buckets, each of which is sent in shards of an eighth; without overlap one after the other.
  const Bytes gradients(llama().parameters() * llama().bytes_of_gradient);
  const Seconds whole = (*cost)(Operation::all_reduce, gradients / 8);
  for (const char* zero : {"1", "2", "3"})
    for (const char* batch : {"64", "128"}) {
      const std::string z = "layout(zero=" + std::string(zero) + ", mb=1, overlap_dp=off";
      const double samples = std::stod(batch);
      const Seconds group = answer(machines(1), z + ")/ddp(bucket=10 GiB, first=10 GiB)", samples).iteration;
      const Seconds job = answer(cluster, z + ", shard=8)/ddp(bucket=10 GiB, first=10 GiB)", 4 * samples).iteration;
      CHECK((job - group).value() == Approx(whole.value()).epsilon(1e-6));
    }
}

TEST_CASE("sums across groups hide under the last backward pass, and never more than that") {
  for (const char* zero : {"1", "2", "3"}) {
    const std::string z = "layout(zero=" + std::string(zero) + ", mb=1, shard=8";
    const Seconds hidden = answer(machines(4), z + ")/ddp", 64).iteration;
    const Seconds shown = answer(machines(4), z + ", overlap_dp=off)/ddp", 64).iteration;
    const Seconds alone = answer(machines(1), "layout(zero=" + std::string(zero) + ", mb=1)/ddp", 16).iteration;
    CHECK(hidden < shown);
    CHECK(hidden >= alone * (1 - 1e-9));
  }
}

TEST_CASE("over a slow network groups within machines win, and with one machine a group nothing") {
  const Cluster slow = machines(8, 2e9);
  CHECK(answer(slow, "hsdp(mb=1)", 512).iteration < 0.7 * answer(slow, "fsdp(mb=1)", 512).iteration);
  // Groups of two machines gather over the network like groups of eight, but less.
  const Seconds two = answer(slow, "layout(zero=3, shard=16, mb=1)/ddp", 512).iteration;
  CHECK(two > answer(slow, "hsdp(mb=1)", 512).iteration);
}

TEST_CASE("what ZeRO cannot divide within groups is refused with the reason") {
  CHECK(refusal(machines(4), "layout(shard=8)/ddp").find("zero=0 divides nothing") != std::string::npos);
  CHECK(refusal(machines(4), "layout(zero=3, shard=5)/ddp").find("shard 5 does not divide dp 32") != std::string::npos);
  CHECK(refusal(machines(4), "layout(zero=3, shard=1)/ddp").find("divides nothing") != std::string::npos);
  CHECK(refusal(machines(4), "layout(zero=3, tp=8, shard=machine)/ddp").find("one data-parallel rank") !=
        std::string::npos);
  CHECK(refusal(machines(4), "layout(zero=1, shard=8)/ddp+fp16").find("two steps") != std::string::npos);
  CHECK(refusal(machines(1), "layout(shard=4, units=10*tp1-zero3)/ddp").find("leave pp") != std::string::npos);
  CHECK(refusal(machines(4), "layout(zero=3, ep=2, shard=8)/ddp") != "");
}

TEST_CASE("a search tries ZeRO within machines and finds it where it wins") {
  LayoutSearchOptions options;
  options.layout.global_batch = 512;
  options.layout.memory_cap = Bytes(30e9);
  LayoutSpace space;
  space.tensor = space.context = space.pipeline = {1};
  space.zero = {3};
  space.micro_batch = {1};
  const Answer<LayoutSearchResult> found = best_layouts(llama(), machines(8, 2e9), space, options);
  REQUIRE(found);
  REQUIRE_FALSE(found->best.empty());
  CHECK(found->proved);
  CHECK(found->best.front().plan.layout.shard == 8);
  CHECK(found->space.find("within machines") != std::string::npos);
  const Answer<LayoutSearchResult> one = best_layouts(llama(), machines(1), space, options);
  REQUIRE(one);
  CHECK(one->space.find("within machines") == std::string::npos);
}
