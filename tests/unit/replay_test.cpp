// Replay: one small hand-written trace for each dependency rule, and what-ifs that follow from the rule.
#include <stepcast/replay.hpp>

#include "hand_trace.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {
namespace {

using test::HandTrace;
using test::repeated;

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
  CHECK(replay_of(hand.trace())->note ==
        "the steps differ in work: 10 to 14 host events; those that differ are rebuilt with their own work");
}

}  // namespace
}  // namespace stepcast
