// RecordedTimeline: the recorded step with other messages, drawn.
#include <stepcast/baseline/recorded_timeline.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>

#include "helpers/plan_cases.hpp"
#include "helpers/shared_data.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

namespace stepcast {
namespace {

std::vector<Trace> traces_of(const std::vector<std::filesystem::path>& paths) {
  std::vector<Trace> traces;
  for (const std::filesystem::path& path : paths) {
    const test::File file(path);
    traces.push_back(trace_of(file.source()));
  }
  return traces;
}
std::filesystem::path shipped(const std::string& name) {
  return std::filesystem::path(STEPCAST_SOURCE_DIR) / "profiles" / "examples" / (name + ".pt.trace.json.gz");
}

/// The calibration step as it was recorded.
Seconds recorded_step(const RecordedJob& job) {
  std::vector<std::vector<double>> factors;
  for (const RecordedRank& rank : job.ranks) {
    factors.emplace_back();
    for (const RecordedCollective& c : rank.collectives)
      factors.back().push_back((c.duration - job.told_by(c)) / c.duration);
  }
  return job.step(factors);
}

/// The step that is drawn of each rank, and that which is predicted.
void check_drawn(const std::vector<Trace>& traces, const std::string& plan, const Cluster& cluster) {
  CAPTURE(plan);
  const Profile profile = profile_of(traces, {});
  const Answer<RecordedJob> job = recorded_job_of(traces, &profile);
  REQUIRE(static_cast<bool>(job));
  REQUIRE(job->fixed() == "");
  const PlanSpec spec = plan_spec_of(plan);
  const Answer<Prediction> predicted = job->with(spec, profile, cluster);
  const Answer<std::vector<ReplayTimeline>> drawn = recorded_timelines_of(traces, *job, profile, spec, cluster);
  REQUIRE(static_cast<bool>(predicted));
  REQUIRE(static_cast<bool>(drawn));
  REQUIRE(drawn->size() == traces.size());
  Seconds slowest;
  const std::size_t sent = job->laid_out(spec, profile, cluster)->front().messages.size();
  CHECK(sent <= predicted->messages);  // beside those that stay
  for (const ReplayTimeline& rank : *drawn) {
    slowest = std::max(slowest, rank.period);
    const auto sends = [](const ReplaySlice& s) { return s.name.starts_with("all-reduce "); };
    CHECK(static_cast<std::size_t>(std::ranges::count_if(rank.rebuilt, sends)) == sent);
    CHECK(rank.rebuilt_as == "with " + text_of(spec));
    CHECK(!rank.measured.empty());
    for (const ReplaySlice& slice : rank.rebuilt) CHECK(slice.duration > 0);
  }
  // What the usual step has beyond that of the calibration is not drawn.
  const Seconds more = job->step() - recorded_step(*job);
  CHECK(std::abs((predicted->iteration - slowest - more).value()) < 2.1e-9);
}

}  // namespace

TEST_CASE("recorded timeline: what is drawn takes the step that is predicted") {
  const std::vector<Trace> two = traces_of({shipped("gpt-cpu-ddp-rank0"), shipped("gpt-cpu-ddp-rank1")});
  const Cluster cluster = test::plain_cluster(2, gigabits_per_second(1));
  for (const char* plan : {"ddp(bucket=100 MiB)", "ddp(bucket=1 MiB)", "wfbp", "bsp"}) check_drawn(two, plan, cluster);
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  const auto path = *folder / "facebookresearch__HolisticTraceAnalysis" / "nccl_parser_config__nccl_data.json.gz";
  check_drawn(traces_of({path}), "ddp(bucket=100 MiB)", test::plain_cluster(2, gigabits_per_second(10)));
}

TEST_CASE("recorded timeline: of ranks that meet one waits for the other where that is late") {
  const std::vector<Trace> two = traces_of({shipped("gpt-cpu-ddp-rank0"), shipped("gpt-cpu-ddp-rank1")});
  const Profile profile = profile_of(two, {});
  const Answer<RecordedJob> job = recorded_job_of(two, &profile);
  REQUIRE(static_cast<bool>(job));
  REQUIRE(job->in_lockstep);
  const Answer<std::vector<ReplayTimeline>> drawn =
      recorded_timelines_of(two, *job, profile, plan_spec_of("bsp"), test::plain_cluster(2, gigabits_per_second(100)));
  REQUIRE(static_cast<bool>(drawn));
  const auto waiting = [&](std::size_t r) {
    Picoseconds sum = 0;
    for (const ReplaySlice& s : (*drawn)[r].rebuilt)
      if (s.name == "waits for other ranks") sum += s.duration;
    return sum;
  };
  // One all-reduce of all: one of the two comes first, and waits.
  CHECK((waiting(0) > 0) != (waiting(1) > 0));
}

TEST_CASE("recorded timeline: a job whose messages cannot be exchanged is drawn on other links") {
  const std::vector<Trace> two = traces_of({shipped("gpt-cpu-fsdp2-rank0"), shipped("gpt-cpu-fsdp2-rank1")});
  const Profile profile = profile_of(two, {});
  const Answer<RecordedJob> job = recorded_job_of(two, &profile);
  REQUIRE(static_cast<bool>(job));
  REQUIRE(job->fixed() != "");
  const auto drawn_over = [&](double gigabits) {
    const Cluster cluster = test::plain_cluster(2, gigabits_per_second(gigabits));
    const auto drawn = recorded_timelines_of(two, *job, profile, plan_spec_of("ddp"), cluster);
    REQUIRE(static_cast<bool>(drawn));
    const Seconds slowest = std::max(drawn->front().period, drawn->back().period);
    const Answer<Prediction> predicted = job->on(cluster);
    REQUIRE(static_cast<bool>(predicted));
    CHECK(std::abs((predicted->iteration - slowest - (job->step() - recorded_step(*job))).value()) < 2.1e-9);
    return slowest;
  };
  CHECK(drawn_over(0.2) > 1.2 * drawn_over(10));
}

TEST_CASE("recorded timeline: other traces and plans that have no place are refused") {
  const std::vector<Trace> two = traces_of({shipped("gpt-cpu-ddp-rank0"), shipped("gpt-cpu-ddp-rank1")});
  const Profile profile = profile_of(two, {});
  const Answer<RecordedJob> job = recorded_job_of(two, &profile);
  REQUIRE(static_cast<bool>(job));
  const Cluster cluster = test::plain_cluster(2, gigabits_per_second(1));
  const auto refusal = [&](std::span<const Trace> traces, const char* plan) {
    const auto drawn = recorded_timelines_of(traces, *job, profile, plan_spec_of(plan), cluster);
    REQUIRE(!drawn);
    return drawn.reason();
  };
  CHECK(refusal(std::span(two).first(1), "bsp") == "the job was made of other traces");
  CHECK(refusal(two, "dear").starts_with("in the recorded step "));
}

}  // namespace stepcast
