// Laws over the whole family of pipeline schedules, on seeded random shapes and times: a new schedule is held to them
// at once. All times are whole microseconds, so that sums are exact in picoseconds.
#include "helpers/graph_text.hpp"
#include "helpers/random_input.hpp"
#include "helpers/shared_data.hpp"

#include <stepcast/pipeline/order.hpp>
#include <stepcast/pipeline/pipeline.hpp>
#include <stepcast/schedule/critical_cycle.hpp>
#include <stepcast/schedule/schedule.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

using namespace stepcast;
using test::Draw;

namespace {

const PipelineSchedule& named(std::string_view name) {
  const PipelineSchedule* schedule = pipeline_schedule(name);
  REQUIRE(schedule != nullptr);
  return *schedule;
}

PipelineShape random_shape(const PipelineSchedule& schedule, Draw& draw) {
  for (;;) {
    const auto stages = static_cast<std::uint32_t>(draw.whole(1, 9));
    const auto chunks = static_cast<std::uint32_t>(draw.whole(1, 3));
    const auto micro_batches = static_cast<std::uint32_t>(draw.coin() ? draw.whole(1, 20) : stages * draw.whole(1, 4));
    for (const std::uint32_t c : {chunks, 1u})
      if (const PipelineShape shape = pipeline_shape(schedule, stages, c, micro_batches);
          schedule.unsuitable(shape).empty())
        return shape;
  }
}

struct Passes : PassTaker {
  std::vector<OrderedPass> all;
  void expect(std::size_t passes) override { all.reserve(passes); }
  void take(const OrderedPass& pass) override { all.push_back(pass); }
};

std::vector<ChunkTimes> random_times(std::uint32_t virtual_stages, Draw& draw) {
  const auto time = [&](int most) { return microseconds(draw.whole(0, 3) == 0 ? 0 : draw.whole(1, most)); };
  std::vector<ChunkTimes> times(virtual_stages);
  const int send = draw.coin() ? 400 : 40;
  for (ChunkTimes& t : times) {
    t = {time(100), time(100), time(100), time(send), time(send), {}, {}};
    if (draw.coin()) t.beside_forward = microseconds(std::floor(t.forward.value() * 5e5));
    if (draw.coin()) t.beside_backward = microseconds(std::floor((t.input_gradient + t.weight_gradient).value() * 5e5));
  }
  times.front().forward = std::max(times.front().forward, microseconds(1));  // no step is empty
  return times;
}

std::vector<ChunkTimes> even_times(std::uint32_t virtual_stages, Seconds f, Seconds i, Seconds w) {
  return std::vector<ChunkTimes>(virtual_stages, ChunkTimes{f, i, w, {}, {}});
}

template <class Check>
void for_random_shapes(unsigned seed, int rounds, const Check& check) {
  Draw draw(seed);
  for (const PipelineSchedule& schedule : pipeline_schedules())
    for (int round = 0; round < rounds; ++round) {
      const PipelineShape shape = random_shape(schedule, draw);
      CAPTURE(schedule.name);
      CAPTURE(shape.stages);
      CAPTURE(shape.chunks);
      CAPTURE(shape.micro_batches);
      check(schedule, shape, draw);
    }
}

PipelineEvaluator evaluator(const PipelineSchedule& schedule, const PipelineShape& shape) {
  Answer<PipelineEvaluator> answer = PipelineEvaluator::of(schedule, shape);
  REQUIRE_MESSAGE(bool(answer), (answer ? "" : answer.reason()));
  return *answer;
}

Seconds iteration(const PipelineSchedule& schedule, const PipelineShape& shape, const std::vector<ChunkTimes>& times,
                  bool overlap = true) {
  return evaluator(schedule, shape)(times, overlap).iteration;
}

Timeline timeline_of(const TaskGraph& graph, std::uint32_t least_iterations = 1) {
  ScheduleOptions options;
  options.least_iterations = least_iterations;
  return schedule(graph, options);
}

std::int64_t nanoseconds(Seconds s) { return std::llround(s.value() * 1e9); }

}  // namespace

TEST_CASE("every pass occurs once, where its stage is, and there is no deadlock") {
  for_random_shapes(1, 60, [](const PipelineSchedule& schedule, const PipelineShape& shape, Draw&) {
    Passes order;
    REQUIRE(order_passes(schedule, shape, order) == "");
    std::set<std::tuple<std::uint32_t, std::uint32_t, bool>> forward_and_input;
    std::set<std::tuple<std::uint32_t, std::uint32_t>> weights;
    for (const OrderedPass& pass : order.all) {
      CHECK(schedule.place(shape, pass.device, pass.slot.chunk) == pass.virtual_stage);
      if (pass.slot.pass != PipelinePass::weight_gradient)
        CHECK(forward_and_input
                  .emplace(pass.virtual_stage, pass.slot.micro_batch, pass.slot.pass == PipelinePass::forward)
                  .second);
      if (pass.slot.pass == PipelinePass::weight_gradient || pass.slot.pass == PipelinePass::backward)
        CHECK(weights.emplace(pass.virtual_stage, pass.slot.micro_batch).second);
    }
    const std::size_t cells = std::size_t{virtual_stages(schedule, shape)} * shape.micro_batches;
    CHECK(forward_and_input.size() == 2 * cells);
    CHECK(weights.size() == cells);
  });
}

TEST_CASE("the scheduled task graph takes as long as the evaluator says") {
  for_random_shapes(2, 60, [](const PipelineSchedule& schedule, const PipelineShape& shape, Draw& draw) {
    PipelineEvaluator evaluate = evaluator(schedule, shape);
    for (const bool overlap : {true, false}) {
      CAPTURE(overlap);
      const auto times = random_times(virtual_stages(schedule, shape), draw);
      const auto graph = lowered(schedule, shape, times, overlap);
      REQUIRE(bool(graph));
      REQUIRE(flaw_of(*graph) == "");
      const Timeline timeline = timeline_of(*graph);
      const PipelineTimes& said = evaluate(times, overlap);
      CHECK(timeline.iteration_time().value() == doctest::Approx(said.iteration.value()).epsilon(1e-12));
      std::vector<Picoseconds> first(shape.stages, INT64_MAX), last(shape.stages, 0), busy(shape.stages, 0);
      for (std::uint32_t t = 0; t < graph->tasks.size(); ++t) {
        const PipelineTask task = pipeline_task(*graph, shape, t);
        if (task.transfer || task.end) continue;
        first[task.from] = std::min(first[task.from], timeline.start[t]);
        last[task.from] = std::max(last[task.from], timeline.end[t]);
        busy[task.from] += timeline.end[t] - timeline.start[t];
      }
      for (std::uint32_t d = 0; d < shape.stages; ++d) {
        CHECK(nanoseconds(said.first_start[d]) * 1000 == first[d]);
        CHECK(nanoseconds(said.last_backward[d]) * 1000 == last[d]);
        CHECK(nanoseconds(said.busy[d]) * 1000 == busy[d]);
      }
    }
  });
}

TEST_CASE("a forward pass behind a backward pass takes less by what both hide, and so does the backward pass") {
  // F0 | B0 F1 | B1 F2 | B2: two pairs, of which each pass is alone in none.
  const ChunkTimes times{microseconds(10), microseconds(12), microseconds(8), {}, {}, microseconds(3), microseconds(5)};
  PipelineEvaluator one = evaluator(*pipeline_schedule("1f1b"), {1, 1, 3});
  const std::array alone{times};
  const PipelineTimes& said = one(alone, true);
  CHECK(nanoseconds(said.iteration) == 3 * 30'000 - 2 * 8'000);
  CHECK(nanoseconds(said.saved[0]) == 2 * 8'000);
  CHECK(said.busy[0] == said.iteration);
  // gpipe runs all forward passes first, and the zero-bubble schedules no whole backward passes.
  std::set<std::string_view> pairing;
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    CAPTURE(schedule.name);
    if (pairs_passes(schedule)) pairing.insert(schedule.name);
    PipelineShape shape = small_shape(schedule);
    shape.micro_batches = 8;
    const std::vector<ChunkTimes> all(virtual_stages(schedule, shape), times);
    PipelineEvaluator evaluate = evaluator(schedule, shape);
    Seconds saved;
    for (const Seconds s : evaluate(all, true).saved) saved += s;
    CHECK((saved > Seconds(0)) == pairs_passes(schedule));
  }
  CHECK(pairing == std::set<std::string_view>{"1f1b", "interleaved", "bidirectional"});
}

TEST_CASE("a step that follows another one takes as long: the critical cycle goes through its end") {
  for_random_shapes(3, 8, [](const PipelineSchedule& schedule, const PipelineShape& shape, Draw& draw) {
    const auto times = random_times(virtual_stages(schedule, shape), draw);
    const auto graph = lowered(schedule, shape, times, draw.coin());
    const Timeline timeline = timeline_of(*graph);
    CHECK(critical_cycle_of(*graph, timeline).period.value() ==
          doctest::Approx(timeline.iteration_time().value()).epsilon(1e-9));
    const Timeline several = timeline_of(*graph, 3);
    REQUIRE(several.iterations >= 3);
    const Picoseconds end = several.end[graph->marker];
    CHECK(several.end[2 * several.tasks + graph->marker] == 3 * end);
  });
}

TEST_CASE("even stages without transfers take what the textbook says") {
  std::set<std::string_view> compared;
  for_random_shapes(4, 150, [&](const PipelineSchedule& schedule, const PipelineShape& shape, Draw& draw) {
    const bool even = draw.coin();  // what ZB-V's closed form is for
    const double f = draw.whole(1, 60), i = even ? f : draw.whole(1, 60), w = even ? f : draw.whole(1, 60);
    const double v = shape.chunks / schedule.copies;
    const TextbookPipeline book =
        schedule.textbook(shape, microseconds(f * v), microseconds(i * v), microseconds(w * v));
    PipelineEvaluator evaluate = evaluator(schedule, shape);
    CHECK(evaluate.kept(0) / v == doctest::Approx(book.kept));
    if (std::isnan(book.iteration.value())) return;
    compared.insert(schedule.name);
    CAPTURE(f);
    CAPTURE(i);
    CAPTURE(w);
    const auto times = even_times(virtual_stages(schedule, shape), microseconds(f), microseconds(i), microseconds(w));
    for (const bool overlap : {true, false}) {
      const PipelineTimes& said = evaluate(times, overlap);
      CHECK(said.iteration.value() == doctest::Approx(book.iteration.value()).epsilon(1e-12));
      for (const Seconds busy : said.busy)
        CHECK((said.iteration - busy).value() == doctest::Approx(book.bubble.value()).epsilon(1e-9).scale(1e-6));
    }
  });
  CHECK(compared.size() == pipeline_schedules().size());
}

TEST_CASE("kept micro-batches, stage by stage") {
  const PipelineShape shape{4, 1, 6};
  const auto kept = [&](std::string_view name, const PipelineShape& of) {
    std::vector<double> out;
    const PipelineEvaluator evaluate = evaluator(named(name), of);
    for (std::uint32_t d = 0; d < of.stages; ++d) out.push_back(evaluate.kept(d));
    return out;
  };
  CHECK(kept("gpipe", shape) == std::vector<double>{6, 6, 6, 6});
  CHECK(kept("1f1b", shape) == std::vector<double>{4, 3, 2, 1});
  CHECK(kept("zb_h1", shape) == std::vector<double>{4, 4, 4, 4});
  CHECK(kept("zb_v", {4, 2, 8}) == std::vector<double>{8, 8, 8, 8});
  CHECK(kept("zb_v", {4, 2, 3}) == std::vector<double>{4, 5, 6, 6});
  CHECK(kept("interleaved", {4, 2, 8}) == std::vector<double>{11, 9, 7, 5});
  CHECK(kept("bidirectional", {4, 2, 8}) == std::vector<double>{3, 4, 4, 3});
}

TEST_CASE("no step is shorter than its busiest device, nor than one micro-batch's way") {
  for_random_shapes(5, 60, [](const PipelineSchedule& schedule, const PipelineShape& shape, Draw& draw) {
    const auto times = random_times(virtual_stages(schedule, shape), draw);
    PipelineEvaluator evaluate = evaluator(schedule, shape);
    const PipelineTimes& said = evaluate(times, true);
    CHECK(said.iteration >= *std::max_element(said.busy.begin(), said.busy.end()) * (1 - 1e-12));
    std::vector<std::uint32_t> device(times.size());  // of one copy
    for (std::uint32_t d = 0; d < shape.stages; ++d)
      for (std::uint32_t c = 0; c < shape.chunks / schedule.copies; ++c) device[schedule.place(shape, d, c)] = d;
    Seconds way;
    for (std::uint32_t v = 0; v < times.size(); ++v) {
      way += times[v].forward + times[v].input_gradient;
      if (v + 1 < times.size() && device[v] != device[v + 1]) way += times[v].send_forward;
      if (v > 0 && device[v] != device[v - 1]) way += times[v].send_backward;
    }
    CHECK(said.iteration >= way * (1 - 1e-12));
    const Seconds overlapped = said.iteration;
    CHECK(evaluate(times, false).iteration >= overlapped * (1 - 1e-12));
  });
}

TEST_CASE("one stage has no bubble, one micro-batch no overlap") {
  for_random_shapes(6, 30, [](const PipelineSchedule& schedule, PipelineShape shape, Draw& draw) {
    shape.stages = 1;
    if (schedule.unsuitable(shape).empty()) {
      PipelineEvaluator evaluate = evaluator(schedule, shape);
      const PipelineTimes& said = evaluate(random_times(virtual_stages(schedule, shape), draw), draw.coin());
      CHECK(said.iteration.value() == doctest::Approx(said.busy[0].value()).epsilon(1e-12));
    }
    shape = {5, schedule.copies, 1};
    if (!schedule.unsuitable(shape).empty()) return;
    const auto times = random_times(5, draw);
    Seconds way, last = times[0].weight_gradient;  // the first stage's, unless it comes earlier than another one's
    for (std::uint32_t v = 0; v < 5; ++v)
      way += times[v].forward + times[v].input_gradient + (v < 4 ? times[v].send_forward : Seconds()) +
             (v > 0 ? times[v].send_backward : Seconds());
    if (schedule.name == "zb_h1") {
      CHECK(iteration(schedule, shape, times) >= (way + last) * (1 - 1e-12));
    } else {
      for (const ChunkTimes& t : times) way += t.weight_gradient;
      CHECK(iteration(schedule, shape, times).value() == doctest::Approx(way.value()).epsilon(1e-12));
    }
  });
}

TEST_CASE("longer times never make a step shorter") {
  // The order is fixed, so that every end is a sum of times or the larger of two such.
  for_random_shapes(7, 40, [](const PipelineSchedule& schedule, const PipelineShape& shape, Draw& draw) {
    auto times = random_times(virtual_stages(schedule, shape), draw);
    PipelineEvaluator evaluate = evaluator(schedule, shape);
    const bool overlap = draw.coin();
    Seconds before = evaluate(times, overlap).iteration;
    for (int change = 0; change < 10; ++change) {
      ChunkTimes& t = times[draw.whole(0, static_cast<int>(times.size()) - 1)];
      Seconds* const parts[] = {&t.forward, &t.input_gradient, &t.weight_gradient, &t.send_forward, &t.send_backward};
      *parts[draw.whole(0, 4)] += microseconds(draw.whole(1, 50));
      const Seconds after = evaluate(times, overlap).iteration;
      CHECK(after >= before);
      before = after;
    }
  });
}

TEST_CASE("schedules compared on even stages") {
  Draw draw(8);
  for (int round = 0; round < 60; ++round) {
    const auto stages = static_cast<std::uint32_t>(draw.whole(2, 9));
    const PipelineShape shape{stages, 1, static_cast<std::uint32_t>(draw.whole(2, 30))};
    CAPTURE(shape.stages);
    CAPTURE(shape.micro_batches);
    const auto times = even_times(stages, microseconds(draw.whole(1, 50)), microseconds(draw.whole(1, 50)),
                                  microseconds(draw.whole(1, 50)));
    const Seconds usual = iteration(named("1f1b"), shape, times);
    CHECK(nanoseconds(iteration(named("gpipe"), shape, times)) == nanoseconds(usual));
    CHECK(evaluator(named("1f1b"), shape).kept(0) <= evaluator(named("gpipe"), shape).kept(0));
    CHECK(nanoseconds(iteration(named("zb_h1"), shape, times)) < nanoseconds(usual));
    CHECK(evaluator(named("zb_h1"), shape).kept(0) == evaluator(named("1f1b"), shape).kept(0));
  }
}

TEST_CASE("interleaving one chunk is 1F1B; more chunks on even stages shrink the bubble in proportion") {
  Draw draw(9);
  for (std::uint32_t stage = 0; stage < 5; ++stage)
    CHECK(named("interleaved").order({5, 1, 7}, stage) == named("1f1b").order({5, 1, 7}, stage));
  const auto times = random_times(5, draw);
  CHECK(iteration(named("interleaved"), {5, 1, 7}, times) == iteration(named("1f1b"), {5, 1, 7}, times));
  const auto bubble = [](std::uint32_t chunks) {
    PipelineEvaluator evaluate = evaluator(named("interleaved"), {4, chunks, 8});
    const Seconds part = microseconds(60.0 / chunks);
    const PipelineTimes& said = evaluate(even_times(4 * chunks, part, part, part), true);
    return nanoseconds(said.iteration - said.busy[0]);
  };
  CHECK(bubble(1) == 540000);
  CHECK(bubble(2) == 270000);
  CHECK(bubble(3) == 180000);
}

TEST_CASE("groups of interleaving leave no rest, or one that fills the pipeline") {
  CHECK(interleaved_group(7, 21) == 7);
  CHECK(interleaved_group(7, 24) == 8);
  CHECK(interleaved_group(35, 120) == 40);
  CHECK(interleaved_group(5, 9) == 9);
  CHECK(interleaved_group(4, 13) == 7);  // 7 and a rest of 6
  CHECK(interleaved_group(4, 3) == 0);
  for (std::uint32_t stages = 1; stages < 9; ++stages)
    for (std::uint32_t count = stages; count < 40; ++count) {
      const std::uint32_t group = interleaved_group(stages, count);
      CHECK(group >= stages);
      CHECK((count % group == 0 || count % group >= stages));
    }
}

TEST_CASE("more micro-batches lose a smaller share") {
  for (const char* name : {"gpipe", "1f1b", "zb_h1"}) {
    double before = 1;
    for (std::uint32_t m = 1; m <= 64; m *= 2) {
      const auto times = even_times(6, microseconds(10), microseconds(12), microseconds(9));
      const double lost = 1 - m * 31e-6 / iteration(named(name), {6, 1, m}, times).value();
      CHECK(lost < before);
      before = lost;
    }
  }
}

TEST_CASE("what a schedule cannot do is said") {
  const auto reason = [](std::string_view name, const PipelineShape& shape) {
    const auto answer = PipelineEvaluator::of(named(name), shape);
    return answer ? std::string("works") : answer.reason();
  };
  CHECK(reason("interleaved", {4, 2, 3}) == "interleaved: 3 micro-batches are fewer than 4 stages");
  CHECK(reason("gpipe", {4, 2, 8}) == "gpipe: a stage is one chunk; several are for interleaved");
  CHECK(reason("zb_v", {4, 1, 8}) == "zb_v: a device holds two chunks of the model (chunks=2)");
  CHECK(reason("bidirectional", {3, 2, 8}) == "bidirectional: the number of stages has to be even, not 3");
  CHECK(reason("bidirectional", {4, 2, 7}).find("even, not 7") != std::string::npos);
  CHECK(reason("1f1b", {0, 1, 1}).find("at least one") != std::string::npos);
  CHECK(reason("1f1b", {1u << 20, 1, 1u << 20}).find("more than") != std::string::npos);
  CHECK(pipeline_schedule("2f2b") == nullptr);
}

TEST_CASE("a broken schedule is found out instead of hanging") {
  PipelineSchedule broken = named("1f1b");
  const auto reason = [&] {
    const auto answer = PipelineEvaluator::of(broken, {2, 1, 2});
    return answer ? std::string("works") : answer.reason();
  };
  using enum PipelinePass;
  broken.order = [](const PipelineShape&, std::uint32_t stage) -> std::vector<PipelineSlot> {
    // The first stage wants the backward pass of 0 before it has made the forward pass that the second one starts with.
    if (stage == 0) return {{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}, {backward, 0, 1}};
    return {{forward, 0, 0}, {forward, 0, 1}, {backward, 0, 0}, {backward, 0, 1}};
  };
  CHECK(reason() == "1f1b: device 0 waits for ever at pass 1");
  broken.order = [](const PipelineShape&, std::uint32_t) -> std::vector<PipelineSlot> {
    return {{forward, 0, 0}, {forward, 0, 1}, {backward, 0, 0}};
  };
  CHECK(reason() == "1f1b: a pass is missing");
  broken.order = [](const PipelineShape&, std::uint32_t) -> std::vector<PipelineSlot> {
    return {{forward, 0, 0}, {forward, 0, 0}};
  };
  CHECK(reason() == "1f1b: a pass twice");
  broken.order = [](const PipelineShape&, std::uint32_t) -> std::vector<PipelineSlot> { return {{backward, 0, 0}}; };
  CHECK(reason() == "1f1b: a backward pass before its forward pass");
  broken.order = [](const PipelineShape&, std::uint32_t) -> std::vector<PipelineSlot> {
    return {{forward, 0, 0}, {forward, 0, 1}, {input_gradient, 0, 0}, {input_gradient, 0, 1}, {weight_gradient, 0, 0}};
  };
  CHECK(reason() == "1f1b: a pass is missing");
}

TEST_CASE("the graph of 1F1B over two stages, written out") {
  // f = 2, b = 3 on both stages; sends take 1 and 4. The second stage's sends queue behind nothing, the first stage
  // waits for B0 until 12.
  const auto by_hand = test::graph_of(R"(
    gpu chain
    cpu chain
    there fifo
    back fifo
    F0 gpu 2
    F1 gpu 2
    B0 gpu 3
    B1 gpu 3
    G0 cpu 2
    H0 cpu 3
    G1 cpu 2
    H1 cpu 3
    sF0 there 1 priority=0
    sF1 there 1 priority=1
    sB0 back 4 priority=1
    sB1 back 4 priority=3
    end gpu 0
    F0 -> F1
    F1 -> B0
    B0 -> B1
    G0 -> H0
    H0 -> G1
    G1 -> H1
    F0 -> sF0
    sF0 -> G0
    F1 -> sF1
    sF1 -> G1
    H0 -> sB0
    sB0 -> B0
    H1 -> sB1
    sB1 -> B1
    B1 -> end
    H1 -> end)");
  const Seconds ns(1e-9);
  const std::vector<ChunkTimes> times{{2 * ns, 2 * ns, 1 * ns, 1 * ns, 9 * ns},
                                      {2 * ns, 1 * ns, 2 * ns, 9 * ns, 4 * ns}};
  const PipelineShape shape{2, 1, 2};
  const auto graph = lowered(named("1f1b"), shape, times, true);
  REQUIRE(bool(graph));
  CHECK(graph->tasks.size() == by_hand.graph.tasks.size());
  const Timeline ours = timeline_of(*graph), theirs = timeline_of(by_hand.graph);
  CHECK(ours.period == theirs.period);
  std::multiset<std::pair<Picoseconds, Picoseconds>> our_times, their_times;
  for (std::uint32_t t = 0; t < ours.tasks; ++t) our_times.emplace(ours.start[t], ours.end[t]);
  for (std::uint32_t t = 0; t < theirs.tasks; ++t) their_times.emplace(theirs.start[t], theirs.end[t]);
  CHECK(our_times == their_times);

  std::set<std::string> names;
  for (std::uint32_t t = 0; t < graph->tasks.size(); ++t) names.insert(pipeline_task_name(*graph, shape, t));
  CHECK(names ==
        std::set<std::string>{"F0", "F1", "B0", "B1", "send F0", "send F1", "send B0", "send B1", "end of step"});
}

TEST_CASE("tasks know what they do and where") {
  for_random_shapes(10, 10, [](const PipelineSchedule& schedule, const PipelineShape& shape, Draw& draw) {
    const auto graph = lowered(schedule, shape, random_times(virtual_stages(schedule, shape), draw), true);
    std::set<std::tuple<bool, int, std::uint32_t, std::uint32_t>> seen;
    for (std::uint32_t t = 0; t < graph->tasks.size(); ++t) {
      const PipelineTask task = pipeline_task(*graph, shape, t);
      if (task.end) continue;
      CHECK(schedule.place(shape, task.from, task.slot.chunk) == task.virtual_stage);
      CHECK(seen.emplace(task.transfer, static_cast<int>(task.slot.pass), task.virtual_stage, task.slot.micro_batch)
                .second);
      CHECK((task.from != task.to) == task.transfer);
    }
  });
}

namespace {

// One line a device, one column a millisecond: forward passes by the digit of their micro-batch, backward passes (or
// input gradients) by its letter, weight gradients by its capital letter, waiting by a point.
std::string drawing_of(std::string_view name, const PipelineShape& shape, const ChunkTimes& times) {
  const PipelineSchedule& schedule = named(name);
  const std::vector<ChunkTimes> all(virtual_stages(schedule, shape), times);
  const auto graph = lowered(schedule, shape, all, true);
  REQUIRE(bool(graph));
  const Timeline timeline = timeline_of(*graph);
  constexpr Picoseconds column = 1'000'000'000;
  std::vector<std::string> lines(shape.stages, std::string(static_cast<std::size_t>(timeline.period / column), '.'));
  for (std::uint32_t t = 0; t < graph->tasks.size(); ++t) {
    const PipelineTask task = pipeline_task(*graph, shape, t);
    if (task.transfer || task.end) continue;
    const char first = task.slot.pass == PipelinePass::forward           ? '0'
                       : task.slot.pass == PipelinePass::weight_gradient ? 'A'
                                                                         : 'a';
    for (Picoseconds at = timeline.start[t]; at < timeline.end[t]; at += column)
      lines[task.from][static_cast<std::size_t>(at / column)] = static_cast<char>(first + task.slot.micro_batch);
  }
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

// What the member's file shows: the lines that begin with "//     |".
std::string drawing_in(const std::string& file) {
  const std::string text =
      test::text_of_file(std::filesystem::path(STEPCAST_SOURCE_DIR) / "model/stepcast/pipelines" / file);
  std::string out, line;
  for (std::istringstream lines(text); std::getline(lines, line);)
    if (line.starts_with("//     |")) out += line.substr(std::string("//     |").size()) + "\n";
  return out;
}

}  // namespace

TEST_CASE("the drawings in the members' files are what they do") {
  const Seconds ms(1e-3), half(0.5e-3);
  const ChunkTimes usual{ms, ms, ms, {}, {}}, even{ms, half, half, {}, {}};
  CHECK(drawing_in("gpipe.cpp") == drawing_of("gpipe", {4, 1, 4}, usual));
  CHECK(drawing_in("one_f_one_b.cpp") == drawing_of("1f1b", {4, 1, 6}, usual));
  CHECK(drawing_in("interleaved.cpp") == drawing_of("interleaved", {4, 2, 4}, usual));
  CHECK(drawing_in("zb_h1.cpp") == drawing_of("zb_h1", {4, 1, 6}, usual));
  CHECK(drawing_in("zb_v.cpp") == drawing_of("zb_v", {3, 2, 6}, usual));
  CHECK(drawing_in("bidirectional.cpp") == drawing_of("bidirectional", {4, 2, 8}, even));
}
