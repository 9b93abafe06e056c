// Steps of a trace: which there are, which are distorted, how long they took.
#include <stepcast/documents/reading.hpp>
#include <stepcast/trace/steps.hpp>

#include "helpers/hand_trace.hpp"
#include "helpers/shared_data.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace stepcast {
namespace {

using test::HandTrace;

std::vector<bool> distorted(const std::vector<Step>& steps) {
  std::vector<bool> all;
  for (const Step& step : steps) all.push_back(step.distorted);
  return all;
}

/// `count` steps of 100 us that do nothing.
HandTrace empty_steps(int count) {
  HandTrace hand;
  for (int i = 0; i < count; ++i) hand.step(i + 7, 100.0 * i, 100.0 * i + 99);
  return hand;
}

TEST_CASE("steps are the numbered annotations in order, and the outermost two are distorted") {
  HandTrace hand = empty_steps(4);
  hand.annotation(0, "ProfilerStep#", 0, 10);
  hand.annotation(0, "ProfilerStep#one", 0, 10);
  hand.annotation(0, "Optimizer.step#1", 0, 10);
  hand.add(EventKind::device_annotation, hand.device(7), "ProfilerStep#7", 50, 150);
  const std::vector<Step> steps = steps_of(hand.trace());
  REQUIRE(steps.size() == 4);
  CHECK(steps[0].number == 7);
  CHECK(steps[3].number == 10);
  CHECK(steps[1].start_ns == 100'000);
  CHECK(steps[1].end_ns == 199'000);
  CHECK(distorted(steps) == std::vector{true, false, false, true});
}

TEST_CASE("marks that an old writer filed under operators count") {
  HandTrace hand;
  hand.op(0, "ProfilerStep#1", 0, 10);
  hand.op(0, "aten::add", 1, 5);
  CHECK(steps_of(hand.trace()).size() == 1);
}

TEST_CASE("ranges that frameworks put around each batch are steps, each until the next begins") {
  for (const char* name : {"[pl][profile]run_training_batch", "train_step", "DeepSpeedEngine.train_batch"}) {
    CAPTURE(name);
    HandTrace hand;
    for (int i = 0; i < 3; ++i) hand.annotation(0, name, 100.0 * i, 100.0 * i + 80);
    hand.annotation(0, "[pl][profile]training_step", 10, 20);
    const std::vector<Step> steps = steps_of(hand.trace());
    REQUIRE(steps.size() == 3);
    CHECK(steps[1].number == 1);
    CHECK(steps[1].end_ns == 200'000);
    CHECK(steps[2].end_ns == 280'000);
    CHECK(step_annotation_of(hand.trace()) == name);
    hand.step(7, 0, 50);  // the profiler's own word comes first
    CHECK(steps_of(hand.trace()).size() == 1);
    CHECK(step_annotation_of(hand.trace()) == "ProfilerStep#N");
  }
  HandTrace single;
  single.annotation(0, "train_step", 0, 80);
  CHECK(steps_of(single.trace()).empty());
}

TEST_CASE("marks that cross are steps that follow one another, marks within others are none") {
  HandTrace hand;
  for (int i = 0; i < 4; ++i) hand.step(i, 100.0 * i, 100.0 * i + 130);  // ends that are wrong, or rounded
  std::vector<Step> steps = steps_of(hand.trace());
  REQUIRE(steps.size() == 4);
  CHECK(steps[1].end_ns == 200'000);
  CHECK(steps[3].end_ns == 430'000);
  hand.annotation(0, "ProfilerStep#8", 10, 60);
  hand.annotation(0, "ProfilerStep#9", 310, 430.001);  // lasts longer than the one around it: rounded
  hand.annotation(0, "ProfilerStep#10", 320, 320);
  steps = steps_of(hand.trace());
  CHECK(steps.size() == 4);
  CHECK(steps.back().number == 3);
}

TEST_CASE("a trace without marks has no steps") {
  HandTrace hand;
  hand.op(0, "aten::add", 1, 5);
  CHECK(steps_of(hand.trace()).empty());
  CHECK(steps_of(Trace{}).empty());
  CHECK(step_durations(hand.trace(), {}).empty());
}

TEST_CASE("the thread with most marks is taken, the earlier one among equals") {
  HandTrace hand = empty_steps(3);
  for (int i = 0; i < 4; ++i) hand.annotation(5, "ProfilerStep#" + std::to_string(i), 100.0 * i + 5, 100.0 * i + 50);
  CHECK(steps_of(hand.trace()).front().number == 0);
  HandTrace equal = empty_steps(3);
  for (int i = 0; i < 3; ++i) equal.annotation(5, "ProfilerStep#" + std::to_string(i), 100.0 * i + 5, 100.0 * i + 50);
  CHECK(steps_of(equal.trace()).front().number == 7);
}

TEST_CASE("a flush of the profiler's buffers distorts a step only if it is long enough to matter") {
  HandTrace hand = empty_steps(5);
  hand.add(EventKind::other, hand.host(99), "Buffer Flush", 110, 110.5);
  hand.add(EventKind::other, hand.host(99), "Buffer Flush", 220, 221.5);
  hand.add(EventKind::other, hand.host(99), "Something else", 320, 360);
  CHECK(distorted(steps_of(hand.trace())) == std::vector{true, false, true, false, true});
}

TEST_CASE("a step in which the allocator asks the device for memory is distorted, unless every step does so") {
  for (const bool always : {false, true}) {
    CAPTURE(always);
    HandTrace hand = empty_steps(5);
    for (int i = 0; i < 5; ++i)
      if (i == 2 || always) hand.call(0, i % 2 == 0 ? "cudaMalloc" : "cudaFree", 100.0 * i + 10, 100.0 * i + 60);
    hand.call(0, "cudaMallocAsync", 110, 160);
    hand.call(0, "hipMalloc", 310, 310.5);
    const std::vector<Step> steps = steps_of(hand.trace());
    CHECK(steps[2].stalled == !always);
    CHECK(distorted(steps) == std::vector{true, false, !always, false, true});
  }
}

TEST_CASE("a host that waits for the device: the annotation is the step time") {
  HandTrace hand;
  const double begins[] = {0, 100, 210, 300};
  for (int i = 0; i < 4; ++i) {
    hand.shift(begins[i]);
    hand.step(i, 0, 90);
    hand.kernel(0, 10, 12, 7, "k", 15, 70);
    hand.call(0, "cudaDeviceSynchronize", 20, 75);
  }
  const Trace trace = hand.trace();
  const auto durations = step_durations(trace, steps_of(trace));
  REQUIRE(durations.size() == 4);
  for (const Seconds d : durations) CHECK(d.value() == doctest::Approx(90e-6));
}

/// The host issues a step in 10 us; the device needs 100, 120, 140, ... us: "once" starts each, "many" fills it.
HandTrace run_ahead(int count, bool with_unique_kernel) {
  HandTrace hand;
  double device = 50;
  for (int i = 0; i < count; ++i) {
    hand.shift(10.0 * i);
    hand.step(i, 0, 9);
    const double begin = device - 10.0 * i, length = 100 + 20.0 * i;
    hand.kernel(0, 1, 2, 7, with_unique_kernel ? "once" : "many", begin, begin + 20);
    hand.kernel(0, 3, 4, 7, "many", begin + 20, begin + 50);
    hand.kernel(0, 5, 6, 7, "many", begin + 50, begin + length);
    device += length;
  }
  return hand;
}

TEST_CASE("a host that runs ahead: the period of kernels that occur once a step") {
  for (const bool unique : {true, false}) {
    CAPTURE(unique);
    const Trace trace = run_ahead(4, unique).trace();
    const auto durations = step_durations(trace, steps_of(trace));
    REQUIRE(durations.size() == 4);
    CHECK(durations[0].value() == doctest::Approx(100e-6));
    CHECK(durations[1].value() == doctest::Approx(120e-6));
    CHECK(durations[2].value() == doctest::Approx(140e-6));
    CHECK(durations[3].value() == 0);  // nothing follows by which to tell
  }
}

TEST_CASE("a step is never shorter than the device time of its kernels: one or two marks of a host that runs ahead") {
  for (const int count : {1, 2}) {
    CAPTURE(count);
    const Trace trace = run_ahead(count, true).trace();  // 9 us of marks; 100 and 120 us on one stream
    const StepTimes times = step_times_of(trace, steps_of(trace));
    CHECK(times.pace == Pace::device_work);
    REQUIRE(times.durations.size() == static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i)
      CHECK(times.durations[static_cast<std::size_t>(i)].value() == doctest::Approx((100 + 20 * i) * 1e-6));
    CHECK(times.step().value() == doctest::Approx(count == 1 ? 100e-6 : 110e-6));
  }
  HandTrace beside;  // 80 us on each of two streams at once are 80 us, no more than the mark
  beside.step(0, 0, 90);
  beside.kernel(0, 1, 2, 7, "a", 5, 85);
  beside.kernel(0, 3, 4, 8, "b", 5, 85);
  const Trace trace = beside.trace();
  CHECK(step_times_of(trace, steps_of(trace)).pace == Pace::marks);
  CHECK(step_times_of(trace, steps_of(trace)).step().value() == doctest::Approx(90e-6));
}

TEST_CASE("the device's period is the pace where it scatters less than the marks, which are the pace elsewhere") {
  // The device takes 100 us for every step; the host, up to a step ahead, ends its marks early or late.
  const double ends[] = {60, 190, 270, 400, 475, 600, 680, 800};
  for (const bool uneven_device : {false, true}) {
    CAPTURE(uneven_device);
    HandTrace hand;
    double begin = 0;
    for (int i = 0; i < 8; ++i) {
      hand.step(i, begin, ends[i]);
      const double at = uneven_device ? begin + 15 : 60 + 100.0 * i;  // a device that follows each mark
      hand.kernel(0, begin + 1, begin + 2, 7, "once", at, at + 20);
      hand.kernel(0, begin + 3, begin + 4, 7, "also once", at + 20, at + 40);
      begin = ends[i];
    }
    const Trace trace = hand.trace();
    const StepTimes times = step_times_of(trace, steps_of(trace));
    CHECK(!times.host_runs_ahead);
    CHECK(times.pace == (uneven_device ? Pace::marks : Pace::periods));
    if (!uneven_device)
      for (const Seconds measured : times.measured) CHECK(measured.value() == doctest::Approx(100e-6));
  }
}

TEST_CASE("where steps are missing between two, no period is that of a step") {
  HandTrace hand;
  int position = 0;
  for (const int number : {1, 2, 3, 6, 7, 8}) {  // two windows of one recording, or lost annotations
    hand.shift(100.0 * number);
    hand.step(number, 0, 9);
    hand.kernel(0, 1, 2, 7, "once", 300, 320);
    hand.kernel(0, 3, 4, 7, "many", 320, 350);
    hand.kernel(0, 5, 6, 7, "many", 350, position++ == 2 ? 590 : 395);
  }
  const Trace trace = hand.trace();
  const StepTimes times = step_times_of(trace, steps_of(trace));
  REQUIRE(times.durations.size() == 6);
  CHECK(times.host_runs_ahead);
  CHECK(times.durations[1].value() == doctest::Approx(100e-6));
  CHECK(times.durations[2].value() == 0);
  CHECK(times.durations[3].value() == doctest::Approx(100e-6));
  CHECK(times.device_period.value() == doctest::Approx(100e-6));
  for (const Seconds measured : times.measured) CHECK(measured.value() == doctest::Approx(100e-6));
}

TEST_CASE("steps that are counted by tens follow one another where nothing fits between") {
  for (const bool adjoin : {true, false}) {
    CAPTURE(adjoin);
    HandTrace hand;
    for (const int number : {10, 20, 30, 40}) {  // ten batches at once, or of every tenth alone
      const double issued = adjoin ? number : 10.0 * number, begin = 3000 + 10.0 * number - issued;
      hand.shift(issued);
      hand.step(number, 0, 9);
      hand.kernel(0, 1, 2, 7, "once", begin, begin + 20);
      hand.kernel(0, 3, 4, 7, "other", begin + 20, begin + 60);
    }
    const Trace trace = hand.trace();
    const StepTimes times = step_times_of(trace, steps_of(trace));
    CHECK((times.pace == Pace::periods) == adjoin);
    CHECK(times.device_period.value() == doctest::Approx(adjoin ? 100e-6 : 0));
  }
}

TEST_CASE("public traces: the device's period where the host runs ahead, the annotation elsewhere") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  const auto median_ms = [&](const char* path) {
    const test::File file(*folder / path);
    const Trace trace = trace_of(file.source());
    const std::vector<Step> steps = steps_of(trace);
    const std::vector<Seconds> durations = step_durations(trace, steps);
    std::vector<double> ms;
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (!steps[i].distorted && durations[i] > Seconds(0)) ms.push_back(durations[i].value() * 1e3);
    REQUIRE(!ms.empty());
    std::sort(ms.begin(), ms.end());
    return ms[ms.size() / 2];
  };
  // Periods read off the traces independently (start-to-start of the kernels that occur once a step).
  CHECK(median_ms("luatil__torch-profile/trace_04.json.gz") == doctest::Approx(22.84).epsilon(0.002));
  CHECK(median_ms("pytorch__benchmark/trace.json.gz") == doctest::Approx(30.80).epsilon(0.002));
  CHECK(median_ms("pytorch__kineto/resnet50_num_workers_0__worker0.1623143089861.pt.trace.json.gz") ==
        doctest::Approx(176.9).epsilon(0.002));
}

}  // namespace
}  // namespace stepcast
