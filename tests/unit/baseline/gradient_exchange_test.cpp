// GradientExchange: messages of recorded steps cut in another way, on shipped and public traces.
#include <stepcast/anatomy/step_anatomy.hpp>
#include <stepcast/baseline/gradient_exchange.hpp>
#include <stepcast/baseline/recorded_job.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/replay/calibration.hpp>
#include <stepcast/replay/edits/recorded_transfers.hpp>
#include <stepcast/schedule/schedule.hpp>

#include "helpers/plan_cases.hpp"
#include "helpers/random_input.hpp"
#include "helpers/shared_data.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace stepcast {
namespace {

struct TracedJob {
  Profile profile;
  RecordedJob job;
};
TracedJob traced(const std::vector<std::filesystem::path>& paths) {
  std::vector<Trace> traces;
  for (const std::filesystem::path& path : paths) {
    const test::File file(path);
    traces.push_back(trace_of(file.source()));
  }
  TracedJob out{profile_of(traces, {}), {}};
  const Answer<RecordedJob> job = recorded_job_of(traces, &out.profile);
  REQUIRE(static_cast<bool>(job));
  out.job = *job;
  return out;
}

std::filesystem::path shipped(const std::string& name) {
  return std::filesystem::path(STEPCAST_SOURCE_DIR) / "profiles" / "examples" / (name + ".pt.trace.json.gz");
}

/// The recorded messages, each with the time that it was recorded to take.
std::vector<GradientMessage> recorded_messages(const RecordedRank& rank) {
  std::vector<GradientMessage> out;
  std::uint32_t first = 0;
  for (const GradientExchange::Recorded& r : rank.exchange->recorded) {
    Bytes size;
    for (; first <= r.last; ++first) size += rank.exchange->sizes[first];
    const RecordedCollective& c = rank.collectives[r.collective];
    out.push_back({r.last, size, picoseconds_of(c.late), picoseconds_of(c.duration - c.late)});
  }
  return out;
}

std::vector<double> ones(const RecordedRank& rank) { return std::vector<double>(rank.collectives.size(), 1); }

/// With its gates shut the step is that of the recorded graph; with the recorded messages sent anew nearly so.
void check_identity(const RecordedRank& rank, Seconds recorded, double tolerance) {
  REQUIRE(rank.exchange);
  CHECK(is_whole(*rank.exchange, rank.collectives.size()));
  CHECK(std::abs((rank.step(ones(rank)) - recorded).value()) < 1.1e-9);
  const Seconds again = rank.step(ones(rank), recorded_messages(rank));
  CHECK(again.value() == doctest::Approx(recorded.value()).epsilon(tolerance));
}

Seconds scheduled(const std::filesystem::path& path) {
  const test::File file(path);
  const Trace trace = trace_of(file.source());
  const auto calibration = replaying::calibration_of(trace);
  REQUIRE(static_cast<bool>(calibration));
  return seconds_of(schedule((*calibration)->taken_apart.graph).period);
}

}  // namespace

TEST_CASE("gradient exchange: recorded messages exchanged for themselves leave the step as it is") {
  const TracedJob two = traced({shipped("gpt-cpu-ddp-rank0"), shipped("gpt-cpu-ddp-rank1")});
  CHECK(two.job.fixed() == "");
  // gloo carries two messages at once where the recorded ones overlapped; exchanged ones follow one another.
  for (std::size_t r = 0; r < 2; ++r)
    check_identity(two.job.ranks[r], scheduled(shipped("gpt-cpu-ddp-rank" + std::to_string(r))), 0.02);
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  for (const char* name : {"nccl_parser_config__nccl_data", "trace_diff__control__control"}) {
    CAPTURE(name);
    const auto path = *folder / "facebookresearch__HolisticTraceAnalysis" / (std::string(name) + ".json.gz");
    const TracedJob job = traced({path});
    REQUIRE(job.job.fixed() == "");
    check_identity(job.job.ranks.front(), scheduled(path), 0.005);
  }
}

TEST_CASE("gradient exchange: with any messages the step is that of a graph in which only they are sent") {
  test::Draw draw(7);
  for (const char* name : {"gpt-cpu-ddp-rank0", "gpt-cpu-ddp-rank1"}) {
    CAPTURE(name);
    const test::File file(shipped(name));
    const Trace trace = trace_of(file.source());
    const Profile profile = profile_of(trace, {});
    const auto calibration = replaying::calibration_of(trace);
    REQUIRE(static_cast<bool>(calibration));
    const TraceIndex index(trace);
    const RecordedTransfers transfers(index, (*calibration)->steps);
    std::vector<std::uint32_t> collective_of(trace.events.size(), no_index), parts;
    const TaskGraph& recorded = (*calibration)->taken_apart.graph;
    for (std::uint32_t t = 0; t < recorded.tasks.size(); ++t)
      if (recorded.tasks[t].kind == TaskKind::transfer && transfers.of(recorded.tasks[t].index) != nullptr) {
        collective_of[recorded.tasks[t].index] = 0;
        parts.push_back(t);
      }
    const Answer<ExchangeableStep> step =
        exchangeable(index, **calibration, collective_of, profile.tensors, profile.communication.message);
    REQUIRE(static_cast<bool>(step));
    const GradientExchange& exchange = step->exchange;
    std::vector<std::uint32_t> free = parts;
    free.insert(free.end(), step->free.begin(), step->free.end());
    const StepBlocks blocks = blocks_of(step->graph, free);
    for (int round = 0; round < 50; ++round) {
      std::vector<GradientMessage> messages;
      const auto gradients = static_cast<int>(exchange.sizes.size());
      for (int k = draw.whole(0, 9); k < gradients - 1; k += draw.whole(1, 40))
        messages.push_back({static_cast<std::uint32_t>(k),
                            {},
                            draw.whole(0, 5) * 1'000'000'000LL,
                            draw.whole(0, 90) * 1'000'000'000LL});
      messages.push_back({static_cast<std::uint32_t>(gradients - 1), {}, 0, 7'000'000'000});
      std::vector<Picoseconds> times(parts.size(), 0);
      exchange.append_times(messages, times);
      // The same by hand: a gate that is shut is no arc.
      std::set<std::uint32_t> shut;
      TaskGraphBuilder builder;
      for (const Resource& resource : step->graph.resources) builder.add_resource(resource);
      std::vector<Task> tasks = step->graph.tasks;
      for (std::size_t f = 0; f < free.size(); ++f) {
        if (times[f] < 0) shut.insert(free[f]);
        tasks[free[f]].work = std::max<Picoseconds>(0, times[f]);
      }
      for (const Task& task : tasks) (void)builder.add_task(task);
      for (std::uint32_t t = 0; t < tasks.size(); ++t)
        for (const Arc& arc : step->graph.successors(t))
          if (!shut.contains(t)) builder.add_arc(t, arc.task, arc.lag);
      builder.graph().marker = step->graph.marker;
      const TaskGraph by_hand = builder.build();
      REQUIRE(flaw_of(by_hand) == "");
      CHECK(shut.size() == exchange.sizes.size());  // of each gradient its gate, or what spreads the next one's arrival
      CHECK(std::abs(blocks.period(times) - schedule(by_hand).period) <= 1000);
    }
  }
}

TEST_CASE("gradient exchange: a slower network never makes a step shorter, nor do more messages cost the host less") {
  const TracedJob two = traced({shipped("gpt-cpu-ddp-rank0"), shipped("gpt-cpu-ddp-rank1")});
  for (const char* plan : {"ddp", "ddp(bucket=1 MiB)", "wfbp", "bsp"}) {
    CAPTURE(plan);
    Seconds last(1e9);
    for (const double gigabits : {0.3, 1.0, 3.0, 100.0}) {
      const Answer<Prediction> p =
          two.job.with(plan_spec_of(plan), two.profile, test::plain_cluster(2, gigabits_per_second(gigabits)));
      REQUIRE(static_cast<bool>(p));
      CHECK(p->of_recorded_step);
      CHECK(text_of(p->plan) == plan);
      CHECK(p->iteration <= last);
      CHECK(p->interval_low < p->iteration);
      last = p->iteration;
    }
  }
  const RecordedRank& rank = two.job.ranks.front();
  const auto host_of = [&](const char* plan) {
    const Cluster cluster = test::plain_cluster(2, gigabits_per_second(1));
    const Answer<std::vector<GradientMessage>> messages =
        messages_of(test::plan_of(plan, two.profile, cluster), two.profile);
    REQUIRE(static_cast<bool>(messages));
    std::vector<Picoseconds> times;
    rank.exchange->append_times(*messages, times);
    REQUIRE(times.size() == rank.exchange->free_tasks());
    Picoseconds sum = 0;
    for (std::size_t h = 0; h < rank.exchange->hosts.size(); ++h) sum += times[h];
    return sum;
  };
  CHECK(host_of("wfbp") > host_of("ddp(bucket=1 MiB, first=1 MiB)"));
  CHECK(host_of("ddp(bucket=1 MiB, first=1 MiB)") > host_of("bsp"));
}

TEST_CASE("gradient exchange: plans that do more than send gradients in other messages are refused with the reason") {
  const TracedJob two = traced({shipped("gpt-cpu-ddp-rank0"), shipped("gpt-cpu-ddp-rank1")});
  Cluster cluster = test::plain_cluster(2, gigabits_per_second(1));
  cluster.servers = 2;
  for (const char* plan : {"dear", "bytescheduler", "wfbp_ps", "ddp+fp16", "bsp+local(period=4)"}) {
    CAPTURE(plan);
    const Answer<Prediction> p = two.job.with(plan_spec_of(plan), two.profile, cluster);
    REQUIRE_FALSE(static_cast<bool>(p));
    CHECK(p.reason().starts_with("in the recorded step "));
  }
  Profile other = two.profile;
  other.tensors.pop_back();
  CHECK_FALSE(static_cast<bool>(two.job.with(plan_spec_of("ddp"), other, cluster)));
}

TEST_CASE("gradient exchange: messages of a plan end with the gradients that they wait for") {
  const Seconds pass = Seconds(0.01);
  Profile p = test::profile_of_gradients(
      {{pass, Bytes(4e6)}, {pass, Bytes(4e6)}, {pass, Bytes(2e6)}, {pass, Bytes(6e6)}}, pass);
  p.tensors[1].layer = p.tensors[0].layer;  // ready together
  const Cluster cluster = test::plain_cluster(2, gigabits_per_second(1));
  const auto lasts_of = [&](const char* plan) {
    const Answer<std::vector<GradientMessage>> messages = messages_of(test::plan_of(plan, p, cluster), p);
    REQUIRE(static_cast<bool>(messages));
    std::vector<std::uint32_t> lasts;
    for (const GradientMessage& m : *messages) lasts.push_back(m.last);
    return lasts;
  };
  CHECK(lasts_of("wfbp") == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(lasts_of("ddp(bucket=5 MB, first=5 MB)") == std::vector<std::uint32_t>{1, 3});
  CHECK(lasts_of("bsp(bucket=5 MB)") == std::vector<std::uint32_t>{3, 3});
  p.tensors[3].layer = p.tensors[2].layer;  // the last layer of the backward pass has none
  CHECK(lasts_of("bsp(bucket=5 MB)") == std::vector<std::uint32_t>{3, 3});
}

}  // namespace stepcast
