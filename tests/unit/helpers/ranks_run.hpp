#pragma once
// A distributed run written by hand: several ranks that meet in collectives; for tests of what reads ranks together.
#include "helpers/hand_trace.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace stepcast::test {

struct RunPlan {
  int ranks = 4, steps = 4, collectives = 3;  ///< collectives in each step
  double transfer_us = 50;
  unsigned seed = 1;
  std::vector<double> clock_us;  ///< by rank: what its clock is ahead; empty: 0
  int late_rank = -1;            ///< sleeps before the second collective of every step
  double late_us = 0;
};

/// One trace a rank. Collective c of step s is numbered s * collectives + c by the correlation of its kernel.
inline std::vector<Trace> traces_of(const RunPlan& plan) {
  std::mt19937 random(plan.seed);
  std::uniform_real_distribution<double> compute(180, 220), jitter(-0.4, 0.4);
  std::vector<HandTrace> hands(std::size_t(plan.ranks));
  for (std::size_t r = 0; r < hands.size(); ++r) hands[r].shift(r < plan.clock_us.size() ? plan.clock_us[r] : 0);
  double now = 1000;
  for (int s = 0; s < plan.steps; ++s) {
    const double begin = now;
    for (int c = 0; c < plan.collectives; ++c) {
      std::vector<double> start;
      for (int r = 0; r < plan.ranks; ++r) {
        HandTrace& hand = hands[std::size_t(r)];
        const double length = compute(random);
        double at = now + 5;
        hand.op(0, "aten::mm", at, at + length);
        at += length + 2;
        if (c == 1 && r == plan.late_rank) at += plan.late_us;
        hand.op(0, "aten::add", at, at + 1);
        start.push_back(at + 10);
      }
      const double end = *std::ranges::max_element(start) + plan.transfer_us;
      for (int r = 0; r < plan.ranks; ++r) {
        const double from = start[std::size_t(r)];
        hands[std::size_t(r)].kernel(0, from - 5, from - 3, 20,
                                     c % 2 == 0 ? "ncclDevKernel_AllReduce_Sum_f32_RING_LL" : "ncclDevKernel_SendRecv",
                                     from, end + jitter(random));
      }
      now = end;
    }
    for (HandTrace& hand : hands) hand.step(s, begin, now - 1);
  }
  std::vector<Trace> traces;
  for (const HandTrace& hand : hands) {
    traces.push_back(hand.trace());
    traces.back().rank = std::ssize(traces) - 1;
    traces.back().world_size = plan.ranks;
    traces.back().source = "rank" + std::to_string(traces.back().rank) + ".json";
  }
  return traces;
}

/// The same trace on a clock that is ahead by `ns`.
inline Trace shifted(Trace trace, std::int64_t ns) {
  for (Event& event : trace.events) event.start_ns += ns;
  return trace;
}

/// The same trace with `delay_ns` more between `at_ns` and whatever comes later; what runs at that time ends later.
inline Trace delayed(Trace trace, std::int64_t at_ns, std::int64_t delay_ns) {
  const auto moved = [&](std::int64_t time) { return time < at_ns ? time : time + delay_ns; };
  for (Event& event : trace.events) {
    const std::int64_t end = moved(event.end_ns());
    event.start_ns = moved(event.start_ns);
    event.duration_ns = end - event.start_ns;
  }
  return trace;
}

inline Trace without(Trace trace, const std::function<bool(const Event&)>& lost) {
  std::erase_if(trace.events, lost);
  return trace;
}

}  // namespace stepcast::test
