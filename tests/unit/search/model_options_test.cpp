// Options of a model beside its best layout, against asking for the model that has them.
#include "helpers/layout_machines.hpp"

#include <stepcast/roofline/model_shape.hpp>
#include <stepcast/search/layout_advice.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace stepcast;

TEST_CASE("a word is put into a description in the place of what it says, or behind it") {
  CHECK(with_word("llama3-8b", "loss", "compiled") == "llama3-8b:loss=compiled");
  CHECK(with_word("llama3-8b:seq=4096", "loss", "compiled") == "llama3-8b:seq=4096,loss=compiled");
  CHECK(with_word("gpt:loss=eager,seq=4", "loss", "compiled") == "gpt:loss=compiled,seq=4");
  CHECK(with_word("gpt:seq=4,loss=eager", "loss", "compiled") == "gpt:seq=4,loss=compiled");
  CHECK(with_word("gpt:no_loss=1,seq=4", "loss", "compiled") == "gpt:no_loss=1,seq=4,loss=compiled");
}

TEST_CASE("options that make a model's best layout faster are those whose model is faster by more than is resolved") {
  int told = 0, held_back = 0, searched = 0;
  for (const char* kernels : {"megatron", "eager", "compiled"})
    for (const auto& [gib, vocabulary] : {std::pair{2.0, "51200"}, {80.0, "51200"}, {80.0, "512"}}) {
      const std::string shape =
          std::string("gpt:hidden=1024,layers=6,heads=8,seq=1024,dtype=f16,gradients=f32,vocab=") + vocabulary;
      const Device device = test::layout_device(DataType::f16);
      const Workload w = workload_of(model_shape_of(shape + ",kernels=" + kernels), device);
      Cluster cluster = cluster_of_flags(8, 8, "100 Gb/s");
      cluster.device_memory = Bytes(gib * 1024 * 1024 * 1024);
      LayoutAdviceOptions options;
      options.search.layout.global_batch = 64;
      options.search.layout.memory_cap = cluster.device_memory;
      const Answer<LayoutAdvice> advice = layout_advice(w, cluster, {}, options);
      REQUIRE(advice);
      REQUIRE_FALSE(advice->best.empty());
      const LayoutPrediction& winner = advice->best.front();
      const bool again = winner.plan.layout.recomputation != Recomputation::none;
      for (const auto& [key, value] : {std::pair{"kernels", "compiled"}, {"loss", "compiled"}, {"gradients", "f16"}}) {
        CAPTURE(kernels);
        CAPTURE(gib);
        CAPTURE(key);
        const std::string option = std::string(key) + "=" + value;
        const auto found = std::ranges::find(advice->faster_options, option, &ModelOption::option);
        const bool listed = found != advice->faster_options.end();
        const bool has_it = std::string(kernels) == "compiled" && std::string(key) != "gradients";
        const bool not_its = std::string(kernels) == "megatron" && std::string(key) != "gradients";
        if (has_it || not_its) {
          CHECK_FALSE(listed);
          continue;
        }
        LayoutSpace runnable;
        runnable.runnable = true;
        const Seconds without = again && advice->fastest ? advice->fastest->iteration : winner.iteration;
        const Workload other = workload_of(model_shape_of(with_word(w.shape->name, key, value)), device);
        Seconds step(1e300);
        if (again) {
          const Answer<LayoutSearchResult> all = best_layouts(other, cluster, runnable, options.search);
          if (all && !all->best.empty()) step = all->best.front().iteration;
          ++searched;
        } else if (const auto p = predicted(other, cluster, winner.plan, options.search.layout)) {
          step = p->iteration;
        }
        const bool faster = step < without * (1 - advice->resolution);
        CHECK(listed == faster);
        if (listed) CHECK(found->best.iteration.value() == doctest::Approx(step.value()).epsilon(1e-9));
        if (listed) CHECK(found->shorter == doctest::Approx(1 - step / without));
        listed ? ++told : ++held_back;
      }
    }
  CHECK(told > 0);
  CHECK(held_back > 0);
  CHECK(searched > 0);
}

TEST_CASE("where nothing fits, what has to be said for something to fit is the least of memory, a word, and both") {
  const Device device = test::layout_device(DataType::bf16);
  const std::string shape = "gpt:hidden=1024,layers=24,heads=8,seq=1024,dtype=bf16,gradients=f32";
  const Workload w = workload_of(model_shape_of(shape), device);
  const Workload with_word = workload_of(model_shape_of(shape.substr(0, shape.rfind(',')) + ",gradients=bf16"), device);
  LayoutSpace space;
  space.runnable = true;
  const auto least = [&](const Workload& workload) {
    LayoutSearchOptions search;
    search.layout.global_batch = 8;
    search.layout.memory_cap = Bytes(1e18);
    search.objective = Objective::least_memory;
    return best_layouts(workload, cluster_of_flags(2, 2, "100 Gb/s"), space, search)->best.front().memory.total();
  };
  const Bytes all = least(w), less = least(with_word);
  CAPTURE(less / all);
  REQUIRE(less < 0.93 * all);
  struct Case {
    double card;          // bytes
    double share;         // of it that is planned with
    const char* option;   // of what is told first
    double memory_share;  // that goes with it
    bool any;
  };
  for (const Case& c :
       {Case{all.value() / 0.92, 0.9, "", 0.95, true}, Case{less.value() / 0.89, 0.9, "gradients=bf16", 0, true},
        Case{less.value() / 0.92, 0.9, "gradients=bf16", 0.95, true}, Case{less.value() / 0.97, 0.9, "", 0, false},
        // One who asks for less has a reason.
        Case{all.value() / 0.92, 0.5, "", 0, false}}) {
    CAPTURE(c.card);
    Cluster cluster = cluster_of_flags(2, 2, "100 Gb/s");
    cluster.device_memory = Bytes(c.card);
    LayoutAdviceOptions options;
    options.search.layout.global_batch = 8;
    options.search.layout.memory_cap = Bytes(c.card * c.share);
    const Answer<LayoutAdvice> advice = layout_advice(w, cluster, {}, options);
    REQUIRE(advice);
    CHECK(advice->best.empty());
    REQUIRE(advice->fitting_options.empty() == !c.any);
    if (!c.any) continue;
    const FittingOption& first = advice->fitting_options.front();
    CHECK(first.option == c.option);
    CHECK(first.memory_share == c.memory_share);
    const double share = c.memory_share > 0 ? c.memory_share : c.share;
    CHECK(first.best.memory.total().value() <= c.card * share);
  }
}

TEST_CASE("no option is told that the framework refuses which was asked for") {
  // torchtitan sums gradients in float32, and its own kernels are compiled ones already.
  const Workload w =
      workload_of(model_shape_of("llama3-8b:layers=4,kernels=compiled"), *shipped_device("h100-sxm5-80gb"));
  for (const char* framework : {"", "torchtitan"}) {
    LayoutSpace space;
    space.framework = framework;
    space.tensor = space.pipeline = space.context = {1};
    LayoutAdviceOptions options;
    options.search.layout.global_batch = 64;
    options.search.layout.memory_cap = Bytes(80e9);
    const Answer<LayoutAdvice> advice = layout_advice(w, cluster_of_flags(16, 8, "10GbE"), space, options);
    REQUIRE(advice);
    CHECK(advice->faster_options.empty() == (std::string(framework) == "torchtitan"));
  }
}
