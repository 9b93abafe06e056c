// Speed of pipelined steps: evaluating a schedule for other times (the inner loop of a search), making its order, and
// the task graph with its scheduler, which is what the evaluator stands in for. Items are passes. Compare rows of one
// run only.
#include <stepcast/pipeline/pipeline.hpp>
#include <stepcast/schedule/schedule.hpp>

#include <benchmark/benchmark.h>

#include <vector>

using namespace stepcast;

namespace {

struct Case {
  const PipelineSchedule* schedule;
  PipelineShape shape;
  std::vector<ChunkTimes> times;
  std::int64_t passes;
};

Case made(const char* name, benchmark::State& state) {
  const auto number = [&](int i) { return static_cast<std::uint32_t>(state.range(i)); };
  Case c{pipeline_schedule(name), {}, {}, 0};
  c.shape = pipeline_shape(*c.schedule, number(0), number(1), number(2));
  // Uneven stages, so that nothing is in step.
  for (std::uint32_t v = 0; v < number(0) * number(1); ++v)
    c.times.push_back({microseconds(900 + 37 * (v % 7)), microseconds(1000 + 41 * (v % 5)), microseconds(800 + v % 3),
                       microseconds(50), microseconds(60)});
  for (std::uint32_t d = 0; d < c.shape.stages; ++d)
    c.passes += static_cast<std::int64_t>(c.schedule->order(c.shape, d).size());
  return c;
}

void evaluate(benchmark::State& state, const char* name, bool overlap) {
  Case c = made(name, state);
  PipelineEvaluator evaluator = *PipelineEvaluator::of(*c.schedule, c.shape);
  for (auto _ : state) {
    c.times[0].forward += Seconds(1e-9);  // a search asks for other times each time
    benchmark::DoNotOptimize(evaluator(c.times, overlap).iteration);
  }
  state.SetItemsProcessed(state.iterations() * c.passes);
}

void make_order(benchmark::State& state, const char* name) {
  const Case c = made(name, state);
  for (auto _ : state) benchmark::DoNotOptimize(PipelineEvaluator::of(*c.schedule, c.shape));
  state.SetItemsProcessed(state.iterations() * c.passes);
}

void task_graph(benchmark::State& state, const char* name) {
  const Case c = made(name, state);
  Timeline timeline;
  for (auto _ : state) {
    schedule(*lowered(*c.schedule, c.shape, c.times, true), timeline);
    benchmark::DoNotOptimize(timeline.period);
  }
  state.SetItemsProcessed(state.iterations() * c.passes);
}

// {stages, chunks of a copy, micro-batches}
BENCHMARK_CAPTURE(evaluate, 1f1b, "1f1b", true)->Args({8, 1, 64})->Args({35, 1, 240})->Args({105, 1, 1000});
BENCHMARK_CAPTURE(evaluate, 1f1b_sender_waits, "1f1b", false)->Args({35, 1, 240});
BENCHMARK_CAPTURE(evaluate, interleaved, "interleaved", true)->Args({8, 4, 64})->Args({35, 3, 245});
BENCHMARK_CAPTURE(evaluate, zb_h1, "zb_h1", true)->Args({35, 1, 240});
BENCHMARK_CAPTURE(evaluate, bidirectional, "bidirectional", true)->Args({34, 1, 238});
BENCHMARK_CAPTURE(make_order, 1f1b, "1f1b")->Args({8, 1, 64})->Args({35, 1, 240})->Args({105, 1, 1000});
BENCHMARK_CAPTURE(make_order, interleaved, "interleaved")->Args({35, 3, 245});
BENCHMARK_CAPTURE(make_order, zb_h1, "zb_h1")->Args({35, 1, 240});
BENCHMARK_CAPTURE(task_graph, 1f1b, "1f1b")->Args({8, 1, 64})->Args({35, 1, 240});

}  // namespace

BENCHMARK_MAIN();
