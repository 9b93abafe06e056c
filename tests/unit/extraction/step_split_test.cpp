// StepSplit: by hand to the microsecond, with the device ahead and behind, with late ranks, and without steps.
#include <stepcast/anatomy/trace_summary.hpp>
#include <stepcast/base/error.hpp>
#include <stepcast/extraction/step_split.hpp>

#include "helpers/hand_trace.hpp"
#include "helpers/ranks_run.hpp"

#include <doctest/doctest.h>

#include <numeric>

namespace stepcast {
namespace {

double us(Seconds s) { return s.value() * 1e6; }
Seconds sum_of(const StepSplit& split) { return std::accumulate(split.parts.begin(), split.parts.end(), Seconds(0)); }

/// 1000 us: input to 100, a product from 150 to 450, beside it a collective from 350 to 600, a copy from 550 to 700.
void write_step(test::HandTrace& hand) {
  hand.annotation(0, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 100);
  hand.op(0, "aten::mm", 120, 160);
  hand.kernel(0, 140, 150, 7, "ampere_sgemm_128x64_nn", 150, 450);
  hand.op(0, "aten::add", 200, 240);
  hand.kernel(0, 220, 230, 20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 350, 600);
  hand.copy(0, 250, 260, 7, "Memcpy HtoD (Pinned -> Device)", 550, 700);
  hand.op(0, "aten::item", 800, 900);
}

TEST_CASE("split: each moment of a step belongs to the first part that is going on") {
  const StepSplit split = split_of(test::repeated(1000, 1000, write_step));
  CHECK(split.of_steps);
  CHECK(us(split.step) == doctest::Approx(1000));
  CHECK(us(split[SplitPart::products]) == doctest::Approx(300));
  CHECK(us(split[SplitPart::communication]) == doctest::Approx(150));  // 450 to 600, also beside the copy
  CHECK(us(split[SplitPart::copies]) == doctest::Approx(100));
  CHECK(us(split[SplitPart::input]) == doctest::Approx(100));
  CHECK(us(split[SplitPart::host]) == doctest::Approx(30 + 100));  // 120 to 150, and the read of a value
  CHECK(us(split[SplitPart::idle]) == doctest::Approx(20 + 200));
  CHECK(us(sum_of(split)) == doctest::Approx(1000));
  REQUIRE(split.communication.size() == 1);
  CHECK(split.communication[0].operation == "allreduce");
  CHECK(split.communication[0].count == doctest::Approx(1));
  CHECK(us(split.communication[0].exposed) == doctest::Approx(150));
  CHECK(us(split.communication[0].hidden) == doctest::Approx(100));
  CHECK(us(split.exposed()) == doctest::Approx(150));
}

TEST_CASE("split: copies by what they are between, those on the device first") {
  const StepSplit split = split_of(test::repeated(1000, 1000, [](test::HandTrace& hand) {
    hand.op(0, "aten::mm", 0, 20);
    hand.kernel(0, 5, 10, 7, "ampere_sgemm_128x64_nn", 10, 100);
    hand.copy(0, 30, 35, 7, "Memcpy DtoD (Device -> Device)", 100, 200);
    hand.copy(0, 40, 45, 8, "Memcpy HtoD (Pinned -> Device)", 150, 280);  // 80 of it beside no other
    hand.copy(0, 50, 55, 7, "CopyDeviceToHost", 300, 340);
    hand.copy(0, 60, 65, 7, "Memcpy", 350, 380);
    hand.annotation(0, "FSDP::post_backward_reduce (blocks.0)", 70, 100);
    hand.copy(0, 80, 85, 9, "Memcpy DtoD (Device -> Device)", 400, 460);
    hand.add(EventKind::fill, hand.device(7), "Memset (Device)", 480, 485);
  }));
  CHECK(us(split.copies.on_device) == doctest::Approx(100 + 60 + 5));
  CHECK(us(split.copies.for_sharding) == doctest::Approx(60));
  CHECK(us(split.copies.from_host) == doctest::Approx(80));
  CHECK(us(split.copies.to_host) == doctest::Approx(40));
  CHECK(us(split.other_copies()) == doctest::Approx(30));
  CHECK(us(split[SplitPart::copies]) == doctest::Approx(165 + 80 + 40 + 30));
}

TEST_CASE("split: too few undistorted steps are split, and all of them tell how long a step is") {
  const StepSplit few = split_of(test::repeated(1000, 1000, write_step, 3));
  CHECK(few.steps == 1);
  CHECK(few.measured == 3);
  const StepSplit enough = split_of(test::repeated(1000, 1000, write_step, 4));
  CHECK(enough.steps == 2);
  CHECK(enough.measured == 2);
}

TEST_CASE("split: the whole recording of the device, as its definition has it") {
  const StepSplit split = split_of(test::repeated(1000, 1000, write_step, 4));
  REQUIRE(split.recording);
  CHECK(us(split.recording->span) == doctest::Approx(3000 + 550));
  CHECK(us(split.recording->compute) == doctest::Approx(4 * 300));
  CHECK(us(split.recording->non_compute) == doctest::Approx(4 * 250));
  CHECK(us(split.recording->communication) == doctest::Approx(4 * 250));
  CHECK(us(split.recording->overlapped) == doctest::Approx(4 * 100));
  CHECK(us(split.recording->idle()) == doctest::Approx(3550 - 4 * 550));
}

TEST_CASE("split: where the host runs ahead a step is as long as the device takes for it") {
  // Marks of 100 us, in each of which work for 400 us is issued.
  test::HandTrace hand;
  for (int i = 0; i < 6; ++i) {
    hand.shift(100 * i);
    hand.step(i, 0, 99);
    hand.op(0, "aten::mm", 10, 30);
    const double start = 400.0 * i + 50 - 100 * i;
    hand.kernel(0, 12, 14, 7, "ampere_sgemm_128x64_nn", start, start + 300);
    hand.kernel(0, 16, 18, 7, "vectorized_elementwise_kernel", start + 310, start + 390);
  }
  const Trace trace = hand.trace();
  const StepSplit split = split_of(trace);
  CHECK(us(split.step) == doctest::Approx(us(summary_of(trace).step)));
  CHECK(us(split.step) == doctest::Approx(400));
  CHECK(us(split[SplitPart::products]) == doctest::Approx(300));
  CHECK(us(split.compute()) == doctest::Approx(380));
  CHECK(us(sum_of(split)) == doctest::Approx(400));
}

TEST_CASE("split: with all ranks, what the others wait for is told from communication") {
  const std::vector<Trace> traces = test::traces_of({.late_rank = 2, .late_us = 5000});
  const std::vector<StepSplit> splits = splits_of(traces);
  REQUIRE(splits.size() == 4);
  for (std::size_t r = 0; r < splits.size(); ++r) {
    CHECK(us(sum_of(splits[r])) == doctest::Approx(us(splits[r].step)));
    CHECK(splits[r].rank == std::int64_t(r));
    const double late = us(splits[r][SplitPart::late_ranks]);
    CHECK_MESSAGE((r == 2 ? late < 100 : late > 4900), "rank ", r, " waits ", late, " us");
    // Alone nobody can tell.
    const StepSplit alone = split_of(traces[r]);
    CHECK(us(alone[SplitPart::late_ranks]) == 0);
    CHECK(us(alone.exposed()) == doctest::Approx(us(splits[r].exposed())).epsilon(0.01));
  }
}

TEST_CASE("split: where the host computes, its operators by their phase") {
  const StepSplit split = split_of(test::repeated(1000, 1000, [](test::HandTrace& hand) {
    hand.op(0, "aten::linear", 0, 300);
    hand.op(0, "aten::mm", 100, 200);  // part of it
    hand.op(0, "autograd::engine::evaluate_function: MmBackward0", 400, 700);
    hand.annotation(0, "Optimizer.step#SGD.step", 700, 900);
  }));
  CHECK(split.device.empty());
  CHECK_FALSE(split.recording);
  CHECK(us(split[SplitPart::backward]) == doctest::Approx(300));
  CHECK(us(split[SplitPart::update]) == doctest::Approx(200));
  CHECK(us(split[SplitPart::forward] + split[SplitPart::operators]) == doctest::Approx(300));
  CHECK(us(split[SplitPart::idle]) == doctest::Approx(200));
}

TEST_CASE("split: a recording without steps is split as a whole, and one without time is refused") {
  test::HandTrace hand;
  hand.kernel(0, 0, 5, 7, "ampere_sgemm_128x64_nn", 10, 60);
  hand.kernel(0, 5, 9, 7, "ampere_sgemm_128x64_nn", 90, 110);
  const StepSplit split = split_of(hand.trace());
  CHECK_FALSE(split.of_steps);
  CHECK(us(split.step) == doctest::Approx(100));
  CHECK(us(split[SplitPart::products]) == doctest::Approx(70));
  CHECK(us(split[SplitPart::idle]) == doctest::Approx(30));
  test::HandTrace nothing;
  nothing.op(0, "aten::mm", 5, 5);
  CHECK_THROWS_AS((void)split_of(nothing.trace()), InputError);
}

}  // namespace
}  // namespace stepcast
