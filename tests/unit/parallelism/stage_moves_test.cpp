// Stage moves: never slower, within the memory, and against every division of a small model.
#include "helpers/layout_machines.hpp"

#include <stepcast/parallelism/stage_moves.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>

using namespace stepcast;

namespace {

Workload model() {
  return workload_of(model_shape_of("gpt:hidden=1024,layers=7,heads=8,seq=2048,vocab=8000,dtype=bf16"),
                     test::layout_device(DataType::bf16));
}

/// The shortest step of all divisions of `units` units into the stages behind `stage`, those before as they are.
void shortest_of_all(LayoutEvaluator& evaluator, LayoutPlan& plan, std::size_t stage, std::uint32_t units,
                     Seconds& shortest) {
  std::vector<std::uint32_t>& stages = plan.layout.stage_units;
  const auto behind = static_cast<std::uint32_t>(stages.size() - 1 - stage);
  if (behind == 0) {
    stages[stage] = units;
    if (const Answer<LayoutEvaluator::Quick> quick = evaluator.quick(plan))
      shortest = std::min(shortest, quick->iteration);
    return;
  }
  for (std::uint32_t n = 1; n + behind <= units; ++n) {
    stages[stage] = n;
    shortest_of_all(evaluator, plan, stage + 1, units - n, shortest);
  }
}

}  // namespace

TEST_CASE("moved units make a step shorter over slow links, near to the best of all divisions") {
  const Workload w = model();
  int moved = 0;
  for (const char* network : {"1GbE", "10GbE", "400 Gb/s"})
    for (const char* layout : {"layout(pp=4, mb=1)/ddp", "layout(pp=4, mb=1, zero=1)/ddp", "layout(pp=3, mb=1)/ddp",
                               "layout(pp=4, mb=1, recompute=full)/ddp", "layout(pp=2, chunks=2, mb=1)/ddp"}) {
      CAPTURE(network);
      CAPTURE(layout);
      const Cluster cluster = cluster_of_flags(12, 1, network);
      LayoutEvaluator evaluator(w, cluster, {.global_batch = 48});
      const Answer<LayoutPrediction> start = evaluator.predicted(layout_plan_of(layout));
      REQUIRE(start);
      Seconds best(std::numeric_limits<double>::infinity());
      LayoutPlan every = start->plan;
      every.layout.stage_units = start->stage_units;
      shortest_of_all(evaluator, every, 0, 9, best);
      const std::optional<LayoutPlan> plan = with_moved_units(evaluator, *start, Bytes(0));
      Seconds found = start->iteration;
      if (plan) {
        const std::vector<std::uint32_t>& units = plan->layout.stage_units;
        CHECK(std::accumulate(units.begin(), units.end(), 0u) == 9);
        CHECK(*std::ranges::min_element(units) >= 1);
        found = evaluator.quick(*plan)->iteration;
        CHECK(found < start->iteration);
        ++moved;
      }
      CHECK(found >= best);
      CHECK(found <= best * 1.03);
    }
  CHECK(moved >= 4);
}

TEST_CASE("moved units fit into the memory that is given, and without a pipeline nothing moves") {
  const Workload w = model();
  const Cluster cluster = cluster_of_flags(8, 1, "1GbE");
  LayoutEvaluator evaluator(w, cluster, {.global_batch = 32});
  const Answer<LayoutPrediction> start = evaluator.predicted(layout_plan_of("layout(pp=4, mb=1)/ddp"));
  REQUIRE(start);
  const std::optional<LayoutPlan> free = with_moved_units(evaluator, *start, Bytes(0));
  REQUIRE(free);
  const Bytes taken = evaluator.quick(*free)->memory;
  for (const double share : {0.9, 0.97, 1.0, 1.1}) {
    const std::optional<LayoutPlan> plan = with_moved_units(evaluator, *start, taken * share);
    if (plan) CHECK(evaluator.quick(*plan)->memory <= taken * share);
    if (share >= 1.1) CHECK(plan);
  }
  const Answer<LayoutPrediction> alone = evaluator.predicted(layout_plan_of("layout(mb=1)/ddp"));
  REQUIRE(alone);
  CHECK_FALSE(with_moved_units(evaluator, *alone, Bytes(0)));
}
