// Advice on layouts: how far the winner holds on other networks, against looking at every layout there.
#include "helpers/layout_machines.hpp"

#include <stepcast/base/statistics.hpp>
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/prediction/recommend.hpp>
#include <stepcast/search/families.hpp>
#include <stepcast/search/layout_advice.hpp>
#include <stepcast/search/preference.hpp>

#include <doctest/doctest.h>

#include <algorithm>

using namespace stepcast;

namespace {

Workload described(const char* model) {
  Device device = test::layout_device(DataType::f16);
  device.relative_error = 0.09;
  return workload_of(model_shape_of(model), device);
}

}  // namespace

TEST_CASE(
    "on other networks the winner holds unless a layout that some framework runs is faster by more than is resolved") {
  LayoutSpace runnable;
  runnable.runnable = true;
  int better = 0, holds = 0;
  for (const char* network : {"1GbE", "10GbE", "25GbE", "400 Gb/s"})
    for (const char* model :
         {"gpt:hidden=1024,layers=8,heads=8,seq=512", "gpt:hidden=2048,layers=4,heads=16,seq=256"}) {
      const Workload workload = described(model);
      const Cluster cluster = cluster_of_flags(8, 4, network);
      LayoutAdviceOptions options;
      options.search.layout.global_batch = 64;
      const Answer<LayoutAdvice> advice = layout_advice(workload, cluster, {}, options);
      REQUIRE(advice);
      REQUIRE(advice->networks.size() == 2);
      for (const BandwidthCheck& check : advice->networks) {
        CAPTURE(network);
        CAPTURE(check.factor);
        REQUIRE(check.whole_space);
        const Answer<LayoutSearchResult> there =
            best_layouts(workload, with_bandwidth_scaled(cluster, check.factor), runnable, options.search);
        REQUIRE(there);
        const double resolved = std::max(indifference, resolution_of(workload));
        if (there->best.front().iteration < check.own * (1 - resolved)) {
          // Listed layouts are tuned, which what is searched there is not.
          CHECK_FALSE(check.better.empty());
          CHECK(check.best <= there->best.front().iteration);
          ++better;
        } else if (check.better.empty()) {
          CHECK(check.best >= check.own * (1 - resolved));
          ++holds;
        }
      }
    }
  CHECK(better > 0);
  CHECK(holds > 0);
}

TEST_CASE("a mixture's winner has tokens sent once to each machine beside it, unless they are in the space") {
  const Workload workload =
      workload_of(model_shape_of("llama:hidden=1024,layers=4,heads=8,seq=512,ffn=512,experts=16,topk=8,attention=flash,"
                                 "dtype=bf16,kernels=compiled"),
                  *shipped_device("h100-sxm5-80gb"));
  const Cluster cluster = cluster_of_flags(16, 4, "25GbE");
  LayoutAdviceOptions options;
  options.search.layout.global_batch = 64;
  options.sensitivity = false;
  LayoutSpace space;
  space.expert = {16}, space.pipeline = {1}, space.tensor = {1};
  const Answer<LayoutAdvice> advice = layout_advice(workload, cluster, space, options);
  REQUIRE(advice);
  REQUIRE(!advice->best.empty());
  const LayoutPrediction& winner = advice->best.front();
  CHECK(winner.plan.layout.expert_exchange == ExpertExchange::all_to_all);
  REQUIRE(advice->sent_once);
  CHECK(advice->sent_once->iteration < winner.iteration * (1 - indifference));
  Layout same = advice->sent_once->plan.layout;
  same.expert_exchange = ExpertExchange::all_to_all;
  CHECK(same == winner.plan.layout);

  // Both in the space: the better of them is found, and nothing stands beside it.
  space.expert_exchange = {ExpertExchange::all_to_all, ExpertExchange::deduplicated};
  const Answer<LayoutAdvice> both = layout_advice(workload, cluster, space, options);
  REQUIRE(both);
  CHECK_FALSE(both->sent_once);
  CHECK(both->best.front().plan.layout.expert_exchange == ExpertExchange::deduplicated);
  CHECK(both->best.front().iteration <= advice->sent_once->iteration * (1 + both->resolution));
  CHECK(both->search.total == 2 * advice->search.total);

  // A dense model sends nothing.
  const Workload dense = described("llama:hidden=1024,layers=4,heads=8,seq=512,attention=flash,dtype=f16");
  const Answer<LayoutAdvice> none = layout_advice(dense, cluster, {}, options);
  REQUIRE(none);
  CHECK_FALSE(none->sent_once);
}

TEST_CASE("beside Megatron-LM's winner stands what it would take with its products taken apart") {
  const Workload workload = described("llama:hidden=4096,layers=8,heads=32,seq=4096,attention=flash,dtype=f16");
  const Cluster cluster = cluster_of_flags(8, 8, "100GbE");
  LayoutAdviceOptions options;
  options.search.layout.global_batch = 8;
  options.sensitivity = false;
  LayoutSpace space;
  space.tensor = {8}, space.sequence_parallel = {1};
  const Answer<LayoutAdvice> advice = layout_advice(workload, cluster, space, options);
  REQUIRE(advice);
  REQUIRE(!advice->best.empty());
  REQUIRE(advice->beside_products);
  CHECK(advice->beside_products->iteration < advice->best.front().iteration * (1 - indifference));
  Layout same = advice->beside_products->plan.layout;
  CHECK(same.overlap_tensor == TensorOverlap::products);
  same.overlap_tensor = advice->best.front().plan.layout.overlap_tensor;
  CHECK(same == advice->best.front().plan.layout);
  space.overlap_tensor = {TensorOverlap::products};
  const Answer<LayoutAdvice> asked = layout_advice(workload, cluster, space, options);
  REQUIRE(asked);
  CHECK_FALSE(asked->beside_products);
  CHECK(asked->best.front().iteration <= advice->beside_products->iteration);
}

TEST_CASE("where nothing fits the least that has to be with the host is told, and what is asked for is searched") {
  const Workload workload = described("gpt:hidden=2048,layers=24,heads=16,seq=512");
  const Cluster cluster = cluster_of_flags(2, 2, "100GbE");
  LayoutAdviceOptions options;
  options.search.layout.global_batch = 8;
  const auto offloaded = [&](double gibibytes) {
    options.search.layout.memory_cap = Bytes(gibibytes * 0x1p30);
    const Answer<LayoutAdvice> advice = layout_advice(workload, cluster, {}, options);
    REQUIRE(advice);
    return advice->with_offload ? offload_text(advice->with_offload->plan.layout)
                                : std::string(advice->best.empty() ? "none" : "");
  };
  CHECK(offloaded(20) == "");  // it fits without
  CHECK(offloaded(4.5) == "optimizer");
  CHECK(offloaded(2.4) == "parameters");
  CHECK(offloaded(1) == "none");
  options.search.layout.memory_cap = Bytes(4.5 * 0x1p30);
  LayoutSpace space;
  space.offloaded = with_field({}, "offload", "optimizer").offloaded;
  const Answer<LayoutAdvice> asked = layout_advice(workload, cluster, space, options);
  REQUIRE(asked);
  REQUIRE_FALSE(asked->best.empty());
  CHECK_FALSE(asked->with_offload);
  for (const LayoutPrediction& p : asked->best) CHECK(p.plan.layout.offloads(Offloaded::optimizer));
  // Where what is asked for does not fit either, more of it is told.
  options.search.layout.memory_cap = Bytes(2.4 * 0x1p30);
  const Answer<LayoutAdvice> more = layout_advice(workload, cluster, space, options);
  REQUIRE(more);
  CHECK(more->best.empty());
  REQUIRE(more->with_offload);
  CHECK(offload_text(more->with_offload->plan.layout) == "parameters");
  CHECK(asked->search.space.find("optimizer in the host's memory") != std::string::npos);
}

TEST_CASE("where no framework runs what is fastest, what one runs stands first and the other is told") {
  const Workload workload = described("llama:hidden=2048,layers=8,heads=16,seq=512,attention=flash,dtype=f16");
  const Cluster cluster = cluster_of_flags(4, 4, "25GbE");
  LayoutAdviceOptions options;
  options.search.layout.global_batch = 8;
  options.sensitivity = false;
  LayoutSpace space;
  space.tensor = {1}, space.pipeline = {4}, space.chunks = {1};
  space.schedules = {pipeline_schedule("zb_h1"), pipeline_schedule("1f1b")};
  const Answer<LayoutAdvice> advice = layout_advice(workload, cluster, space, options);
  REQUIRE(advice);
  REQUIRE(!advice->best.empty());
  REQUIRE(advice->unrunnable);
  CHECK(advice->unrunnable->plan.layout.schedule->name == "zb_h1");
  for (const LayoutPrediction& p : advice->best) CHECK(p.plan.layout.schedule->name == "1f1b");
  CHECK(advice->unrunnable->iteration < advice->best.front().iteration * (1 - advice->resolution));
  // The best of those that run.
  space.schedules.erase(space.schedules.begin());
  const Answer<LayoutAdvice> usual = layout_advice(workload, cluster, space, options);
  REQUIRE(usual);
  CHECK_FALSE(usual->unrunnable);
  CHECK(usual->best.front().plan.layout == advice->best.front().plan.layout);
}

namespace {

// 1.3 billion parameters on sixteen devices of 40 GB whose network a large micro-batch hides best.
struct SlowNetwork {
  explicit SlowNetwork(double cap) {
    cluster.device_memory = Bytes(40e9);
    options.search.layout.global_batch = 256;
    options.search.layout.memory_cap = Bytes(cap);
  }
  Workload workload = described("gpt:hidden=2048,layers=24,heads=16,seq=1024");
  Cluster cluster = cluster_of_flags(16, 8, "10GbE");
  LayoutAdviceOptions options{};
};

}  // namespace

TEST_CASE("a winner that computes layers again, unasked, has the best beside it that does not") {
  const auto& [workload, cluster, options] = SlowNetwork(36e9);
  LayoutSpace space;
  space.pipeline = space.tensor = {1};
  const Answer<LayoutAdvice> advice = layout_advice(workload, cluster, space, options);
  REQUIRE(advice);
  REQUIRE(advice->best.front().plan.layout.recomputation != Recomputation::none);
  REQUIRE(advice->without_recomputation);
  CHECK_FALSE(advice->of_these_degrees_without_recomputation);  // those are all there are
  LayoutSpace without = space;
  without.recomputation = {Recomputation::none};
  const Answer<LayoutSearchResult> found = best_layouts(workload, cluster, without, options.search);
  REQUIRE(found);
  CHECK(advice->without_recomputation->iteration == found->best.front().iteration);
  CHECK(advice->without_recomputation->iteration > advice->best.front().iteration);
  space.recomputation = {Recomputation::full};
  const Answer<LayoutAdvice> asked = layout_advice(workload, cluster, space, options);
  REQUIRE(asked);
  CHECK_FALSE(asked->without_recomputation);
}

TEST_CASE("a list has one layout of each kind, as many as were asked for, whatever is looked for") {
  auto [workload, cluster, options] = SlowNetwork(36e9);
  for (const Objective objective : {Objective::shortest_step, Objective::least_memory}) {
    options.search.objective = objective;
    options.search.one_of_kind = true;
    options.search.best = 8;
    const Answer<LayoutAdvice> advice = layout_advice(workload, cluster, {}, options);
    REQUIRE(advice);
    CHECK(advice->best.size() == 8);
    CHECK(advice->equals <= advice->best.size());
    for (std::size_t i = 0; i < advice->best.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        CHECK_FALSE(of_one_kind(advice->best[j].plan.layout, advice->best[i].plan.layout));
  }
}

TEST_CASE("what would be best without recomputation is run by some framework where the winner is") {
  const auto& [workload, cluster, options] = SlowNetwork(12e9);
  int told = 0;
  for (const std::int64_t most : {1, 2, 4}) {
    LayoutSpace space;
    space.tensor = {1};
    for (std::int64_t p = 1; p <= most; p *= 2) space.pipeline.push_back(p);
    const Answer<LayoutAdvice> advice = layout_advice(workload, cluster, space, options);
    REQUIRE(advice);
    if (advice->best.empty()) continue;
    const LayoutPrediction& winner = advice->best.front();
    for (const auto& without : {advice->without_recomputation, advice->of_these_degrees_without_recomputation}) {
      if (!without || !why_not_launched(workload, winner.plan, winner.micro_batches, {}).empty()) continue;
      CHECK(without->plan.layout.recomputation == Recomputation::none);
      CHECK(why_not_launched(workload, without->plan, without->micro_batches, {}).empty());
      ++told;
    }
  }
  CHECK(told > 0);
}

TEST_CASE("other stages than the program's own are told where the answer resolves what they save") {
  const Workload workload = described("gpt:hidden=1024,layers=7,heads=8,seq=2048,vocab=8000");
  LayoutSpace space;
  space.pipeline = {4};
  space.tensor = space.context = space.chunks = {1};
  LayoutAdviceOptions options;
  options.search.layout.global_batch = 48;
  const Answer<LayoutAdvice> slow = layout_advice(workload, cluster_of_flags(8, 1, "1GbE"), space, options);
  REQUIRE(slow);
  REQUIRE(slow->moved_stages);
  CHECK(slow->moved_stages->iteration <= slow->best.front().iteration * (1 - slow->resolution));
  CHECK(slow->moved_stages->stage_units != slow->best.front().stage_units);
  // Over fast links nothing is to be saved by them.
  const Answer<LayoutAdvice> fast = layout_advice(workload, cluster_of_flags(8, 8, "400 Gb/s"), space, options);
  REQUIRE(fast);
  CHECK_FALSE(fast->moved_stages);
}
