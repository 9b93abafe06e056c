// TraceSummary: what it says of small traces written by hand, and of every public trace whose figures are known.
#include <stepcast/anatomy/trace_summary.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/documents/reading.hpp>

#include "helpers/hand_trace.hpp"
#include "helpers/shared_data.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace stepcast {
namespace {

using test::HandTrace;

double ms(Seconds t) { return t.value() * 1e3; }

TEST_CASE("an empty trace has an empty summary") {
  const TraceSummary s = summary_of(Trace{});
  CHECK(s.steps == 0);
  CHECK(s.events == 0);
  CHECK(s.step == Seconds(0));
  CHECK(s.collectives == 0);
  CHECK(s.unclassified_share == 0);
}

TEST_CASE("a span of centuries, by damaged times, is not negative") {
  HandTrace hand;
  hand.op(0, "aten::add", 0, 1);
  hand.op(0, "aten::add", 2, 3);
  Trace trace = hand.trace();
  trace.events[0].start_ns = -(std::int64_t{1} << 62);
  trace.events[1] = {.start_ns = std::int64_t{1} << 62, .duration_ns = std::int64_t{1} << 53};
  CHECK(summary_of(trace).span.value() == doctest::Approx(9.232e9).epsilon(0.001));
}

TEST_CASE("collective time is a union, exposed is what no other kernel covers") {
  HandTrace hand;
  hand.kernel(0, 0, 1, 7, "volta_sgemm_64x64_tn", 100, 200);
  hand.kernel(0, 1, 2, 8, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 150, 260);
  hand.kernel(0, 2, 3, 9, "ncclDevKernel_AllGather_RING_LL", 250, 300);
  hand.kernel(0, 3, 4, 7, "nobody_knows_me", 290, 310);
  hand.copy(0, 4, 5, 10, "Memcpy HtoD", 0, 1000);  // covers nothing: only kernels do
  const TraceSummary s = summary_of(hand.trace());
  CHECK(s.kernels == 4);
  CHECK(s.collectives == 2);
  CHECK(s.collectives == s.collectives_by_source[static_cast<std::size_t>(BytesSource::unknown)]);
  CHECK(s.collective_time.value() == doctest::Approx(150e-6));
  CHECK(s.exposed.value() == doctest::Approx(90e-6));
  CHECK(s.unclassified_kernels == 1);
  CHECK(s.unclassified_kernel_time.value() == doctest::Approx(20e-6));
  CHECK(s.kernel_time.value() == doctest::Approx(280e-6));
  CHECK(s.span.value() == doctest::Approx(1000e-6));
}

TEST_CASE("devices are kept apart: a kernel on one covers no collective of another") {
  HandTrace hand;
  hand.kernel(0, 0, 1, 7, "sgemm", 100, 200);
  hand.kernel(0, 1, 2, 8, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 100, 200);
  Trace trace = hand.trace();
  for (Track& track : trace.tracks)
    if (track.on_device && track.thread == 8) track.process = 1;
  CHECK(summary_of(trace).exposed.value() == doctest::Approx(100e-6));
}

TEST_CASE("without a device the collectives of the host count, and nothing is exposed") {
  HandTrace hand;
  hand.op(0, "c10d::allreduce_", 0, 10);
  hand.annotation(1, "gloo:all_reduce", 5, 105);
  hand.annotation(2, "gloo:all_reduce", 55, 155);
  const TraceSummary s = summary_of(hand.trace());
  CHECK(s.collectives == 2);
  CHECK(s.collective_time.value() == doctest::Approx(150e-6));
  CHECK(s.exposed == Seconds(0));
}

TEST_CASE("what the host shows of a device's collectives does not tell what is exposed") {
  HandTrace hand;
  hand.annotation(0, "nccl:all_reduce", 5, 105);
  hand.kernel(0, 0, 1, 7, "volta_sgemm_64x64_tn", 100, 200);
  const TraceSummary s = summary_of(hand.trace());
  CHECK(s.collectives == 1);
  CHECK(s.collective_time.value() == doctest::Approx(100e-6));
  CHECK(s.exposed < Seconds(0));
}

TEST_CASE("the share of time that nobody could classify") {
  HandTrace hand;
  hand.op(0, "aten::add", 0, 75);
  hand.add(EventKind::other, hand.host(0), "a new kind", 80, 105);
  Trace trace = hand.trace();
  trace.report.unclassified_ns = 25'000;
  CHECK(summary_of(trace).unclassified_share == doctest::Approx(0.25));
}

TEST_CASE("kernels that occur exactly once a step give the device's period, from before the first step on") {
  HandTrace hand;
  // Launched before the recording began: the period that it opens counts, too.
  hand.add(EventKind::kernel, hand.device(7), "once", -100, -90, 999);
  const double begins[] = {0, 110, 220, 330, 440};
  for (int i = 0; i < 5; ++i) {
    hand.shift(begins[i]);
    hand.step(i, 0, 105);
    hand.kernel(0, 1, 2, 7, "once", 10, 20);
    hand.kernel(0, 3, 4, 7, "twice", 30, 35);
    hand.kernel(0, 5, 6, 7, "twice", 40, 45);
    if (i % 2 == 0) hand.kernel(0, 7, 8, 7, "now and then", 50 + i, 60);
  }
  const TraceSummary s = summary_of(hand.trace());
  CHECK(s.steps == 5);
  CHECK(s.first_step == 0);
  CHECK(s.last_step == 4);
  CHECK(s.step_annotation == "ProfilerStep#N");
  CHECK(s.device_period.value() == doctest::Approx(110e-6));
  CHECK(s.host_step.value() == doctest::Approx(105e-6));
  CHECK(s.step.value() == doctest::Approx(105e-6));  // this host waits for its device
}

TEST_CASE("a trace that lost the launches of all steps but one keeps the time of its annotations") {
  HandTrace hand;
  hand.add(EventKind::kernel, hand.device(7), "once", -100, -90, 999);
  hand.step(1, 0, 100);
  hand.step(2, 101, 201);
  hand.kernel(0, 150, 160, 7, "once", 300, 310);
  const TraceSummary s = summary_of(hand.trace());
  CHECK(s.device_period == Seconds(0));
  CHECK(s.step.value() == doctest::Approx(100e-6));
}

TEST_CASE("the stub that the profiler leaves behind the last step is no step time") {
  HandTrace hand;
  hand.step(1, 0, 9000);
  hand.step(2, 9000, 9050);
  const TraceSummary s = summary_of(hand.trace());
  CHECK(s.steps == 2);
  CHECK(ms(s.host_step) == doctest::Approx(4.525));  // the median of the annotations, as it is
  CHECK(ms(s.step) == doctest::Approx(9.0));
}

TEST_CASE("few steps: a single undistorted one is an accident, two are better than the distorted ones") {
  const auto step_of = [](std::vector<double> lengths) {
    HandTrace hand;
    double at = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      hand.step(int(i), at, at + lengths[i]);
      at += lengths[i] + 1;
    }
    return summary_of(hand.trace()).step.value() * 1e6;
  };
  CHECK(step_of({130, 90, 100}) == doctest::Approx(100));            // median of three
  CHECK(step_of({130, 90, 100, 120}) == doctest::Approx(95));        // mean of the middle two
  CHECK(step_of({130, 90, 100, 104, 120}) == doctest::Approx(104));  // median of five
}

/// The figures of a row of the table of public traces; absent where it gives none.
struct KnownFigures {
  std::string file;
  std::optional<double> host_ms, period_ms, union_ms, exposed_ms, megabytes, steps, collectives, with_metadata;
};

/// The number that stands behind `before` and in front of `after`.
std::optional<double> number_between(const std::string& text, const std::string& before, const std::string& after) {
  const std::size_t end = text.find(after);
  if (end == std::string::npos) return std::nullopt;
  std::size_t from = before.empty() ? 0 : text.rfind(before, end);
  if (from == std::string::npos) return std::nullopt;
  from += before.size();
  const std::string number = text.substr(from, end - from);
  if (number.empty() || number.find_first_not_of(" 0123456789.") != std::string::npos) return std::nullopt;
  return std::stod(number);
}

std::vector<KnownFigures> known_figures(const std::string& readme) {
  std::vector<KnownFigures> all;
  std::istringstream lines(readme);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '|');) cells.push_back(cell);
    if (cells.size() < 12 || cells[1].find(".gz") == std::string::npos) continue;
    KnownFigures known;
    known.file = cells[1].substr(1, cells[1].size() - 2);
    if (known.file.find(".tar.") != std::string::npos) continue;  // figures of several ranks in one row
    const std::string &steps = cells[9], &nccl = cells[10];
    known.steps = number_between(steps, "", "(#");
    known.host_ms = number_between(steps.substr(0, steps.find(" ms") + 3), "CPU med ", " ms");
    if (const std::size_t at = steps.find("GPU period med "); at != std::string::npos)
      known.period_ms = number_between(steps.substr(at), "GPU period med ", " ms");
    known.collectives = number_between(nccl, "", " kernels");
    if (const std::size_t at = nccl.find("union "); at != std::string::npos)
      known.union_ms = number_between(nccl.substr(at), "union ", " ms");
    if (const std::size_t at = nccl.find("exposed "); at != std::string::npos)
      known.exposed_ms = number_between(nccl.substr(at), "exposed ", " ms");
    known.with_metadata = number_between(nccl, "; ", " with metadata");
    known.megabytes = number_between(nccl, ", ", " MB");
    if (known.steps || known.collectives) all.push_back(known);
  }
  return all;
}

/// Within `share` of the known value, or within the rounding of a figure of two decimals.
bool close(double value, double known, double share) {
  return std::abs(value - known) <= std::max(share * known, 0.005);
}

TEST_CASE("public traces: step time, collectives, bytes, union and exposed time are those of their table") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  const std::vector<KnownFigures> rows = known_figures(test::text_of_file(*folder / "README.md"));
  REQUIRE(rows.size() > 60);
  std::size_t periods = 0, exposures = 0, sizes = 0;
  for (const KnownFigures& known : rows) {
    CAPTURE(known.file);
    const test::File file(*folder / known.file);
    const TraceSummary s = summary_of(trace_of(file.source()));
    if (known.steps) CHECK(s.steps == std::size_t(*known.steps));
    if (known.host_ms) {
      CHECK_MESSAGE(close(ms(s.host_step), *known.host_ms, 0.01), ms(s.host_step), " for ", *known.host_ms);
      // The iteration time is one of the two, unless a stub of an annotation halves the median of the table.
      const bool stub = s.steps == 2 && !close(ms(s.step), *known.host_ms, 0.01) && *known.host_ms < 0.6 * ms(s.step);
      const bool by_host = close(ms(s.step), *known.host_ms, 0.01);
      const bool by_device = known.period_ms && close(ms(s.step), *known.period_ms, 0.01);
      CHECK_MESSAGE((by_host || by_device || stub), ms(s.step), " for ", *known.host_ms);
    }
    if (known.period_ms) {
      ++periods;
      CHECK_MESSAGE(close(ms(s.device_period), *known.period_ms, 0.01), ms(s.device_period), " for ", *known.period_ms);
    }
    if (known.collectives && *known.collectives > 0) CHECK(s.collectives == std::size_t(*known.collectives));
    if (known.union_ms)
      CHECK_MESSAGE(close(ms(s.collective_time), *known.union_ms, 0.01), ms(s.collective_time), " for ",
                    *known.union_ms);
    if (known.exposed_ms) {
      ++exposures;
      CHECK_MESSAGE(close(ms(s.exposed), *known.exposed_ms, 0.01), ms(s.exposed), " for ", *known.exposed_ms);
    }
    const auto metadata = static_cast<std::size_t>(BytesSource::metadata);
    if (known.with_metadata) CHECK(s.collectives_by_source[metadata] == std::size_t(*known.with_metadata));
    if (known.megabytes) {
      ++sizes;
      const double megabytes = s.bytes_by_source[metadata].value() / 1e6;
      CHECK_MESSAGE(std::abs(megabytes - *known.megabytes) <= 0.001 * *known.megabytes, megabytes, " for ",
                    *known.megabytes);
    }
  }
  // The table is parsed, not copied: a change of its wording must not empty the test.
  CHECK(periods >= 40);
  CHECK(exposures >= 30);
  CHECK(sizes >= 3);
}

}  // namespace
}  // namespace stepcast
