// Stage division: exact against every way to cut.
#include "helpers/layout_machines.hpp"

#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/parallelism/stage_division.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

using namespace stepcast;
using doctest::Approx;

namespace {

struct Quality {
  double longest = 0, squares = 0;
};
Quality quality(const std::vector<double>& time, const std::vector<std::uint32_t>& first) {
  Quality q;
  for (std::size_t s = 0; s + 1 < first.size(); ++s) {
    double run = 0;
    for (std::uint32_t u = first[s]; u < first[s + 1]; ++u) run += time[u];
    q.longest = std::max(q.longest, run);
    q.squares += run * run;
  }
  return q;
}

// The best of all cuts into non-empty runs.
void search(const std::vector<double>& time, std::uint32_t stages, std::vector<std::uint32_t>& first, Quality& best) {
  const auto n = static_cast<std::uint32_t>(time.size());
  if (first.size() == stages) {
    first.push_back(n);
    const Quality q = quality(time, first);
    const double slack = 1e-12 * best.longest;
    if (q.longest < best.longest - slack || (q.longest <= best.longest + slack && q.squares < best.squares)) best = q;
    first.pop_back();
    return;
  }
  for (std::uint32_t next = first.back() + 1; next + (stages - first.size()) <= n; ++next) {
    first.push_back(next);
    search(time, stages, first, best);
    first.pop_back();
  }
}

}  // namespace

TEST_CASE("Stages are divided as well as any cut does") {
  std::mt19937_64 random(5);
  for (int i = 0; i < 300; ++i) {
    std::vector<double> time(1 + static_cast<std::size_t>(i % 9));
    for (double& t : time) t = i % 3 == 0 ? 1 : std::uniform_int_distribution<int>(i % 2, 9)(random);
    for (std::uint32_t stages = 1; stages <= time.size(); ++stages) {
      const std::vector<std::uint32_t> first = stage_division(time, stages);
      REQUIRE(first.size() == stages + 1);
      CHECK(first.front() == 0);
      CHECK(first.back() == time.size());
      CHECK(std::adjacent_find(first.begin(), first.end(), std::greater_equal<>()) == first.end());
      Quality best{std::numeric_limits<double>::max(), std::numeric_limits<double>::max()};
      std::vector<std::uint32_t> cut{0};
      search(time, stages, cut, best);
      const Quality found = quality(time, first);
      CHECK(found.longest == Approx(best.longest));
      CHECK(found.squares == Approx(best.squares));
    }
  }
}

TEST_CASE("A heavy end takes units from its stage") {
  // An embedding, twelve blocks, a head as heavy as two blocks, over four stages.
  std::vector<double> time(14, 1.0);
  time.front() = 0.1;
  time.back() = 2;
  const std::vector<std::uint32_t> first = stage_division(time, 4);
  CHECK(first[4] - first[3] <= 3);
}

TEST_CASE("programs deal units out by a rule of their own unless they are told otherwise") {
  const auto stages = [](const char* model, const char* layout) {
    const Workload workload =
        stepcast::workload_of(model_shape_of(model), stepcast::test::layout_device(DataType::f16));
    Cluster cluster = cluster_of_flags(4, 4, "400 Gb/s");
    const Answer<LayoutPrediction> p = predicted(workload, cluster, layout_plan_of(layout), {.global_batch = 16});
    REQUIRE(p);
    return p->stage_units;
  };
  using Units = std::vector<std::uint32_t>;
  // A head as long as a block, beside which nothing is spared.
  constexpr const char* light = "gpt:hidden=1024,layers=40,heads=16,seq=512,vocab=6000";
  CHECK(stages(light, "layout(pp=4, chunks=5, mb=1, stages=by_time)/ddp") == equal_blocks(model_shape_of(light), 20));
  // A head as long as eight: one stage with it is the busiest by far, and Megatron-LM makes it unless told.
  constexpr const char* heavy = "gpt:hidden=1024,layers=40,heads=16,seq=512,vocab=100000";
  CHECK(stages(heavy, "layout(pp=4, mb=1)/ddp") == equal_blocks(model_shape_of(heavy), 4));
  const Units uneven = stages(heavy, "layout(pp=4, mb=1, stages=by_time)/ddp");
  CHECK(uneven != equal_blocks(model_shape_of(heavy), 4));
  CHECK(uneven.back() < uneven.front());
  // Where blocks do not divide it has to be told.
  constexpr const char* odd = "gpt:hidden=1024,layers=38,heads=16,seq=512,vocab=6000";
  CHECK(usual_stages(model_shape_of(odd), 4).empty());
  CHECK(stages(odd, "layout(pp=4, mb=1)/ddp") == stages(odd, "layout(pp=4, mb=1, stages=by_time)/ddp"));
  // torchtitan counts embedding and head as blocks, DeepSpeed counts parameters.
  CHECK(usual_stages(model_shape_of("gpt:hidden=1024,layers=40,heads=16,seq=512,vocab=6000,kernels=compiled"), 4) ==
        Units{11, 11, 10, 10});
  CHECK(usual_stages(model_shape_of("gpt:hidden=1024,layers=40,heads=16,seq=512,vocab=6000,kernels=compiled"), 50)
            .empty());
  const Units by_parameters =
      usual_stages(model_shape_of("gpt:hidden=1024,layers=40,heads=16,seq=512,vocab=100000,kernels=deepspeed"), 4);
  CHECK(by_parameters.front() < by_parameters[1]);
  CHECK(std::accumulate(by_parameters.begin(), by_parameters.end(), 0u) == 42);
  CHECK(equal_blocks(model_shape_of(heavy), 4) == Units{11, 10, 10, 11});
  CHECK(equal_blocks(model_shape_of(heavy), 3).empty());
  // Layers without experts are blocks, too.
  constexpr const char* mixed =
      "llama:hidden=512,layers=8,heads=8,seq=512,vocab=6000,ffn=256,experts=8,topk=2,dense=2,dense_ffn=1024";
  CHECK(equal_blocks(model_shape_of(mixed), 4) == Units{3, 2, 2, 3});
  CHECK(equal_blocks(model_shape_of(mixed), 3).empty());
}

TEST_CASE("a prediction says what the other division into stages would save, from 2 % on") {
  const auto notes = [](const char* model, const char* layout, const char* network) {
    const Workload workload =
        stepcast::workload_of(model_shape_of(model), stepcast::test::layout_device(DataType::f16));
    const Cluster cluster = cluster_of_flags(4, 1, network);
    const Answer<LayoutPrediction> p = predicted(workload, cluster, layout_plan_of(layout), {.global_batch = 16});
    REQUIRE(p);
    std::string text;
    for (const std::string& warning : p->warnings) text += warning + "\n";
    return text;
  };
  const auto says = [](const std::string& text, const char* what) { return text.find(what) != std::string::npos; };
  constexpr const char* heavy = "gpt:hidden=1024,layers=40,heads=16,seq=512,vocab=100000";
  CHECK(says(notes(heavy, "layout(pp=4, mb=1)/ddp", "400 Gb/s"), "(stages=by_time) it takes"));
  CHECK_FALSE(says(notes(heavy, "layout(pp=4, mb=1, stages=by_time)/ddp", "400 Gb/s"), "stages=by_time"));
  constexpr const char* light = "gpt:hidden=1024,layers=40,heads=16,seq=512,vocab=6000";
  CHECK_FALSE(says(notes(light, "layout(pp=4, mb=1)/ddp", "400 Gb/s"), "stages=by_time"));
  // Casts of weights are no part of what units take.
  constexpr const char* eager =
      "gpt:hidden=2048,layers=23,heads=16,seq=512,vocab=262144,attention=flash,causal=yes,dtype=f16,kernels=eager";
  CHECK(says(notes(eager, "layout(pp=2, mb=1, stages=by_time)/ddp", "400 Gb/s"), "(without stages=by_time) it takes"));
}

TEST_CASE(
    "interleaved runs are dealt out so that the busiest device has less to do, none longer than the longest before") {
  std::mt19937_64 random(6);
  int shorter = 0;
  for (int i = 0; i < 200; ++i) {
    const auto devices = static_cast<std::uint32_t>(2 + i % 3), chunks = static_cast<std::uint32_t>(2 + i % 4);
    const std::uint32_t stages = devices * chunks;
    std::vector<double> time(stages + std::uniform_int_distribution<std::uint32_t>(0, 2 * stages)(random), 1.0);
    time.front() = 0.1;
    time.back() = std::uniform_int_distribution<int>(1, 4)(random);
    std::vector<std::uint32_t> device(stages);
    for (std::uint32_t v = 0; v < stages; ++v) device[v] = v % devices;
    const std::vector<std::uint32_t> before = stage_division(time, stages);
    const std::vector<std::uint32_t> first = sparing_the_busiest(time, before, device);
    REQUIRE(first.size() == stages + 1);
    CHECK(first.front() == 0);
    CHECK(first.back() == time.size());
    CHECK(std::adjacent_find(first.begin(), first.end(), std::greater_equal<>()) == first.end());
    CHECK(quality(time, first).longest <= quality(time, before).longest * (1 + 1e-6));
    CHECK(heaviest_device(time, first, device) <= heaviest_device(time, before, device));
    if (heaviest_device(time, first, device) < heaviest_device(time, before, device)) ++shorter;
  }
  CHECK(shorter > 20);
  // Two long parts on one device, two short ones on another.
  const std::vector<double> units(12, 1.0);
  const std::vector<std::uint32_t> device{0, 1, 2, 0, 1, 2}, first{0, 3, 4, 6, 9, 10, 12};
  CHECK(heaviest_device(units, first, device) == 6);
  CHECK(heaviest_device(units, sparing_the_busiest(units, first, device), device) <= 5);
}
