// Ranks of a run read together: clocks, matches, waiting, the straggler; on runs written by hand.
#include <stepcast/ranks/ranks.hpp>

#include "helpers/ranks_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

using test::RunPlan;
using test::traces_of;

/// What must not depend on clocks and on the order of the files: by rank number, in microseconds.
struct Seen {
  std::size_t collectives = 0;
  std::map<std::int64_t, std::tuple<double, double, double>> times;  ///< transfer, waiting, late
  std::string verdict;
};

Seen seen(const RunOfRanks& run) {
  Seen out{run.collectives.size(), {}, run.verdict()};
  for (const RankOfRun& r : run.ranks)
    out.times[r.rank] = {r.transfer.value() * 1e6, r.waiting.value() * 1e6, r.late.value() * 1e6};
  return out;
}

void check_same(const Seen& a, const Seen& b, double within_us) {
  CHECK(a.collectives == b.collectives);
  REQUIRE(a.times.size() == b.times.size());
  const auto near = [&](double x, double y) { return std::abs(x - y) <= within_us; };
  for (const auto& [rank, times] : a.times) {
    CAPTURE(rank);
    const auto& [transfer, waiting, late] = b.times.at(rank);
    CHECK(near(std::get<0>(times), transfer));
    CHECK(near(std::get<1>(times), waiting));
    CHECK(near(std::get<2>(times), late));
  }
}

/// Every match joins kernels of one collective, which its correlation numbers.
std::size_t right_matches(const RunOfRanks& run, const std::vector<Trace>& traces) {
  std::size_t partners = 0;
  for (const MatchedCollective& c : run.collectives) {
    std::int64_t number = -1;
    for (std::size_t r = 0; r < c.ranks.size(); ++r) {
      if (c.ranks[r].event == no_index) continue;
      const std::int64_t correlation = traces[r].events[c.ranks[r].event].correlation;
      if (number < 0) number = correlation;
      CHECK(correlation == number);
      ++partners;
    }
  }
  return partners;
}

TEST_CASE("ranks: transfer is what the last one took, the rest is waiting for it") {
  test::HandTrace first, second;
  first.kernel(0, 0, 1, 20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10, 100);
  second.kernel(0, 0, 1, 20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 70, 100);
  const std::vector<Trace> traces = {first.trace(), second.trace()};
  const RunOfRanks run = run_of(traces);
  REQUIRE(run.collectives.size() == 1);
  const MatchedCollective& c = run.collectives.front();
  CHECK(c.operation == "allreduce");
  CHECK(c.transfer.value() == doctest::Approx(30e-6));
  CHECK(c.last == 1);
  CHECK(c.waiting(0).value() == doctest::Approx(60e-6));
  CHECK(c.waiting(1).value() == 0);
  CHECK(run.ranks[0].waiting.value() == doctest::Approx(60e-6));
  CHECK(run.ranks[1].late.value() == doctest::Approx(60e-6));
  CHECK(run.ranks[1].partnerless == 0);
  REQUIRE(run.straggler);
  CHECK(run.straggler->index == 1);
}

TEST_CASE("ranks: collectives on two streams at once: each moment counts once") {
  test::HandTrace first, second;
  for (const int stream : {20, 21}) {
    first.kernel(0, 0, 1, stream, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10, 100);
    second.kernel(0, 0, 1, stream, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 70, 100);
  }
  const std::vector<Trace> traces = {first.trace(), second.trace()};
  const RunOfRanks run = run_of(traces);
  CHECK(run.collectives.size() == 2);
  CHECK(run.ranks[0].waiting.value() == doctest::Approx(60e-6));
  CHECK(run.ranks[1].late.value() == doctest::Approx(60e-6));
}

TEST_CASE("ranks: the rank that sleeps is named, with the steps and the gap") {
  const std::vector<Trace> traces = traces_of({.late_rank = 2, .late_us = 5000});
  const RunOfRanks run = run_of(traces);
  CHECK(run.collectives.size() == 12);
  CHECK(right_matches(run, traces) == 48);
  REQUIRE(run.straggler);
  CHECK(run.ranks[run.straggler->index].rank == 2);
  CHECK(run.straggler->late.value() == doctest::Approx(5e-3).epsilon(0.02));
  CHECK(run.straggler->steps == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(run.straggler->cause.find("without a host event after aten::mm, before aten::add") != std::string::npos);
  CHECK(run.verdict().find("rank 2 is late by") == 0);
}

TEST_CASE("ranks: a slower operator and a slower kernel are told apart from a sleep") {
  std::vector<Trace> traces = traces_of({.ranks = 3});
  // In step 1 rank 0 spends 3 ms more in the operator that runs 100 us after the step has begun.
  const std::int64_t at = steps_of(traces[0])[1].start_ns + 100'000;
  for (Trace& trace : traces) {
    const bool late = &trace == &traces[0];
    std::int64_t end = 0;  // of the first collective of that step
    for (const Event& e : trace.events)
      if (end == 0 && e.kind == EventKind::kernel && e.end_ns() > at) end = e.end_ns();
    trace = test::delayed(std::move(trace), late ? at : end - 1, 3'000'000);
  }
  const RunOfRanks run = run_of(traces);
  REQUIRE(run.straggler);
  CHECK(run.straggler->index == 0);
  CHECK(run.straggler->steps == std::vector<std::int64_t>{1});
  CHECK(run.straggler->cause.find("longer in aten::mm") != std::string::npos);
}

TEST_CASE("ranks: clocks may differ by anything") {
  std::mt19937 random(5);
  const RunPlan plan{.late_rank = 1, .late_us = 900};
  const std::vector<Trace> straight = traces_of(plan);
  const Seen expected = seen(run_of(straight));
  for (const std::int64_t largest : {std::int64_t{1'000}, std::int64_t{300'000}, std::int64_t{1'000'000'000'000}}) {
    std::vector<Trace> traces = straight;
    std::vector<std::int64_t> offsets;
    for (Trace& trace : traces) {
      offsets.push_back(std::uniform_int_distribution<std::int64_t>(-largest, largest)(random));
      trace = test::shifted(std::move(trace), offsets.back());
    }
    const RunOfRanks run = run_of(traces);
    check_same(seen(run), expected, 0.5);
    CHECK(run.verdict() == expected.verdict);
    for (std::size_t r = 0; r < traces.size(); ++r)
      CHECK(std::abs(run.ranks[r].clock.offset_ns - (offsets[r] - offsets[run.reference])) < 1'000);
  }
}

TEST_CASE("ranks: recordings minutes apart whose collectives do not end together even so are of two runs") {
  std::vector<Trace> one = traces_of({.ranks = 2, .steps = 6, .seed = 1}), other = one;
  constexpr std::int64_t minutes = 18 * 60'000'000'000;
  other[1] = test::shifted(one[1], minutes);  // another machine's clock
  CHECK(run_of(other).cautions.empty());
  other[1] = traces_of({.ranks = 2, .steps = 6, .seed = 2, .late_rank = 0, .late_us = 3000})[1];
  CHECK(run_of(other).cautions.empty());  // at the same time: the clocks agree, whatever the collectives do
  other[1] = test::shifted(std::move(other[1]), minutes);
  const RunOfRanks run = run_of(other);
  REQUIRE(run.cautions.size() == 1);
  CHECK(run.cautions[0].find("are these ranks of one run?") != std::string::npos);
  CHECK(run.verdict().ends_with(run.cautions[0]));
}

TEST_CASE("ranks: a run has one step time, that of the rank which tells it best") {
  std::vector<Trace> traces = traces_of({.ranks = 3, .steps = 8});
  const double step = RankOfRun(run_of(traces).ranks[0]).step().value();
  for (Event& e : traces[1].events)  // of one rank the marks come early or late
    if (e.kind == EventKind::annotation) {
      const auto number = traces[1].text(e.name).back() - '0';
      const std::int64_t early = number % 2 == 0 ? 100'000 : 0, late = number % 2 == 0 ? 0 : 100'000;
      e.start_ns -= early, e.duration_ns += early - late;
    }
  std::ranges::stable_sort(traces[1].events, {}, &Event::start_ns);
  const RunOfRanks run = run_of(traces);
  for (const TracedRank& rank : figures_of(run)) CHECK(rank.step.value() == doctest::Approx(step).epsilon(0.01));
  CHECK(run.step_times().size() == 8);
  std::vector<Trace> lone = traces_of({.ranks = 3, .steps = 1});  // nothing scatters: the median rank, in any order
  std::ranges::reverse(lone);
  CHECK(run_of(lone).step_times() == run_of(traces_of({.ranks = 3, .steps = 1})).step_times());
  for (Trace& trace : traces) std::erase_if(trace.events, [](const Event& e) { return e.kind == EventKind::kernel; });
  CHECK(run_of(traces).step_times().empty());
}

TEST_CASE("ranks: the order of the files does not matter") {
  std::mt19937 random(6);
  std::vector<Trace> traces =
      traces_of({.ranks = 5, .clock_us = {0, 30, -500, 7, 1e6}, .late_rank = 3, .late_us = 700});
  const Seen expected = seen(run_of(traces));
  for (int round = 0; round < 5; ++round) {
    std::shuffle(traces.begin(), traces.end(), random);
    const Seen now = seen(run_of(traces));
    check_same(now, expected, 1e-6);
    CHECK(now.verdict == expected.verdict);
  }
}

TEST_CASE("ranks: missing ranks are counted, and the late one is named without them") {
  std::vector<Trace> traces = traces_of({.late_rank = 2, .late_us = 2000});
  traces.erase(traces.begin());
  const RunOfRanks run = run_of(traces);
  CHECK(run.missing == std::vector<std::int64_t>{0});
  REQUIRE(run.straggler);
  CHECK(run.ranks[run.straggler->index].rank == 2);
  REQUIRE(!run.assumed.empty());
  CHECK(run.assumed.back().find("1 of 4 ranks") == 0);
}

TEST_CASE("ranks: lost records leave no wrong match") {
  std::mt19937 random(9);
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    std::vector<Trace> traces = traces_of({.steps = 10, .seed = seed, .clock_us = {0, 1e5, -3e4, 12}});
    std::map<std::int64_t, int> kept;
    for (Trace& trace : traces) {
      const auto first = std::uniform_int_distribution<std::int64_t>(1, 4)(random);
      trace = test::without(std::move(trace), [&](const Event& e) {
        return e.kind == EventKind::kernel && (e.correlation < first || random() % 8 == 0);
      });
      for (const Event& e : trace.events) kept[e.correlation] += e.kind == EventKind::kernel;
    }
    std::size_t possible = 0;
    for (const auto& [number, count] : kept)
      if (number > 0 && count > 1) possible += std::size_t(count);
    const std::size_t found = right_matches(run_of(traces), traces);
    CHECK(double(found) >= 0.97 * double(possible));
    CHECK(found <= possible);
  }
}

TEST_CASE("ranks: who is which rank") {
  std::vector<Trace> traces = traces_of({.ranks = 2});
  for (Trace& trace : traces) trace.rank = -1;
  traces[0].source = "run/worker7_step_12.json", traces[1].source = "sampled_rank-3.json";
  RunOfRanks run = run_of(traces);
  CHECK(run.ranks[0].rank == 7);
  CHECK(run.ranks[1].rank == 3);
  CHECK(run.assumed.front().find("file names") != std::string::npos);
  traces[1].source = "b.json";
  run = run_of(traces);
  CHECK(run.ranks[1].rank == 1);
  CHECK(run.assumed.front().find("order given") != std::string::npos);
  traces[0].rank = traces[1].rank = 0;
  CHECK(run_of(traces).assumed.front().find("do not tell one rank each") != std::string::npos);
}

TEST_CASE("ranks: even ranks keep pace; one alone, or without collectives, says nothing") {
  const std::vector<Trace> even = traces_of({.transfer_us = 20'000});
  CHECK(!run_of(even).straggler);
  CHECK(run_of(even).verdict().find("the ranks keep pace") == 0);
  CHECK(run_of(std::span(even).first(1)).verdict().empty());
  std::vector<Trace> silent;
  for (const Trace& trace : even)
    silent.push_back(test::without(trace, [](const Event& e) { return e.kind == EventKind::kernel; }));
  CHECK(run_of(silent).collectives.empty());
  CHECK(run_of(silent).verdict().find("share no collective") != std::string::npos);
  CHECK_THROWS_AS((void)run_of({}), InputError);
}

/// Three ranks whose steps begin together every 10 ms, with one collective each, to which rank 1 comes `late_us` later;
/// its ends are recorded to within `blur_us`.
std::vector<Trace> late_in_each_step(double late_us, double blur_us) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> blur(-blur_us, blur_us);
  std::vector<Trace> traces;
  for (int r = 0; r < 3; ++r) {
    test::HandTrace hand;
    for (int s = 0; s < 20; ++s) {
      const double begin = 10'000.0 * s, start = begin + 5000 + 10 * r + (r == 1 ? late_us : 0);
      hand.step(s, begin, begin + 9990);
      hand.op(0, "aten::mm", begin + 10, begin + 20);
      hand.kernel(0, start - 20, start - 15, 20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", start,
                  begin + 8000 + blur(random));
    }
    traces.push_back(hand.trace());
    traces.back().rank = r;
  }
  return traces;
}

TEST_CASE("ranks: what is lost anew in each step is not summed over steps") {
  const RunOfRanks run = run_of(late_in_each_step(400, 1));
  REQUIRE(run.straggler);
  CHECK(run.straggler->index == 1);
  CHECK(run.straggler->late.value() == doctest::Approx(390e-6).epsilon(0.01));
  CHECK(run.straggler->steps.size() == 20);
  CHECK(run.verdict().find(" in all 20 traced steps") != std::string::npos);
  RunOfRanks other = run;
  std::erase_if(other.straggler->steps, [](std::int64_t step) { return step == 3 || step == 9; });
  CHECK(other.verdict().find(" in 18 of 20 traced steps (0, 1, 2, 4 to 8 and 10 to 19)") != std::string::npos);
  other.straggler->steps.clear();
  for (int step = 0; step < 50; step += 2) other.straggler->steps.push_back(step);
  CHECK(other.verdict().find(" traced steps (0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20 and 14 more)") != std::string::npos);
  CHECK(run.straggler->cause.find("longer without a host event after aten::mm") != std::string::npos);
  CHECK(run.straggler->cause.starts_with("390.0 us "));  // the usual one, rank 2, comes 10 us after it otherwise
}

TEST_CASE("ranks: a kernel that is slower in each step is the cause by what it takes in one") {
  std::vector<Trace> traces;
  for (int r = 0; r < 3; ++r) {
    test::HandTrace hand;
    for (int s = 0; s < 20; ++s) {
      const double begin = 10'000.0 * s, slower = r == 1 ? 500 : 0, end = begin + 8000 + s % 3;
      hand.step(s, begin, begin + 9990);
      hand.op(0, "aten::mm", begin + 10 + r, begin + 20 + r);
      hand.kernel(0, begin + 15, begin + 18, 7, "gemm", begin + 30 + r, begin + 1030 + r + slower);
      hand.kernel(0, begin + 25, begin + 28, 20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", begin + 1040 + r + slower,
                  end);
    }
    traces.push_back(hand.trace());
    traces.back().rank = r;
  }
  const RunOfRanks run = run_of(traces);
  REQUIRE(run.straggler);
  CHECK(run.straggler->index == 1);
  CHECK(run.straggler->late.value() == doctest::Approx(499e-6).epsilon(0.01));
  CHECK(run.straggler->cause == "500.0 us longer on the device in gemm");
}

TEST_CASE("ranks: lateness below what the clocks can tell makes no straggler") {
  const RunOfRanks run = run_of(late_in_each_step(150, 300));
  CHECK(run.ranks[1].late > 0.01 * Seconds(0.2));
  CHECK(!run.straggler);
  CHECK(run.verdict().find("late by 0 s") == std::string::npos);
}

TEST_CASE("ranks: ranks of runs of other sizes are refused, one number for two ranks is said") {
  std::vector<Trace> traces = traces_of({.ranks = 2, .late_rank = 1, .late_us = 900});
  traces[0].rank = 1;
  CHECK(run_of(traces).verdict().find("more than one trace says that it is rank 1") != std::string::npos);
  traces[0].rank = 0, traces[0].world_size = -1;
  CHECK(run_of(traces).verdict().find("more than one") == std::string::npos);
  traces[0].world_size = 8;
  CHECK_THROWS_WITH_AS((void)run_of(traces),
                       doctest::Contains("of the 8 ranks of 'rank0.json', found a rank of a run of 2"), InputError);
}

TEST_CASE("ranks: recordings of other steps are told") {
  std::vector<Trace> traces = traces_of({.ranks = 3, .late_rank = 1, .late_us = 900});
  CHECK(run_of(traces).verdict().find("none of the steps") == std::string::npos);
  for (std::string& text : traces[2].strings)
    if (text.starts_with("ProfilerStep#")) text = "ProfilerStep#1" + text.substr(text.size() - 1);
  CHECK(run_of(traces).verdict().find("rank 2 shows none of the steps of rank 0") != std::string::npos);
}

TEST_CASE("ranks: one recording twice is refused where the traces do not say their ranks, too") {
  Trace trace = traces_of({.ranks = 1}).front();
  trace.rank = -1;
  CHECK_THROWS_WITH_AS((void)run_of(std::vector{trace, trace}), doctest::Contains("the same recording"), InputError);
}

// ---- process groups, sequence numbers, peers ----

StringId text_in(Trace& trace, const std::string& text) {
  trace.strings.push_back(text);
  return StringId(trace.strings.size() - 1);
}

void describe(Trace& trace, std::uint32_t event, CollectiveArguments arguments) {
  trace.events[event].collective = std::uint32_t(trace.collectives.size());
  trace.collectives.push_back(arguments);
}

TEST_CASE("ranks: groups of other ranks are other groups, whatever their names") {
  // Ranks 0 and 1, and 2 and 3, form "1"; 0 and 2, and 1 and 3, form "2"; all collectives have one name and size.
  std::vector<Trace> traces;
  for (int r = 0; r < 4; ++r) {
    test::HandTrace hand;
    hand.shift(r * 1e4);
    for (int i = 0; i < 6; ++i)
      hand.kernel(0, i * 100, i * 100 + 1, 20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", i * 100 + 10 + r,
                  i * 100 + 50 + i * i);
    Trace trace = hand.trace();
    trace.rank = r;
    int i = 0;
    for (std::uint32_t e = 0; e < trace.events.size(); ++e) {
      if (trace.events[e].kind != EventKind::kernel) continue;
      const bool rows = i++ % 2 == 0;
      const int low = rows ? r / 2 * 2 : r % 2;
      CollectiveArguments arguments;
      arguments.name = text_in(trace, "allreduce");
      arguments.group = text_in(trace, rows ? "1" : "2");
      arguments.ranks = text_in(trace, "[" + std::to_string(low) + ", " + std::to_string(low + (rows ? 1 : 2)) + "]");
      describe(trace, e, arguments);
    }
    traces.push_back(std::move(trace));
  }
  const RunOfRanks run = run_of(traces);
  CHECK(run.collectives.size() == 12);
  CHECK(right_matches(run, traces) == 24);
  for (const MatchedCollective& c : run.collectives)
    CHECK(std::ranges::count_if(c.ranks, [](const Participation& p) { return p.event != no_index; }) == 2);
  for (int r = 0; r < 4; ++r) CHECK(run.ranks[std::size_t(r)].clock.offset_ns == r * 10'000'000);
}

TEST_CASE("ranks: sequence numbers decide where the trace has them, and are set aside where they contradict") {
  std::vector<Trace> traces;
  for (int r = 0; r < 2; ++r) {
    test::HandTrace hand;
    for (int i = 0; i < 8; ++i)  // exactly periodic; rank 1's clock is two periods off
      hand.kernel(0, i * 100, i * 100 + 1, 20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", i * 100 + 10, i * 100 + 50);
    Trace trace = test::shifted(hand.trace(), r * 200'000);
    trace.rank = r;
    for (std::uint32_t e = 0; e < trace.events.size(); ++e) {
      if (trace.events[e].kind != EventKind::kernel) continue;
      CollectiveArguments arguments;
      arguments.name = text_in(trace, "allreduce");
      arguments.group = text_in(trace, "0");
      arguments.sequence = 40 + trace.events[e].correlation;
      describe(trace, e, arguments);
    }
    traces.push_back(std::move(trace));
  }
  RunOfRanks run = run_of(traces);
  CHECK(run.ranks[1].clock.offset_ns == 200'000);
  CHECK(right_matches(run, traces) == 16);
  CHECK(run.collectives.front().sequence == 41);
  for (CollectiveArguments& c : traces[1].collectives) c.sequence += 1000;
  run = run_of(traces);
  CHECK(!run.collectives.empty());
  CHECK(run.assumed.front().find("sequence numbers") == 0);
}

TEST_CASE("ranks: sends meet the receives of their peers") {
  std::vector<Trace> traces;
  for (int r = 0; r < 3; ++r) {  // a pipeline: 0 -> 1 -> 2; the receiver waits
    test::HandTrace hand;
    std::vector<std::pair<int, int>> peers;
    const auto message = [&](bool sends, int from, int to, double begin, double end) {
      hand.kernel(0, begin - 5, begin - 4, 20, "ncclDevKernel_SendRecv", begin, end);
      peers.emplace_back(sends ? 1 : 0, from * 10 + to);
    };
    for (int i = 0; i < 5; ++i) {
      const double t = i * 1000 + i * i * 7;
      if (r == 0) message(true, 0, 1, t + 100, t + 150);
      if (r == 1) message(false, 0, 1, t + 10, t + 150), message(true, 1, 2, t + 300, t + 350);
      if (r == 2) message(false, 1, 2, t + 20, t + 350);
    }
    Trace trace = hand.trace();
    trace.rank = r;
    std::size_t k = 0;
    for (std::uint32_t e = 0; e < trace.events.size(); ++e) {
      if (trace.events[e].kind != EventKind::kernel) continue;
      CollectiveArguments arguments;
      arguments.name = text_in(trace, peers[k].first == 1 ? "send" : "recv");
      arguments.source_rank = peers[k].second / 10;
      arguments.destination_rank = peers[k++].second % 10;
      describe(trace, e, arguments);
    }
    traces.push_back(std::move(trace));
  }
  const RunOfRanks run = run_of(traces);
  CHECK(run.collectives.size() == 10);
  for (const MatchedCollective& c : run.collectives) CHECK(c.transfer.value() == doctest::Approx(50e-6));
  CHECK(run.ranks[2].waiting.value() == doctest::Approx(5 * 280e-6));
  CHECK(run.ranks[1].waiting.value() == doctest::Approx(5 * 90e-6));
  CHECK(run.ranks[0].waiting.value() == 0);
}

}  // namespace
}  // namespace stepcast
