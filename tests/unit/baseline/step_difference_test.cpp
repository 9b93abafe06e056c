// StepDifference: what changed, by how much, and what noise explains; lateness without replays.
#include <stepcast/base/error.hpp>
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/baseline/step_difference.hpp>
#include <stepcast/documents/documents.hpp>

#include "helpers/hand_trace.hpp"
#include "helpers/ranks_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string_view>

namespace stepcast {
namespace {

/// Steps of `product` and `collective` us one after the other, the product longer by up to `jitter` from step to step.
Trace job(double product, double collective, double jitter = 0, int steps = 9) {
  test::HandTrace hand;
  double now = 0;
  for (int i = 0; i < steps; ++i) {
    hand.shift(now);
    const double length = product + jitter * ((i * 5) % 9) / 9, end = length + collective;
    hand.step(i, 0, end);
    hand.op(0, "aten::mm", 0, 1);
    hand.kernel(0, 0, 0.5, 7, "ampere_sgemm_128x64_nn", 0.5, length);
    hand.kernel(0, 0.5, 0.8, 20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", length, end);
    now += end;
  }
  return hand.trace();
}

const ChangedPart& part_of(const StepDifference& d, std::string_view what) {
  const auto at = std::ranges::find(d.parts, what, &ChangedPart::what);
  REQUIRE(at != d.parts.end());
  return *at;
}

TEST_CASE("difference: a slower collective is told, the rest is noise, and the parts add up") {
  const StepDifference d = difference_of(job(1000, 100, 10), job(1000, 200, 10));
  CHECK(d.step.change == Change::slower);
  CHECK(d.step.by().value() * 1e6 == doctest::Approx(100).epsilon(0.05));
  CHECK(d.parts.front().what == words_of(SplitPart::communication));
  CHECK(part_of(d, words_of(SplitPart::communication)).change == Change::slower);
  CHECK(part_of(d, words_of(SplitPart::products)).change == Change::noise);
  Seconds sum;
  for (const ChangedPart& part : d.parts) sum += part.by();
  CHECK(sum.value() == doctest::Approx(d.step.by().value()));
  REQUIRE(d.communication.size() == 1);
  CHECK(d.communication[0].by().value() * 1e6 == doctest::Approx(100).epsilon(0.05));
  CHECK(difference_of(job(1000, 200, 10), job(1000, 100, 10)).step.change == Change::faster);
}

TEST_CASE("difference: what steps vary by is noise, and of one step nobody knows that") {
  CHECK(difference_of(job(1000, 100, 200), job(1010, 100, 200)).step.change == Change::noise);
  CHECK(difference_of(job(1000, 100, 2), job(1010, 100, 2)).step.change == Change::slower);
  const StepDifference few = difference_of(job(1000, 100, 10, 1), job(1000, 200, 10));
  CHECK(few.step.change == Change::cannot_tell);
  CHECK(few.parts.front().change == Change::cannot_tell);
}

TEST_CASE("difference: other devices and ranks are cautioned against") {
  Trace a = job(1000, 100), b = job(1000, 100);
  CHECK(difference_of(a, b).cautions.empty());
  a.device_name = "NVIDIA A100", b.device_name = "NVIDIA H100";
  a.rank = 0, b.rank = 3;
  CHECK(difference_of(a, b).cautions.size() == 2);
}

TEST_CASE("lateness: the same as in the self-check, and refused for one rank") {
  Documents documents;
  documents.traces = test::traces_of({.late_rank = 2, .late_us = 5000});
  const SelfCheck check = lateness_of(documents);
  CHECK(check.lateness == self_check_of(documents).lateness);
  CHECK(check.lateness.starts_with("rank 2 is late"));
  CHECK(check.ranks.empty());
  documents.traces.resize(1);
  CHECK_THROWS_AS((void)lateness_of(documents), InputError);
}

}  // namespace
}  // namespace stepcast
