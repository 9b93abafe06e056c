// Replay: one small hand-written trace for each dependency rule, what-ifs that follow from the rule, and real traces.
#include <stepcast/format.hpp>
#include <stepcast/replay.hpp>

#include "hand_trace.hpp"
#include "shared_data.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {
namespace {

using test::HandTrace;

/// Five equal steps, `period` us apart; `write` writes one whose times start at 0.
template <class Write>
Trace repeated(double period, double length, Write write, int count = 5) {
  HandTrace hand;
  for (int i = 0; i < count; ++i) {
    hand.shift(period * i);
    hand.step(i, 0, length);
    write(hand);
  }
  return hand.trace();
}

double us(const TaskGraph& graph) {
  const Timeline timeline = schedule(graph);
  CHECK(timeline.steady);
  return timeline.iteration_time().value() * 1e6;
}

/// A replay of `trace` whose tasks of this name take `factor` times as long.
struct WhatIf {
  explicit WhatIf(const Trace& t) : trace(t), built(replay_graph_of(t)) {
    REQUIRE(static_cast<bool>(built));
    CHECK(flaw_of(built->graph) == "");
  }
  double period() const { return us(built->graph); }
  double with(std::string_view name, double factor) const {
    TaskGraph graph = built->graph;
    bool found = false;
    for (Task& task : graph.tasks) {
      if (task.index == no_index || trace.text(trace.events[task.index].name) != name) continue;
      found = true;
      task.work = static_cast<Picoseconds>(static_cast<double>(task.work) * factor);
    }
    CHECK_MESSAGE(found, "no task is called " << name);
    return us(graph);
  }
  const Trace& trace;
  Answer<ReplayGraph> built;
};

TEST_CASE("host work and gaps follow one another") {
  const Trace trace = repeated(21, 20, [](HandTrace& t) {
    t.op(0, "a", 0, 10);
    t.op(0, "part of a", 2, 8);
    t.op(0, "b", 12, 20);
  });
  const WhatIf replay(trace);
  CHECK(replay.period() == doctest::Approx(20));
  CHECK(replay.with("a", 2) == doctest::Approx(30));
  const auto whole = replay_of(trace);
  REQUIRE(static_cast<bool>(whole));
  CHECK(whole->recorded_gap_share == doctest::Approx(0.1));
  CHECK(whole->relative_error == doctest::Approx(0));
}

TEST_CASE("a synchronising call ends when the device does, not when it did in the recording") {
  const Trace trace = repeated(71, 70, [](HandTrace& t) {
    t.kernel(0, 0, 2, 7, "k", 7, 57);
    t.op(0, "hidden", 2, 10);
    t.call(0, "cudaDeviceSynchronize", 10, 60);
    t.op(0, "after", 60, 70);
  });
  const WhatIf replay(trace);
  CHECK(replay.period() == doctest::Approx(70));
  CHECK(replay.with("k", 2) == doctest::Approx(120));
  CHECK(replay.with("after", 2) == doctest::Approx(80));
  CHECK(replay.with("hidden", 2) == doctest::Approx(70));   // still hidden behind the kernel
  CHECK(replay.with("hidden", 10) == doctest::Approx(95));  // 2 + 80, then the call's own 3, then 10
  CHECK(replay.with("k", 0.5) == doctest::Approx(45));      // 7 + 25 + 3 + 10
  CHECK(replay.with("k", 0) == doctest::Approx(23));        // 2 + 8 + 3 + 10: nothing to wait for
}

TEST_CASE("work queued on one stream runs in order with the stream's turn-around between") {
  const Trace trace = repeated(71, 70, [](HandTrace& t) {
    t.kernel(0, 0, 1, 7, "k1", 5, 25);
    t.kernel(0, 1, 2, 7, "k2", 26, 46);
    t.kernel(0, 2, 3, 7, "k3", 47, 67);
    t.call(0, "cudaStreamSynchronize", 3, 70);
  });
  const WhatIf replay(trace);
  CHECK(replay.period() == doctest::Approx(70));
  CHECK(replay.with("k1", 2) == doctest::Approx(90));
  CHECK(replay.with("k3", 0) == doctest::Approx(50));
}

TEST_CASE("a copy to pageable memory makes the host wait, one to pinned memory does not") {
  const auto with_memory = [](const char* name, double call_end) {
    return repeated(61, 60, [=](HandTrace& t) {
      t.kernel(0, 0, 2, 7, "k", 5, 45);
      t.copy(0, 2, call_end, 7, name, 46, 48);
      t.op(0, "rest", call_end, 60);
    });
  };
  const Trace pageable = with_memory("Memcpy DtoH (Device -> Pageable)", 50);
  CHECK(WhatIf(pageable).period() == doctest::Approx(60));
  CHECK(WhatIf(pageable).with("k", 1.2) == doctest::Approx(68).epsilon(0.01));
  const Trace pinned = with_memory("Memcpy DtoH (Device -> Pinned)", 4);
  CHECK(WhatIf(pinned).period() == doctest::Approx(60));
  CHECK(WhatIf(pinned).with("k", 1.2) == doctest::Approx(60));
}

TEST_CASE("a copy from pageable memory waits for its stream, then keeps the host busy") {
  const Trace trace = repeated(71, 70, [](HandTrace& t) {
    t.kernel(0, 0, 2, 7, "k", 5, 45);
    t.copy(0, 2, 60, 7, "Memcpy HtoD (Pageable -> Device)", 46, 61);
    t.op(0, "rest", 60, 70);
  });
  const WhatIf replay(trace);
  CHECK(replay.period() == doctest::Approx(70));
  CHECK(replay.with("k", 2) == doctest::Approx(110));
}

TEST_CASE("one stream waits for another: as called, or as seen") {
  const auto two_streams = [](bool called, double start, double k1_end) {
    return repeated(81, 80, [=](HandTrace& t) {
      t.kernel(0, 0, 2, 7, "k1", 5, k1_end);
      if (called) t.call(0, "cudaStreamWaitEvent", 8, 9);
      t.kernel(0, 10, 12, 20, "k2", start, start + 20);
      t.call(0, "cudaDeviceSynchronize", 12, start + 22);
      t.op(0, "rest", start + 22, 80);
    });
  };
  const Trace called = two_streams(true, 15, 8), independent = two_streams(false, 15, 8);
  CHECK(WhatIf(called).period() == doctest::Approx(80));
  CHECK(WhatIf(independent).period() == doctest::Approx(80));
  CHECK(WhatIf(called).with("k1", 10) == doctest::Approx(100));      // k1 ends at 35, k2 starts 20 later than recorded
  CHECK(WhatIf(independent).with("k1", 10) == doctest::Approx(80));  // k1 ends at 35, where k2 ends too
  const Trace seen = two_streams(false, 47, 46);
  CHECK(WhatIf(seen).period() == doctest::Approx(80).epsilon(0.02));
  CHECK(WhatIf(seen).with("k1", 2) == doctest::Approx(80 + 41).epsilon(0.02));
}

TEST_CASE("a kernel that starts while another drains its last blocks waited for it") {
  const Trace trace = repeated(501, 500, [](HandTrace& t) {
    t.kernel(0, 0, 2, 7, "k1", 5, 405);
    t.kernel(0, 3, 5, 20, "k2", 395, 495);
    t.call(0, "cudaDeviceSynchronize", 5, 500);
  });
  const WhatIf replay(trace);
  CHECK(replay.period() == doctest::Approx(510));  // the 10 us of overlap are given up
  CHECK(replay.with("k1", 2) == doctest::Approx(910));
}

TEST_CASE("the backward thread takes over, and the main thread goes on when it is done") {
  const Trace trace = repeated(61, 60, [](HandTrace& t) {
    t.op(0, "forward", 0, 10);
    t.op(1, "backward", 12, 30);
    t.op(1, "backward", 30, 47);
    t.op(0, "update", 50, 60);
  });
  const WhatIf replay(trace);
  CHECK(replay.period() == doctest::Approx(60));
  CHECK(replay.with("backward", 2) == doctest::Approx(95));
  CHECK(replay.with("forward", 2) == doctest::Approx(70));
  CHECK(replay_of(trace)->recorded_gap_share == doctest::Approx(5.0 / 60));
}

TEST_CASE("a thread that works beside the main thread is not waited for") {
  const Trace trace = repeated(61, 60, [](HandTrace& t) {
    t.op(0, "a", 0, 10);
    t.op(0, "b", 10, 50);
    t.op(0, "c", 50, 60);
    t.op(1, "beside", 5, 55);
  });
  const WhatIf replay(trace);
  CHECK(replay.period() == doctest::Approx(60));
  CHECK(replay.with("beside", 1.1) == doctest::Approx(60));
}

/// Two collectives on worker threads; the host is seen to wait for the first only.
Trace gloo_steps(double first_end) {
  return repeated(411, 410, [=](HandTrace& t) {
    t.op(0, "c10d::allreduce_", 10, 11);
    t.annotation(2, "gloo:first", 11, first_end);
    t.op(0, "c10d::allreduce_", 19, 20);
    t.annotation(3, "gloo:second", 20, 200);
    t.op(0, "backward", 20, 100);
    t.op(0, "update", 401, 410);
  });
}

TEST_CASE("a host that waits for a collective on a worker thread goes on when that ends") {
  const Trace trace = gloo_steps(400);
  const WhatIf replay(trace);
  CHECK(replay.period() == doctest::Approx(410));
  CHECK(replay.with("gloo:first", 2) == doctest::Approx(410 + 389));
  CHECK(replay.with("backward", 2) == doctest::Approx(410));
  CHECK(replay.with("gloo:second", 3) == doctest::Approx(20 + 540 + 1 + 9));  // not seen waiting, yet it has to end
  const Trace late_record = gloo_steps(403);                                  // closed after the waiting thread went on
  CHECK(WhatIf(late_record).period() == doctest::Approx(410));
}

TEST_CASE("a full launch queue is a wait and not the cost of launching") {
  // 1500 kernels of 10 us a step; a launch costs 1 us, but no more than 1024 may be pending.
  HandTrace hand;
  std::vector<double> starts;
  double host = 0, device = 0;
  for (int step = 0; step < 6; ++step) {
    const double begin = host;
    for (int i = 0; i < 1500; ++i) {
      const std::size_t n = starts.size();
      const double end = n < 1024 ? host + 1 : std::max(host + 1, starts[n - 1024]);
      const double start = std::max(end + 3, device);
      hand.kernel(0, host, end, 7, "k", start, start + 10);
      starts.push_back(start);
      device = start + 10;
      host = end;
    }
    hand.step(step, begin, host);
  }
  const Trace trace = hand.trace();
  const WhatIf replay(trace);
  CHECK(replay.period() == doctest::Approx(15000).epsilon(0.001));
  CHECK(replay.with("k", 0.5) == doctest::Approx(7500).epsilon(0.001));
  CHECK(replay.with("k", 0.01) == doctest::Approx(1500).epsilon(0.01));  // the host's 1 us a launch
}

TEST_CASE("a host that runs ahead leaves the step to the device") {
  HandTrace hand;
  for (int i = 0; i < 5; ++i) {
    hand.shift(10.0 * i);
    hand.step(i, 0, 10);
    for (int k = 0; k < 5; ++k)
      hand.kernel(0, 2.0 * k, 2.0 * k + 2, 7, "k" + std::to_string(k), 30 + 90.0 * i + 20 * k, 50 + 90.0 * i + 20 * k);
  }
  const Trace trace = hand.trace();
  const WhatIf replay(trace);
  CHECK(replay.period() == doctest::Approx(100));
  CHECK(replay.with("k3", 2) == doctest::Approx(120));
  const auto whole = replay_of(trace);
  CHECK(whole->measured.value() == doctest::Approx(100e-6));
  CHECK(whole->recorded_gap_share == 0);
}

TEST_CASE("one call launches a graph of kernels") {
  const Trace trace = repeated(51, 50, [](HandTrace& t) {
    t.kernel(0, 0, 4, 7, "k1", 6, 16);
    t.also(7, "k2", 16, 26);
    t.also(7, "k3", 26, 36);
    t.call(0, "cudaStreamSynchronize", 4, 40);
    t.op(0, "rest", 40, 50);
  });
  const WhatIf replay(trace);
  CHECK(replay.period() == doctest::Approx(50));
  CHECK(replay.with("k2", 3) == doctest::Approx(70));
}

TEST_CASE("a call may wait for work of the step before") {
  const Trace trace = repeated(41, 40, [](HandTrace& t) {
    t.call(0, "cudaStreamSynchronize", 0, 20);
    t.op(0, "a", 20, 30);
    t.kernel(0, 30, 32, 7, "k", 37, 59);  // ends 18 us into the next step
  });
  const WhatIf replay(trace);
  CHECK(replay.period() == doctest::Approx(41));  // 2 after the wait, 10, latency 7, 22
  CHECK(replay.with("k", 2) == doctest::Approx(63));
  CHECK(replay.with("k", 0) == doctest::Approx(22));  // the host: 2 + 10 + 2 + 8
}

TEST_CASE("a device clock that runs behind the host's does no harm") {
  const Trace trace = repeated(61, 60, [](HandTrace& t) {
    t.kernel(0, 0, 2, 7, "k", 5, 25);
    t.copy(0, 50, 55, 7, "Memcpy DtoH (Device -> Pageable)", 27, 30);
    t.call(0, "cudaStreamSynchronize", 55, 55);
    t.copy(0, 55, 55, 7, "Memcpy HtoD (Pageable -> Device)", 31, 32);
    t.call(0, "cudaStreamSynchronize", 55, 55);
  });
  CHECK(WhatIf(trace).period() == doctest::Approx(60).epsilon(0.1));  // the copy's 3 us count twice, no more
}

TEST_CASE("what is compared with what") {
  HandTrace hand;
  const double lengths[] = {100, 10, 12, 14, 16, 200};
  double begin = 0;
  for (int i = 0; i < 6; ++i) {
    hand.shift(begin);
    hand.step(i, 0, lengths[i]);
    hand.op(0, "work", 0, lengths[i]);
    begin += lengths[i] + 1;
  }
  const auto replay = replay_of(hand.trace());
  REQUIRE(static_cast<bool>(replay));
  CHECK(replay->calibration_step == 2);  // the middle one of the undistorted steps
  CHECK(replay->replayed.value() == doctest::Approx(12e-6));
  CHECK(replay->measured.value() == doctest::Approx(14e-6));  // median of 10, 14, 16
  CHECK(replay->relative_error == doctest::Approx(-2.0 / 14));
  CHECK(replay->noise == doctest::Approx(3.0 / 13));
  CHECK(replay->scored);
  CHECK(replay->note == "");
}

TEST_CASE("few steps are replayed without a score; none is no replay") {
  const auto few = replay_of(repeated(
      11, 10, [](HandTrace& t) { t.op(0, "work", 0, 10); }, 3));
  REQUIRE(static_cast<bool>(few));
  CHECK_FALSE(few->scored);
  CHECK(few->note.find("3 annotated steps") != std::string::npos);
  CHECK(few->replayed.value() == doctest::Approx(10e-6));
  CHECK_FALSE(static_cast<bool>(replay_of(Trace{})));
  CHECK_FALSE(static_cast<bool>(replay_graph_of(Trace{})));
}

TEST_CASE("steps that do not do the same work are named") {
  HandTrace hand;
  for (int i = 0; i < 6; ++i) {
    hand.shift(100.0 * i);
    hand.step(i, 0, 99);
    for (int k = 0; k < (i % 2 == 0 ? 10 : 14); ++k) hand.op(0, "work", 5.0 * k, 5.0 * k + 4);
  }
  CHECK(replay_of(hand.trace())->note == "the steps differ in work: 10 to 14 host events");
}

// ---- the critical path, found a second way ---------------------------------------------------------------------

/// Longest path over the unrolled graph, by relaxing tasks in topological order: no events, no queues.
class LongestPath {
 public:
  explicit LongestPath(const TaskGraph& graph) : graph_(graph), order_(order_of(graph)) {}

  /// The period if task `t` took `extra` longer: the longest cycle through it (over 1 to 4 iterations), or `period`.
  Picoseconds period_with(std::uint32_t t, Picoseconds extra, Picoseconds period) const {
    constexpr std::uint32_t iterations = 4;
    constexpr Picoseconds unreached = INT64_MIN / 2;
    const std::size_t n = graph_.tasks.size();
    std::vector<Picoseconds> start((iterations + 1) * n, unreached);
    start[t] = 0;
    Picoseconds longest = period;
    for (std::uint32_t i = 0; i <= iterations; ++i) {
      for (const std::uint32_t task : order_) {
        const Picoseconds from = start[i * n + task];
        if (from <= unreached) continue;
        const Picoseconds end = from + graph_.tasks[task].work + (task == t ? extra : 0);
        for (const Arc& arc : graph_.successors(task)) {
          if (i + arc.lag > iterations) continue;
          Picoseconds& to = start[(i + arc.lag) * n + arc.task];
          to = std::max(to, end);
        }
      }
      if (i > 0 && start[i * n + t] > unreached) longest = std::max(longest, start[i * n + t] / i);
    }
    return longest;
  }

 private:
  static std::vector<std::uint32_t> order_of(const TaskGraph& graph) {
    std::vector<std::uint32_t> before(graph.tasks.size(), 0), order;
    for (std::uint32_t t = 0; t < graph.tasks.size(); ++t)
      for (const Arc& arc : graph.successors(t)) before[arc.task] += arc.lag == 0;
    for (std::uint32_t t = 0; t < graph.tasks.size(); ++t)
      if (before[t] == 0) order.push_back(t);
    for (std::size_t i = 0; i < order.size(); ++i)
      for (const Arc& arc : graph.successors(order[i]))
        if (arc.lag == 0 && --before[arc.task] == 0) order.push_back(arc.task);
    return order;
  }
  const TaskGraph& graph_;
  std::vector<std::uint32_t> order_;
};

struct Doubled {
  int moved_fully = 0, moved_partly = 0, unmoved = 0;
};

/// Doubles one kernel at a time: the step moves exactly as the longest path says.
Doubled double_kernels(const TaskGraph& graph, int count) {
  const Picoseconds period = schedule(graph).period;
  const LongestPath paths(graph);
  std::vector<std::uint32_t> kernels;
  for (std::uint32_t t = 0; t < graph.tasks.size(); ++t)
    if (graph.tasks[t].kind == TaskKind::kernel && graph.tasks[t].work > 0) kernels.push_back(t);
  Doubled seen;
  const std::size_t stride = std::max<std::size_t>(1, kernels.size() / static_cast<std::size_t>(count));
  TaskGraph changed = graph;
  for (std::size_t k = 0; k < kernels.size(); k += stride) {
    const std::uint32_t t = kernels[k];
    const Picoseconds extra = graph.tasks[t].work;
    changed.tasks[t].work = 2 * extra;
    const Timeline timeline = schedule(changed);
    changed.tasks[t].work = extra;
    const Picoseconds expected = paths.period_with(t, extra, period);
    CHECK(std::abs(timeline.period - expected) <= 1000);  // the scheduler's own tolerance: a nanosecond
    const Picoseconds moved = timeline.period - period;
    if (moved <= 1000) ++seen.unmoved;
    else if (moved >= extra - 1000) ++seen.moved_fully;
    else ++seen.moved_partly;
  }
  return seen;
}

TEST_CASE("negative control: a kernel that takes longer moves the step by what its slack does not absorb") {
  const Trace trace = repeated(101, 100, [](HandTrace& t) {
    t.kernel(0, 0, 2, 7, "critical", 7, 60);
    t.kernel(0, 2, 4, 20, "slack 10", 9, 50);
    t.kernel(0, 4, 6, 21, "slack 40", 11, 20);
    t.call(0, "cudaDeviceSynchronize", 6, 62);
    t.op(0, "rest", 62, 100);
  });
  const WhatIf replay(trace);
  const Doubled seen = double_kernels(replay.built->graph, 3);
  CHECK(seen.moved_fully == 1);
  CHECK(seen.moved_partly == 1);
  CHECK(seen.unmoved == 1);
  CHECK(replay.with("critical", 2) == doctest::Approx(153));
  CHECK(replay.with("slack 10", 2) == doctest::Approx(100 + 41 - 10));
}

// ---- real traces -----------------------------------------------------------------------------------------------

const char* const scored_traces[] = {
    "lab/traces/resnet18_w1_solo_rank0.json.gz",
    "lab/traces/tfm4x256_w1_solo_rank0.json.gz",
    "traces/KellerJordan__modded-nanogpt/"
    "2025-10-31_AdamSyncGradientHook__modded-nanogpt-current-gpu-rank-00-chrome-trace.json.gz",
    "traces/KellerJordan__modded-nanogpt/"
    "2025-10-31_AdamSyncGradientHook__modded-nanogpt-current-gpu-rank-00-chrome-trace.v2.json.gz",
    "traces/facebookresearch__HolisticTraceAnalysis/df_index_resolver__df_index_resolver.json.gz",
    "traces/facebookresearch__HolisticTraceAnalysis/trace_diff__control__control.json.gz",
    "traces/luatil__torch-profile/trace_04.json.gz",
    "traces/luatil__torch-profile/trace_05.json.gz",
    "traces/pytorch__benchmark/trace.json.gz",
    "traces/pytorch__benchmark/trace2.json.gz",
    "traces/pytorch__benchmark/trace3.json.gz",
    "traces/pytorch__kineto/resnet50_num_workers_0__worker0.1623143089861.pt.trace.json.gz",
    "traces/pytorch__kineto/resnet50_num_workers_0__worker0.1623143566756.pt.trace.json.gz",
    "traces/pytorch__kineto/resnet50_num_workers_0__worker0.pt.trace.json.gz",
    "traces/pytorch__kineto/resnet50_num_workers_0__worker0.v0.pt.trace.json.gz",
};

TEST_CASE("real traces: one step predicts the others within three per cent in the median") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  std::vector<double> errors, own_errors;
  for (const std::string path : scored_traces) {
    const test::File file(folder->parent_path() / path);
    const Trace trace = trace_of(file.source());
    const auto replay = replay_of(trace);
    REQUIRE(static_cast<bool>(replay));
    CAPTURE(path);
    CHECK(replay->scored);
    for (std::size_t i = 0; i < replay->steps.size(); ++i)
      if (replay->steps[i].number == replay->calibration_step)
        own_errors.push_back(std::abs(replay->replayed / replay->step_times[i] - 1));
    errors.push_back(std::abs(replay->relative_error));
    MESSAGE(path << ": " << replay->steps.size() << " steps, measured " << replay->measured.value() * 1e3
                 << " ms, replayed " << replay->replayed.value() * 1e3 << " ms, error " << replay->relative_error * 100
                 << " %, noise " << replay->noise * 100 << " %, gaps " << replay->recorded_gap_share * 100 << " %");
  }
  std::sort(errors.begin(), errors.end());
  CHECK(errors[errors.size() / 2] <= 0.03);
  // Against the calibration step itself only the rebuilt waits can be wrong, not the step-to-step noise.
  CHECK(*std::max_element(own_errors.begin(), own_errors.end()) <= 0.03);
}

TEST_CASE("real traces of two workers: the waits for gloo are rebuilt") {
  const auto folder = test::shared_folder("lab");
  if (!folder) return;
  for (const char* run : {"ddp1_1000mbit", "ddp25_1000mbit", "ddp25_3000mbit", "fp16_1000mbit", "noov25_1000mbit",
                          "psgd1_1000mbit", "wfbp_1000mbit"})
    for (const char* rank : {"0", "1"}) {
      const std::string name = std::string("resnet18_w2_") + run + "_rank" + rank + ".json.gz";
      CAPTURE(name);
      const test::File file(*folder / "traces" / name);
      const Trace trace = trace_of(file.source());
      const auto replay = replay_of(trace);
      REQUIRE(static_cast<bool>(replay));
      CHECK_FALSE(replay->scored);  // three steps
      CHECK(std::abs(replay->relative_error) < 0.005);
      // The recorded waits are no tasks: the host's own work is less than the step wherever the network was waited for.
      const auto built = replay_graph_of(trace);
      Picoseconds host = 0, transfers = 0;
      for (const Task& task : built->graph.tasks) {
        if (task.kind == TaskKind::transfer) transfers += task.work;
        else host += task.work;
      }
      CHECK(transfers > 0);
      if (std::string_view(run) != "psgd1_1000mbit") CHECK(seconds_of(host) < 0.9 * replay->replayed);
    }
}

TEST_CASE("real traces: doubling one kernel moves the step as the critical path says") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  Doubled all;
  for (const char* path : {"luatil__torch-profile/trace_04.json.gz", "luatil__torch-profile/trace_05.json.gz",
                           "facebookresearch__HolisticTraceAnalysis/trace_diff__control__control.json.gz",
                           "pytorch__kineto/resnet50_num_workers_0__worker0.1623143089861.pt.trace.json.gz"}) {
    CAPTURE(path);
    const test::File file(*folder / path);
    const auto built = replay_graph_of(trace_of(file.source()));
    REQUIRE(static_cast<bool>(built));
    REQUIRE(flaw_of(built->graph) == "");
    const Doubled seen = double_kernels(built->graph, 12);
    all.moved_fully += seen.moved_fully;
    all.moved_partly += seen.moved_partly;
    all.unmoved += seen.unmoved;
  }
  MESSAGE(all.moved_fully << " moved the step by their whole duration, " << all.moved_partly << " by a part, "
                          << all.unmoved << " not at all");
  CHECK(all.moved_fully > 0);
  CHECK(all.unmoved > 0);
}

}  // namespace
}  // namespace stepcast
