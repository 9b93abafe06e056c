// Replay: one small hand-written trace for each dependency rule, and what-ifs that follow from the rule.
#include <stepcast/replay/replay.hpp>
#include <stepcast/replay/timeline.hpp>
#include <stepcast/replay/work.hpp>

#include "helpers/hand_trace.hpp"
#include "helpers/replay_graph.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
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
  explicit WhatIf(const Trace& t) : trace(t), built(test::replay_graph_of(t)) {
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
  Answer<test::ReplayGraph> built;
};

/// Five steps of a kernel each. In damaged ones the kernel seems to run before its launch, behind it a copy without
/// one, and the host waits for that copy before it launches the kernel.
Trace with_damaged_steps(std::initializer_list<int> damaged) {
  HandTrace hand;
  for (int i = 0; i < 5; ++i) {
    hand.shift(100.0 * i);
    hand.step(i, 0, 99);
    hand.op(0, "a", 0, 10);
    if (std::find(damaged.begin(), damaged.end(), i) == damaged.end()) {
      hand.kernel(0, 15, 17, 7, "k", 20, 50);
      hand.call(0, "cudaDeviceSynchronize", 30, 51);
      continue;
    }
    hand.add(EventKind::copy, hand.device(7), "Memcpy HtoD (Pageable -> Device)", 42, 44);
    hand.call(0, "cudaStreamSynchronize", 40, 45);
    hand.kernel(0, 60, 62, 7, "k", 20, 25);
    hand.kernel(0, 65, 67, 7, "another", 70, 75);
  }
  return hand.trace();
}

TEST_CASE("a step whose work waits for itself is not rebuilt, nor taken for the others") {
  const auto some = replay_of(with_damaged_steps({2}));
  REQUIRE(static_cast<bool>(some));
  CHECK(some->calibration_step == 1);
  CHECK(some->rebuilt[1].value() == doctest::Approx(99e-6));
  CHECK(some->rebuilt[2] == Seconds(0));
  const auto none = replay_of(with_damaged_steps({1, 2, 3}));
  REQUIRE(!none);
  CHECK(none.reason().starts_with("work waits for itself"));
  CHECK(!replay_timeline_of(with_damaged_steps({1, 2, 3})));
}

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

TEST_CASE("a wait that a thread asks for after its last launch is one of the next launch of another thread") {
  const auto with_wait = [](bool called) {
    return repeated(101, 100, [=](HandTrace& t) {
      t.op(0, "forward", 0, 10);
      t.op(1, "backward", 12, 58);
      t.kernel(1, 14, 16, 7, "gradient", 18, 28);
      t.kernel(1, 30, 32, 20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 35, 55);
      if (called) t.call(1, "cudaStreamWaitEvent", 40, 41);
      t.kernel(0, 62, 64, 7, "adam", 67, 77);
      t.call(0, "cudaDeviceSynchronize", 70, 80);
      t.op(0, "rest", 80, 100);
    });
  };
  const Trace waits = with_wait(true), free = with_wait(false);
  const char* const reduction = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
  CHECK(WhatIf(waits).period() == doctest::Approx(100).epsilon(0.02));
  CHECK(WhatIf(free).period() == doctest::Approx(100).epsilon(0.02));
  // It ends at 95: adam starts then, 28 later than recorded; where it does not wait the end of the reduction decides.
  CHECK(WhatIf(waits).with(reduction, 3) == doctest::Approx(128).epsilon(0.02));
  CHECK(WhatIf(free).with(reduction, 3) == doctest::Approx(118).epsilon(0.02));
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

TEST_CASE("a long wait for a collective may be over long before the collective's end was written") {
  const auto steps = [](double recorded_end) {
    return repeated(101'011, 101'010, [=](HandTrace& t) {
      t.op(0, "c10d::allreduce_", 10, 11);
      t.annotation(2, "gloo:all_reduce", 11, recorded_end);
      t.op(0, "backward", 20, 1000);
      t.op(0, "update", 101'000, 101'010);
    });
  };
  const Trace late = steps(101'009), early = steps(99'200);
  CHECK(WhatIf(late).with("gloo:all_reduce", 0) == doctest::Approx(1010).epsilon(0.02));
  CHECK(WhatIf(early).with("gloo:all_reduce", 0) == doctest::Approx(1010 + 1800).epsilon(0.02));
}

TEST_CASE("a call that waits for a functional collective takes as long as the collective") {
  const Trace trace = repeated(2011, 2010, [](HandTrace& t) {
    t.op(0, "_c10d_functional::all_reduce", 10, 11);
    t.annotation(2, "gloo:all_reduce", 11, 1900);
    t.op(0, "_c10d_functional::wait_tensor", 20, 1910);
    t.op(0, "aten::add", 1910, 2010);
  });
  const WhatIf replay(trace);
  CHECK(replay.period() == doctest::Approx(2010));
  CHECK(replay.with("gloo:all_reduce", 0) == doctest::Approx(2010 - 1880).epsilon(0.02));
  CHECK(replay.with("gloo:all_reduce", 2) == doctest::Approx(2010 + 1889).epsilon(0.02));
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
  CHECK_FALSE(static_cast<bool>(test::replay_graph_of(Trace{})));
}

TEST_CASE("of three steps the one in which the allocator stalls is not the one to rebuild from") {
  for (const bool all : {false, true}) {
    CAPTURE(all);
    HandTrace hand;
    const double stall[] = {all ? 30.0 : 0.0, 200, all ? 20.0 : 0.0}, begins[] = {0, 200, 600};
    for (int i = 0; i < 3; ++i) {
      hand.shift(begins[i]);
      hand.step(i, 0, 100 + stall[i]);
      hand.op(0, "work", 0, 100);
      if (stall[i] > 0) hand.call(0, "cudaFree", 100, 100 + stall[i]);
    }
    const auto replay = replay_of(hand.trace());
    REQUIRE(static_cast<bool>(replay));
    CHECK(replay->calibration_step == (all ? 2 : 0));
    CHECK(replay->replayed.value() == doctest::Approx(all ? 120e-6 : 100e-6).epsilon(0.02));
    CHECK(replay->note.find("step 1 left out: the allocator") != std::string::npos);
  }
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

/// Steps of two kinds in turn: every second one does an update of 20 that the others do not.
Trace alternating(double slow_update = 20) {
  HandTrace hand;
  double begin = 0;
  for (int i = 0; i < 7; ++i) {
    const double update = i == 5 ? slow_update : i % 2 == 1 ? 20 : 0;
    hand.shift(begin);
    hand.step(i, 0, 60 + update);
    hand.kernel(0, 0, 2, 7, "forward", 5, 45);
    if (update > 0) hand.kernel(0, 2, 4, 7, "update", 45, 45 + update);
    hand.call(0, "cudaDeviceSynchronize", 4, 50 + update);
    hand.op(0, "rest", 50 + update, 60 + update);
    begin += 61 + update;
  }
  return hand.trace();
}

TEST_CASE("a step of other work is rebuilt from its own work with the calibration step's times") {
  const auto replay = replay_of(alternating());
  REQUIRE(static_cast<bool>(replay));
  REQUIRE(replay->calibration_step == 3);  // one with an update
  CHECK(replay->rebuilt[1].value() == doctest::Approx(80e-6));
  CHECK(replay->rebuilt[2].value() == doctest::Approx(60e-6));
  CHECK(replay->rebuilt[4].value() == doctest::Approx(60e-6));
  CHECK(replay->rebuilt[0].value() == 0);  // distorted
  for (const double error : replay->step_errors()) CHECK(std::abs(error) < 1e-3);
  CHECK(replay->relative_error == doctest::Approx(0).epsilon(1e-3));
}

TEST_CASE("the predicted step's own times are not used") {
  // Step 5 has a slow update. It is predicted from the others, where the update takes 20.
  const auto replay = replay_of(alternating(50));
  REQUIRE(static_cast<bool>(replay));
  CHECK(replay->rebuilt[5].value() == doctest::Approx(80e-6));
  CHECK(replay->step_times[5].value() == doctest::Approx(110e-6));
  CHECK(replay->step_errors()[5] == doctest::Approx(80.0 / 110 - 1).epsilon(1e-3));
}

TEST_CASE("rows are aligned by a longest common subsequence") {
  using replaying::alignment;
  const auto text = [](std::string_view letters) { return std::vector<std::uint32_t>(letters.begin(), letters.end()); };
  const auto aligned = [&](std::string_view a, std::string_view b) {
    const auto row = text(a), other = text(b);
    const auto partners = alignment(row, other);
    std::string common;
    std::int64_t last = -1;
    for (std::size_t i = 0; i < partners.size(); ++i) {
      if (partners[i] == no_index) continue;
      CHECK(row[i] == other[partners[i]]);
      CHECK(std::int64_t{partners[i]} > last);
      last = partners[i];
      common += a[i];
    }
    return common.size();
  };
  CHECK(aligned("", "abc") == 0);
  CHECK(aligned("abc", "abc") == 3);
  CHECK(aligned("abcabba", "cbabac") == 4);  // Myers' own example
  CHECK(aligned("xaxbxc", "abc") == 3);
  CHECK(aligned("abcdef", "abXXef") == 4);
  CHECK(aligned("abc", "xyz") == 0);
  // Against the textbook's quadratic table, on rows of few letters.
  std::uint32_t random = 1;
  const auto next = [&random](std::uint32_t n) { return (random = random * 1664525u + 1013904223u) / 65536 % n; };
  for (int round = 0; round < 200; ++round) {
    std::string a, b;
    for (std::uint32_t i = next(30); i > 0; --i) a += static_cast<char>('a' + next(4));
    for (std::uint32_t i = next(30); i > 0; --i) b += static_cast<char>('a' + next(4));
    std::vector<std::vector<std::size_t>> table(a.size() + 1, std::vector<std::size_t>(b.size() + 1, 0));
    for (std::size_t i = 1; i <= a.size(); ++i)
      for (std::size_t j = 1; j <= b.size(); ++j)
        table[i][j] = a[i - 1] == b[j - 1] ? table[i - 1][j - 1] + 1 : std::max(table[i - 1][j], table[i][j - 1]);
    CHECK(aligned(a, b) == table[a.size()][b.size()]);
  }
}

TEST_CASE("inside a graph one stream waits for another") {
  // One launch: k1 and k3 on stream 7, k2 on stream 20 between them.
  const Trace trace = repeated(101, 100, [](HandTrace& t) {
    t.kernel(0, 0, 4, 7, "k1", 6, 26);
    t.also(20, "k2", 27, 57);
    t.also(7, "k3", 58, 78);
    t.call(0, "cudaStreamSynchronize", 4, 80);
    t.op(0, "rest", 80, 100);
  });
  const WhatIf replay(trace);
  CHECK(replay.period() == doctest::Approx(100).epsilon(0.03));
  CHECK(replay.with("k2", 2) == doctest::Approx(130).epsilon(0.03));
  CHECK(replay.with("k1", 2) == doctest::Approx(120).epsilon(0.03));
}

/// Two streams; what stream 20 waited for is recorded, or not.
Trace with_ids(bool recorded) {
  HandTrace hand;
  for (int i = 0; i < 5; ++i) {
    hand.shift(101.0 * i);
    hand.step(i, 0, 100);
    hand.kernel(0, 0, 2, 7, "awaited", 5, 25);
    hand.kernel(0, 2, 4, 7, "later", 25, 55);
    hand.kernel(0, 4, 6, 20, "waiting", 57, 77);  // right after "later", by accident: it was launched late in truth
    hand.call(0, "cudaDeviceSynchronize", 6, 80);
    hand.op(0, "rest", 80, 100);
  }
  Trace trace = hand.trace();
  if (!recorded) return trace;
  std::uint32_t awaited = no_index;
  for (std::uint32_t e = 0; e < trace.events.size(); ++e) {
    if (trace.events[e].kind != EventKind::kernel) continue;
    if (trace.text(trace.events[e].name) == "awaited") awaited = e;
    if (trace.text(trace.events[e].name) == "waiting")
      trace.dependencies.push_back({awaited, e, DependencyKind::stream_wait});
  }
  return trace;
}

TEST_CASE("recorded event ids say what a stream waited for") {
  const Trace trace = with_ids(true);
  const replaying::TraceLinks links(trace);
  const replaying::DeviceSide device(links, steps_of(trace)[2]);
  const auto waits_for = [&](std::string_view name) {
    return std::ranges::any_of(device.stream_waits, [&](const replaying::StreamWait& wait) {
      return trace.text(trace.events[wait.event].name) == name;
    });
  };
  CHECK(waits_for("awaited"));
  const Trace hidden = with_ids(false);
  const replaying::TraceLinks hidden_links(hidden);
  const replaying::DeviceSide inferred(hidden_links, steps_of(hidden)[2]);
  REQUIRE(inferred.stream_waits.size() == 1);
  CHECK(hidden.text(hidden.events[inferred.stream_waits[0].event].name) == "later");
}

TEST_CASE("a recorded wait of the host is cut up to the end of what it waited for") {
  HandTrace hand;
  for (int i = 0; i < 5; ++i) {
    hand.shift(101.0 * i);
    hand.step(i, 0, 100);
    hand.kernel(0, 0, 2, 7, "awaited", 5, 45);
    hand.kernel(0, 2, 4, 20, "other", 7, 49);
    hand.call(0, "cudaEventSynchronize", 4, 50);
    hand.op(0, "rest", 50, 100);
  }
  Trace trace = hand.trace();
  const Trace hidden = trace;
  std::uint32_t call = no_index;
  for (std::uint32_t e = 0; e < trace.events.size(); ++e) {
    if (trace.text(trace.events[e].name) == "cudaEventSynchronize") call = e;
    if (trace.text(trace.events[e].name) == "awaited")  // starts after the call
      trace.dependencies.push_back({e, call, DependencyKind::host_wait});
  }
  CHECK(WhatIf(trace).period() == doctest::Approx(100));
  CHECK(WhatIf(trace).with("awaited", 2) == doctest::Approx(140));
  CHECK(WhatIf(trace).with("other", 1.5) == doctest::Approx(100));
  CHECK(WhatIf(hidden).with("other", 1.5) == doctest::Approx(121));  // without ids the last to end is taken
}

/// The trace without every event of which `drop` says so.
template <class Drop>
Trace without(const Trace& whole, Drop drop) {
  Trace trace = whole;
  trace.events.clear();
  for (const Event& event : whole.events)
    if (!drop(event)) trace.events.push_back(event);
  return trace;
}

TEST_CASE("a recording that lost events is doubtful") {
  HandTrace hand;
  for (int i = 0; i < 6; ++i) {
    hand.shift(1000.0 * i);
    hand.step(i, 0, 999);
    for (int k = 0; k < 40; ++k) hand.kernel(0, 20.0 * k, 20.0 * k + 5, 7, "k", 20.0 * k + 8, 20.0 * k + 18);
  }
  const Trace whole = hand.trace();
  CHECK_FALSE(replay_of(whole)->doubtful);
  std::uint32_t random = 7;
  const auto one_in_five = [&random] { return (random = random * 1664525u + 1013904223u) / 65536 % 5 == 0; };
  const auto replay = replay_of(
      without(whole, [&](const Event& event) { return event.kind != EventKind::annotation && one_in_five(); }));
  REQUIRE(static_cast<bool>(replay));
  CHECK(replay->doubtful);
  CHECK(replay->note.find("of the launches without device work") != std::string::npos);
  CHECK(replay->note.find("of the device work without its launch") != std::string::npos);
  // What is cut off at the ends, as in every recording, is no damage.
  CHECK_FALSE(replay_of(without(whole, [](const Event& e) { return e.start_ns < 900'000; }))->doubtful);
}

TEST_CASE("backward nodes without their forward operators are damage on the host") {
  const auto steps = [](int lost) {
    HandTrace hand;
    for (int i = 0; i < 6; ++i) {
      hand.shift(1000.0 * i);
      hand.step(i, 0, 999);
      for (int k = 0; k < 40; ++k) hand.op(0, "forward", 10.0 * k, 10.0 * k + 9);
      for (int k = 0; k < 40; ++k) hand.op(0, "backward", 400 + 10.0 * k, 409 + 10.0 * k);
    }
    Trace trace = hand.trace();
    std::int64_t forward = 0, backward = 0;
    for (Event& event : trace.events) {
      if (trace.text(event.name) == "forward") event.sequence = ++forward % 5 < lost ? -1 : forward;
      if (trace.text(event.name) == "backward") event.sequence = ++backward, event.forward_thread = 1;
    }
    return trace;
  };
  CHECK_FALSE(replay_of(steps(0))->doubtful);
  CHECK(replay_of(steps(1))->doubtful);
  CHECK(replay_of(steps(1))->note.find("20.0 % of the backward nodes") != std::string::npos);
}

TEST_CASE("operators without a number, fills of no bytes and work of the firmware are no damage") {
  HandTrace hand;
  for (int i = 0; i < 6; ++i) {
    hand.shift(1000.0 * i);
    hand.step(i, 0, 999);
    for (int k = 0; k < 40; ++k) hand.kernel(0, 20.0 * k, 20.0 * k + 5, 7, "k", 20.0 * k + 8, 20.0 * k + 18);
    for (int k = 0; k < 40; ++k) hand.op(0, k % 4 == 0 ? "aten::view" : "aten::mul", 850 + k, 850.5 + k);
    for (int k = 0; k < 40; ++k) hand.op(0, k % 4 == 0 ? "ViewBackward0" : "MulBackward0", 900 + k, 900.5 + k);
    for (int k = 0; k < 20; ++k) hand.call(0, "cudaMemsetAsync", 940 + k, 940.5 + k);
  }
  const auto numbered = [&](bool views_are_recorded) {
    Trace trace = hand.trace();
    std::int64_t forward = 0, backward = 0, correlation = 1'000'000, kernel = 0;
    for (Event& event : trace.events) {
      const std::string_view name = trace.text(event.name);
      if (name.starts_with("aten::")) event.sequence = ++forward;
      if (name.ends_with("Backward0")) event.sequence = ++backward, event.forward_thread = 1;
      if (name == "aten::view") event.sequence = -1;
      if (name == "cudaMemsetAsync") event.correlation = ++correlation;
      if (event.kind == EventKind::kernel && ++kernel % 2 == 0) event.correlation = -1;
    }
    // Without its launch, too: nobody could tell.
    std::int64_t launch = 0;
    return without(trace, [&](const Event& event) {
      const std::string_view name = trace.text(event.name);
      return (!views_are_recorded && name == "aten::view") ||
             (name.find("LaunchKernel") != std::string_view::npos && ++launch % 2 == 0);
    });
  };
  const auto intact = replay_of(numbered(true));
  REQUIRE(static_cast<bool>(intact));
  CHECK_FALSE(intact->doubtful);
  const auto lost = replay_of(numbered(false));
  REQUIRE(static_cast<bool>(lost));
  CHECK(lost->note.find("25.0 % of the backward nodes") != std::string::npos);
}

TEST_CASE("a timeline shows the measured and the rebuilt step, row beside row") {
  const Trace trace = repeated(71, 70, [](HandTrace& t) {
    t.kernel(0, 0, 2, 7, "k", 7, 57);
    t.op(0, "op", 2, 10);
    t.call(0, "inside", 3, 11);  // rounded: outlasts its operator
    t.call(0, "cudaDeviceSynchronize", 12, 60);
    t.op(0, "after", 60, 70);
  });
  const auto timeline = replay_timeline_of(trace);
  REQUIRE(static_cast<bool>(timeline));
  CHECK(timeline->rows == std::vector<std::string>{"thread 0", "stream 7"});
  CHECK(timeline->period.value() == doctest::Approx(70e-6));
  const auto slice = [](const std::vector<ReplaySlice>& slices, std::string_view name) {
    const auto it = std::ranges::find(slices, name, &ReplaySlice::name);
    REQUIRE(it != slices.end());
    return *it;
  };
  const Picoseconds us = 1'000'000;
  CHECK(slice(timeline->measured, "k").row == 1);
  CHECK(slice(timeline->measured, "k").start == 7 * us);
  CHECK(slice(timeline->rebuilt, "k").start == 7 * us);
  CHECK(slice(timeline->rebuilt, "k").duration == 50 * us);
  CHECK(slice(timeline->measured, "inside").duration == 7 * us);
  CHECK(slice(timeline->measured, "cudaDeviceSynchronize").duration == 48 * us);
  CHECK(slice(timeline->rebuilt, "cudaDeviceSynchronize").duration == 3 * us);  // the rest was waiting
  CHECK(slice(timeline->rebuilt, "cudaDeviceSynchronize").start == 57 * us);
  CHECK(slice(timeline->rebuilt, "after").start == 60 * us);
  CHECK_FALSE(static_cast<bool>(replay_timeline_of(Trace{})));
}

}  // namespace
}  // namespace stepcast
