// Pipeline replay: a job worked out by hand, jobs made from schedules, contradictions, and the real files at hand.
#include <stepcast/documents/documents.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/pipeline/pipeline.hpp>
#include <stepcast/replay/pipelined/job.hpp>
#include <stepcast/replay/pipelined/pipeline_replay.hpp>
#include <stepcast/report/pipeline_replay_report.hpp>
#include <stepcast/report/report.hpp>

#include "helpers/shared_data.hpp"
#include "helpers/timelines.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>
#include <sstream>

using namespace stepcast;
using namespace stepcast::test;
using doctest::Approx;

namespace {

std::vector<Trace> traces_of_file(const std::filesystem::path& path) { return reading_of(File(path).source()).traces; }
std::vector<Trace> by_hand() {
  return traces_of_file(std::filesystem::path(STEPCAST_SOURCE_DIR) / "tests/data/pipelined-slow-worker.csv");
}

const std::string header = "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id\n";

/// "0,0,0,7,forward-compute,..." with times in seconds.
std::string row(int replica, int stage, int rank, int step, const std::string& type, double start, double duration,
                int sequence, int chunk, int micro_batch) {
  char text[200];
  std::snprintf(text, sizeof text, "%d,%d,%d,%d,%s,%.9f,%.9f,%d,%d,%d\n", replica, stage, rank, step, type.c_str(),
                start, duration, sequence, chunk, micro_batch);
  return text;
}

/// Passes without recorded sends, run by each stage in the order of a schedule, as soon as their input is there.
/// `even`: the time of every forward pass, half that of every backward pass; 0: random ones.
std::string rows_of_schedule(const PipelineSchedule& schedule, const PipelineShape& shape, int steps, unsigned seed,
                             double even = 0) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> time(0.01, 0.03);
  const std::uint32_t parts = shape.stages * shape.chunks;
  std::vector<double> forward(parts), backward(parts);
  for (std::uint32_t p = 0; p < parts; ++p) forward[p] = time(random), backward[p] = 2 * time(random);
  for (std::uint32_t p = 0; p < parts && even > 0; ++p) forward[p] = even, backward[p] = 2 * even;
  std::string text = header;
  for (int step = 0; step < steps; ++step) {
    std::vector<std::vector<PipelineSlot>> order;
    for (std::uint32_t s = 0; s < shape.stages; ++s) order.push_back(schedule.order(shape, s));
    std::vector<std::size_t> next(shape.stages, 0);
    std::vector<double> free(shape.stages, 0);
    std::vector<double> ready_f(parts * shape.micro_batches, -1), ready_b = ready_f;
    for (std::uint32_t m = 0; m < shape.micro_batches; ++m) ready_f[m] = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t s = 0; s < shape.stages; ++s) {
        if (next[s] == order[s].size()) continue;
        const PipelineSlot slot = order[s][next[s]];
        const std::uint32_t part = schedule.place(shape, s, slot.chunk), m = slot.micro_batch;
        const bool is_forward = slot.pass == PipelinePass::forward;
        const double ready = (is_forward ? ready_f : ready_b)[part * shape.micro_batches + m];
        if (ready < 0) continue;
        const double start = std::max(ready, free[s]), duration = is_forward ? forward[part] : backward[part];
        free[s] = start + duration;
        if (is_forward && part + 1 < parts) ready_f[(part + 1) * shape.micro_batches + m] = free[s];
        if (is_forward && part + 1 == parts) ready_b[part * shape.micro_batches + m] = free[s];
        if (!is_forward && part > 0) ready_b[(part - 1) * shape.micro_batches + m] = free[s];
        text += row(0, int(s), int(s), step, is_forward ? "forward-compute" : "backward-compute", start, duration,
                    int(next[s]), int(slot.chunk), int(m));
        ++next[s];
        moved = true;
      }
    }
    for (std::uint32_t s = 0; s < shape.stages; ++s) REQUIRE(next[s] == order[s].size());
  }
  return text;
}

void require_order(const pipelined::JobStep& step, const pipelined::Rebuilt& rebuilt) {
  for (std::size_t o = 0; o < step.operations.size(); ++o)
    for (std::uint32_t w = step.first_wait[o]; w < step.first_wait[o + 1]; ++w)
      if (step.waits[w].on != no_index) REQUIRE(rebuilt.start[o] >= rebuilt.end[step.waits[w].on]);
  for (std::size_t g = 0; g + 1 < step.first_member.size(); ++g)
    for (std::uint32_t a = step.first_member[g]; a < step.first_member[g + 1]; ++a)
      for (std::uint32_t b = step.first_member[g]; b < step.first_member[g + 1]; ++b)
        REQUIRE(rebuilt.end[step.members[a]] >= rebuilt.start[step.members[b]]);
}

}  // namespace

TEST_CASE("pipeline replay: a job by hand, one worker twice as slow") {
  const std::vector<Trace> traces = by_hand();
  REQUIRE(is_pipelined(traces));
  const Answer<PipelineReplay> replay = pipeline_replay_of(traces);
  REQUIRE(replay);
  CHECK(replay->stages == 2);
  CHECK(replay->replicas == 2);
  CHECK(replay->micro_batches == 2);
  REQUIRE(replay->steps.size() == 3);
  // Stage 0 of replica 1: 20 ms forward, 1 ms to send, ... 133 ms, 5 ms of sums, 5 ms of update; with 10 ms it is 93.
  const double scale[] = {1, 1.1, 1};
  for (std::size_t s = 0; s < 3; ++s) {
    CHECK(replay->steps[s].measured.value() == Approx(0.143 * scale[s]));
    CHECK(replay->steps[s].rebuilt.value() == Approx(0.143 * scale[s]));
    CHECK(replay->steps[s].without_slow_workers.value() == Approx(0.103 * scale[s]));
  }
  CHECK(replay->slowdown == Approx(143.0 / 103));
  REQUIRE(replay->workers.size() == 1);
  CHECK(replay->workers[0].worker == 1);
  CHECK(replay->workers[0].stage == 0);
  CHECK(replay->workers[0].replica == 1);
  CHECK(replay->workers[0].factor == Approx(2));
  CHECK(replay->workers[0].step_cost == Approx(40.0 / 143));
  CHECK(replay->stages_slow.empty());  // a slow worker is no slow stage
  CHECK(replay->cause == "worker 1 (replica 1, stage 0): its passes take 2.00 x those of its peers");
  // From the other steps alone: their times are the first and the last one's, or the mean with the slower one.
  CHECK(replay->steps[1].forecast.value() == Approx(0.143));
  CHECK(replay->steps[0].forecast.value() == Approx(0.1573));
  const auto recorded = std::ranges::find_if(replay->schedules, &ReorderedPipeline::recorded);
  REQUIRE(recorded != replay->schedules.end());
  CHECK(recorded->schedule == "1f1b");
}

TEST_CASE("pipeline replay: waiting emerges, recorded starts come back, nothing starts before what it waits for") {
  const std::vector<Trace> traces = by_hand();
  const Answer<pipelined::PipelineJob> job = pipelined::job_of(traces);
  REQUIRE(job);
  for (const pipelined::OperationType& type : job->types) CHECK(type.in_order);
  const std::vector<double> no_lags(job->lags.size() + 1, 0);
  pipelined::Rebuilt rebuilt;
  for (const pipelined::JobStep& step : job->steps) {
    rebuild(step, step.work, no_lags, rebuilt);
    require_order(step, rebuilt);
    for (std::size_t o = 0; o < step.operations.size(); ++o) {
      CHECK(rebuilt.start[o] == Approx(step.operations[o].start).epsilon(1e-9));
      CHECK(rebuilt.end[o] == Approx(step.operations[o].end).epsilon(1e-9));
    }
    // A send lasts 51 ms where its peer comes late; its work is the millisecond of the transfer.
    for (std::size_t o = 0; o < step.operations.size(); ++o)
      if (job->types[step.operations[o].type].peer_stage != 0) CHECK(step.work[o] < 0.0012);
  }
}

TEST_CASE("pipeline replay: no work takes longer without making anything earlier") {
  const std::vector<Trace> traces = by_hand();
  const Answer<pipelined::PipelineJob> job = pipelined::job_of(traces);
  REQUIRE(job);
  const std::vector<double> lags = lags_of(*job, std::vector<bool>(job->steps.size(), true));
  const pipelined::JobStep& step = job->steps[0];
  pipelined::Rebuilt before, after;
  rebuild(step, step.work, lags, before);
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> work = step.work;
    const std::size_t slower = random() % work.size();
    work[slower] += 0.001 * double(1 + random() % 50);
    rebuild(step, work, lags, after);
    require_order(step, after);
    CHECK(after.step >= before.step);
    for (std::size_t o = 0; o < work.size(); ++o) CHECK(after.start[o] >= before.start[o]);
  }
}

TEST_CASE("pipeline replay: jobs made from schedules come back, and their schedule is recognised") {
  const PipelineShape shapes[] = {{4, 1, 8}, {3, 1, 3}, {2, 2, 4}, {4, 2, 8}};
  for (const std::string_view name : {"gpipe", "1f1b", "interleaved"})
    for (const PipelineShape& shape : shapes) {
      const PipelineSchedule* schedule = pipeline_schedule(name);
      REQUIRE(schedule);
      if (!schedule->unsuitable(shape).empty()) continue;
      CAPTURE(name);
      CAPTURE(shape.stages);
      CAPTURE(shape.chunks);
      const Answer<PipelineReplay> replay = pipeline_replay_of(traces_in(rows_of_schedule(*schedule, shape, 2, 11)));
      REQUIRE(replay);
      CHECK(replay->chunks == shape.chunks);
      for (const PipelineStepReplay& step : replay->steps)
        CHECK(step.rebuilt.value() == Approx(step.measured.value()).epsilon(1e-6));
      const auto recorded = std::ranges::find_if(replay->schedules, &ReorderedPipeline::recorded);
      REQUIRE(recorded != replay->schedules.end());
      // One chunk interleaved is 1F1B, which stands before it.
      CHECK(recorded->schedule == (shape.chunks == 1 && name == "interleaved" ? "1f1b" : name));
      CHECK(recorded->step.value() == Approx(replay->measured.value()).epsilon(1e-6));
    }
}

TEST_CASE("pipeline replay: the order in which files are named does not matter, to the last bit") {
  const auto json_of = [](const std::vector<Trace>& traces) {
    const Answer<PipelineReplay> replay = pipeline_replay_of(traces);
    REQUIRE(replay);
    std::ostringstream out;
    report_named("json")->pipeline_replay(out, *replay);
    return std::move(out).str();
  };
  std::mt19937 random(3);
  for (unsigned seed = 1; seed <= 10; ++seed) {
    std::vector<Trace> traces = traces_in(rows_of_schedule(*pipeline_schedule("1f1b"), {7, 1, 9}, 2, seed));
    REQUIRE(traces.size() == 7);
    const std::string expected = json_of(traces);
    for (int i = 0; i < 5; ++i) {
      std::ranges::shuffle(traces, random);
      CHECK(json_of(traces) == expected);
    }
  }
}

TEST_CASE("pipeline replay: the numbers of chunks and micro-batches that a recording leaves out come back") {
  for (const PipelineShape& shape : {PipelineShape{2, 2, 4}, PipelineShape{4, 2, 8}, PipelineShape{4, 4, 8}}) {
    CAPTURE(shape.stages);
    CAPTURE(shape.chunks);
    const std::vector<Trace> numbered = traces_in(rows_of_schedule(*pipeline_schedule("interleaved"), shape, 2, 11));
    std::vector<Trace> traces = numbered;
    for (Trace& trace : traces) {
      std::map<std::pair<std::int32_t, StringId>, std::int32_t> passes;  // in order of time, as they are listed
      for (OperationArguments& o : trace.operations) {
        o.chunk = -1;
        o.micro_batch = passes[{o.step, trace.events[o.event].name}]++;
      }
    }
    const Answer<PipelineReplay> replay = pipeline_replay_of(traces), expected = pipeline_replay_of(numbered);
    REQUIRE(replay);
    CHECK(replay->chunks == shape.chunks);
    CHECK(replay->micro_batches == shape.micro_batches);
    CHECK(replay->rebuilt == expected->rebuilt);
    CHECK(replay->notes.size() == 1);
    REQUIRE(replay->schedules.size() == expected->schedules.size());
    for (std::size_t i = 0; i < replay->schedules.size(); ++i) {
      CHECK(replay->schedules[i].step == expected->schedules[i].step);
      CHECK(replay->schedules[i].recorded == expected->schedules[i].recorded);
    }
    CHECK(std::ranges::any_of(replay->schedules, &ReorderedPipeline::recorded));
  }
}

TEST_CASE("pipeline replay: a plain pipeline is offered interleaving, as the textbook has it for even stages") {
  const PipelineShape shape{4, 1, 8};
  const double f = 0.02, b = 0.04;
  const Answer<PipelineReplay> replay =
      pipeline_replay_of(traces_in(rows_of_schedule(*pipeline_schedule("1f1b"), shape, 2, 1, f)));
  REQUIRE(replay);
  const auto row = std::ranges::find(replay->schedules, "interleaved", &ReorderedPipeline::schedule);
  REQUIRE(row != replay->schedules.end());
  CHECK(row->stages_halved);
  CHECK(!row->recorded);
  CHECK(row->step.value() == Approx(8 * (f + b) + 3 * (f + b) / 2).epsilon(1e-6));  // m(f + b) + (Z - 1)(f + b)/2
  const auto own = std::ranges::find(replay->schedules, "1f1b", &ReorderedPipeline::schedule);
  REQUIRE(own != replay->schedules.end());
  CHECK(own->step.value() == Approx(8 * (f + b) + 3 * (f + b)).epsilon(1e-6));
  CHECK(!own->stages_halved);
  CHECK(replay->caution().empty());
  PipelineReplay uneven = *replay;
  uneven.median_error = 0.17;
  std::ostringstream text;
  write_pipeline_replay_text(text, uneven);
  CHECK(text.str().find("CAUTION") != std::string::npos);
}

TEST_CASE("pipeline replay: the layout of the run beside its passes is checked against them") {
  const auto stage = [](int number) {
    const std::string begin = number == 0 ? "0" : "10", end = number == 0 ? "10" : "20";
    return std::pair<std::string, std::string>("run/pp_rank_" + std::to_string(number) + ".json",
                                               R"({"1": {"total": 60, "fwd_start": [)" + begin + R"(], "fwd_end": [)" +
                                                   end + R"(], "bwd_start": [)" + (number == 0 ? "40" : "20") +
                                                   R"(], "bwd_end": [)" + (number == 0 ? "60" : "40") + "]}}");
  };
  const auto read = [&](const std::string& config) {
    const std::pair<std::string, std::string> files[] = {{"run/config.json", config}, stage(0), stage(1)};
    std::vector<Source> sources;
    for (const auto& [name, text] : files) sources.push_back({name, std::as_bytes(std::span(text)), {}});
    return documents_of(sources);
  };
  const Documents documents = read(R"({"world_size": 2, "pp_size": 2, "vp_size": 1, "num_mbs": 1})");
  CHECK(documents.traces.size() == 2);
  REQUIRE(documents.notes.size() == 1);
  CHECK(documents.notes[0].starts_with("run/config.json: the layout of the run"));
  CHECK(read(R"({"world_size": 2, "pp_size": 2, "micro_batches": 1})").traces.size() == 2);
  CHECK_THROWS_WITH_AS((void)read(R"({"world_size": 2, "pp_size": 2, "vp_size": 2, "num_mbs": 8})"),
                       doctest::Contains("2 chunks of 8 micro-batches, and 1 forward passes in a step"), InputError);
}

TEST_CASE("pipeline replay: a sum of gradients beside backward passes waits for its gradients alone") {
  std::string text = header;
  for (int step = 0; step < 2; ++step)
    for (int replica = 0; replica < 2; ++replica) {
      const double b = replica == 0 ? 0.1 : 0.3;  // the second one is late everywhere
      text += row(replica, 0, replica, step, "forward-compute", 0, 0.1, 0, 0, 0);
      text += row(replica, 0, replica, step, "backward-compute", 0.1, b, 0, 0, 0);
      text += row(replica, 0, replica, step, "forward-compute", 0.1 + b, 0.1, 1, 0, 1);
      text += row(replica, 0, replica, step, "backward-compute", 0.2 + b, b, 1, 0, 1);
      text += row(replica, 0, replica, step, "grads-reduce-scatter", 0.1 + b, 0.5 - 0.1 - b, 0, 0, -1);  // till 0.5
      text += row(replica, 0, replica, step, "grads-reduce-scatter", 0.2 + 2 * b, 0.9 - 0.2 - 2 * b, 1, 0, -1);
      text += row(replica, 0, replica, step, "optimizer", 0.9, 0.1, 0, -1, -1);
    }
  const std::vector<Trace> traces = traces_in(text);
  const Answer<pipelined::PipelineJob> job = pipelined::job_of(traces);
  REQUIRE(job);
  for (const pipelined::OperationType& type : job->types) CHECK(type.in_order == (type.name != "grads-reduce-scatter"));
  const Answer<PipelineReplay> replay = pipeline_replay_of(traces);
  REQUIRE(replay);
  for (const PipelineStepReplay& step : replay->steps) {
    CHECK(step.rebuilt.value() == Approx(1.0));
    // Backward passes like the peer's: done at 0.2 + 2 x 0.1, then 0.1 for the sum and 0.1 for the update.
    CHECK(step.measured.value() == Approx(1.0));
  }
  REQUIRE(!replay->workers.empty());
  CHECK(replay->workers[0].worker == 1);
  CHECK(replay->workers[0].backward == Approx(3));
  CHECK(replay->workers[0].forward == Approx(1));
  CHECK(replay->workers[0].step_cost == Approx(0.4));
}

TEST_CASE("pipeline replay: a meeting of all workers is seen by its ends") {
  std::string text = header;
  for (int step = 0; step < 2; ++step)
    for (int rank = 0; rank < 3; ++rank) {
      const double f = 0.1 * (rank + 1);
      text += row(rank, 0, rank, step, "forward-compute", 0, f, 0, 0, 0);
      text += row(rank, 0, rank, step, "backward-compute", f, f, 0, 0, 0);
      text += row(rank, 0, rank, step, "optimizer-clip-main-grad", 2 * f, 0.65 - 2 * f, 0, -1, -1);
      text += row(rank, 0, rank, step, "optimizer", 0.65, 0.05, 0, -1, -1);
    }
  const Answer<pipelined::PipelineJob> job = pipelined::job_of(traces_in(text));
  REQUIRE(job);
  for (const pipelined::OperationType& type : job->types)
    CHECK((type.together == pipelined::Together::job) == (type.name == "optimizer-clip-main-grad"));
  for (std::size_t o = 0; o < job->steps[0].operations.size(); ++o)
    if (job->types[job->steps[0].operations[o].type].name == "optimizer-clip-main-grad")
      CHECK(job->steps[0].work[o] == Approx(0.05));
}

TEST_CASE("pipeline replay: recordings that contradict themselves have a reason, not a number") {
  // Each stage receives what the other one sends only after it received.
  std::string text = header;
  text += row(0, 0, 0, 0, "backward-recv", 0, 0.1, 0, -1, -1);
  text += row(0, 0, 0, 0, "forward-compute", 0.1, 0.1, 0, 0, 0);
  text += row(0, 0, 0, 0, "forward-send", 0.2, 0.1, 0, -1, -1);
  text += row(0, 1, 1, 0, "forward-recv", 0, 0.1, 0, -1, -1);
  text += row(0, 1, 1, 0, "backward-compute", 0.1, 0.1, 0, 0, 0);
  text += row(0, 1, 1, 0, "backward-send", 0.2, 0.1, 0, -1, -1);
  const Answer<PipelineReplay> circle = pipeline_replay_of(traces_in(text));
  REQUIRE(!circle);
  CHECK(circle.reason() == "in step 0 operations wait for one another in a circle: some are lost, or written twice");
  const Answer<PipelineReplay> no_passes =
      pipeline_replay_of(traces_in(header + row(0, 0, 0, 0, "optimizer", 0, 1, 0, -1, -1)));
  REQUIRE(!no_passes);
  CHECK(no_passes.reason() == "the operations hold no forward or backward passes");
  CHECK(!pipeline_replay_of({}));
  CHECK(!is_pipelined({}));
}

TEST_CASE("pipeline replay: the whole job is needed") {
  const auto reason = [](const std::string& rows) {
    const Answer<PipelineReplay> replay = pipeline_replay_of(traces_in(header + rows));
    return replay ? std::string() : replay.reason();
  };
  const std::string first = row(0, 0, 0, 0, "forward-compute", 0, 1, 0, 0, 0);
  CHECK(reason(first + row(0, 2, 2, 0, "forward-compute", 1, 1, 0, 0, 0)) ==
        "stage 1 of replica 0 is missing: the files of all workers are needed");
  CHECK(reason(first + row(1, 1, 2, 0, "forward-compute", 1, 1, 0, 0, 0)) ==
        "stage 1 of replica 0 is missing: the files of all workers are needed");
  CHECK(reason(first + row(0, 2000000000, 1, 0, "forward-compute", 1, 1, 0, 0, 0)) ==
        "stage 1 of replica 0 is missing: the files of all workers are needed");
  CHECK(reason(row(0, 1, 1, 0, "forward-compute", 1, 1, 0, 0, 0)) ==
        "stage 0 of replica 0 is missing: the files of all workers are needed");
  CHECK(reason(first + row(0, 0, 1, 0, "forward-compute", 1, 1, 0, 0, 0)).starts_with("two workers are stage 0 of"));
  // Numbers of chunks and micro-batches beyond all passes are no schedule.
  const Answer<PipelineReplay> odd = pipeline_replay_of(
      traces_in(header + first + row(0, 0, 0, 0, "backward-compute", 1, 1, 0, 2000000000, 2000000000)));
  REQUIRE(odd);
  CHECK(odd->schedules.empty());
}

TEST_CASE("pipeline replay: a worker that a step lacks, a lone step, and a send without a receive") {
  const std::string one = header + row(0, 0, 0, 3, "forward-compute", 0, 0.1, 0, 0, 0) +
                          row(0, 0, 0, 3, "forward-send", 0.1, 0.1, 0, -1, -1) +
                          row(0, 1, 1, 3, "forward-compute", 0.1, 0.1, 0, 0, 0);
  const Answer<PipelineReplay> lone = pipeline_replay_of(traces_in(one));
  REQUIRE(lone);
  CHECK(lone->steps.size() == 1);
  CHECK(lone->schedules.empty());  // no backward passes
  CHECK(mentions(lone->notes, "1 sends and receives have no counterpart"));
  const Answer<PipelineReplay> lacks =
      pipeline_replay_of(traces_in(one + row(0, 0, 0, 4, "forward-compute", 0, 0.1, 0, 0, 0)));
  REQUIRE(lacks);
  CHECK(lacks->steps.size() == 1);
  CHECK(mentions(lacks->notes, "step 4 left out: it lacks worker 1"));
}

TEST_CASE("pipeline replay: a worker without passes makes no other kind of trace of a job") {
  const std::string passes = header + row(0, 0, 0, 3, "forward-compute", 0, 0.1, 0, 0, 0) +
                             row(0, 1, 1, 3, "forward-compute", 0.1, 0.1, 0, 0, 0);
  const std::vector<Trace> traces = traces_in(passes + row(0, 1, 7, 3, "forward-recv", 0, 0.1, 0, -1, -1));
  REQUIRE(traces.size() == 3);
  CHECK(is_pipelined(traces));
  CHECK(pipeline_replay_of(traces).reason().starts_with("two workers are stage 1 of replica 0"));
  CHECK(!is_pipelined(traces_in(header + row(0, 1, 7, 3, "forward-recv", 0, 0.1, 0, -1, -1))));
  std::vector<Trace> mixed = traces;
  mixed.emplace_back();
  CHECK(!is_pipelined(mixed));
}

TEST_CASE("pipeline replay: a step that contradicts itself is left out, a job of none but such steps is refused") {
  const auto step = [](int number, bool crossed) {  // each stage first receives what the other sends after that
    const double late = crossed ? 0.1 : 0;
    return row(0, 0, 0, number, "forward-compute", 0, 0.1, 0, 0, 0) +
           row(0, 0, 0, number, "forward-send", 0.1 + late, 0.1, 0, -1, -1) +
           row(0, 0, 0, number, "backward-recv", 0.2 - late, 0.1, 0, -1, -1) +
           row(0, 1, 1, number, "forward-recv", 0.1, 0.1, 0, -1, -1) +
           row(0, 1, 1, number, "backward-send", 0.2, 0.1, 0, -1, -1) +
           row(0, 1, 1, number, "forward-compute", 0.3, 0.1, 0, 0, 0);
  };
  const Answer<PipelineReplay> kept = pipeline_replay_of(traces_in(header + step(3, false) + step(4, true)));
  REQUIRE(kept);
  REQUIRE(kept->steps.size() == 1);
  CHECK(kept->steps[0].step == 3);
  CHECK(mentions(kept->notes, "1 step left out: in step 4 operations wait for one another in a circle"));
  const Answer<PipelineReplay> none = pipeline_replay_of(traces_in(header + step(4, true)));
  REQUIRE(!none);
  CHECK(none.reason().starts_with("in step 4 operations wait for one another in a circle"));
}

TEST_CASE("pipeline replay: reports keep to the page, and timelines show all workers twice") {
  const std::vector<Trace> traces = by_hand();
  const Answer<PipelineReplay> replay = pipeline_replay_of(traces);
  REQUIRE(replay);
  std::ostringstream text;
  write_pipeline_replay_text(text, *replay);
  std::istringstream lines(text.str());
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 80, line);
  const auto timelines = pipeline_timelines_of(traces);
  REQUIRE(timelines);
  REQUIRE(timelines->size() == 4);
  for (const ReplayTimeline& worker : *timelines) {
    CHECK(worker.measured.size() == worker.rebuilt.size());
    CHECK(worker.measured.size() == 10);
  }
}

// Published figures: result-AR.json and result-ST.json of ByteDance-Seed/StragglerAnalysis (Apache-2.0),
// `blocking_slowdown`: the slowdown S over all operations alike.
TEST_CASE("pipeline replay: the published straggler analyses") {
  const auto folder = shared_folder("traces/ByteDance-Seed__StragglerAnalysis");
  if (!folder) return;
  for (const std::string form : {"trace-AR.csv.gz", "timeline-AR.json.gz"}) {
    const Answer<PipelineReplay> replay = pipeline_replay_of(traces_of_file(*folder / form));
    REQUIRE(replay);
    CHECK(replay->steps.size() == 44);
    CHECK(replay->measured.value() == Approx(46.67).epsilon(0.002));
    CHECK(replay->median_error < 0.005);
    CHECK(replay->forecast_error < 0.01);
    CHECK(replay->unevenness == Approx(1.9730).epsilon(0.01));
    REQUIRE(replay->workers.size() == 1);
    CHECK(replay->workers[0].worker == 0);
    CHECK(replay->workers[0].stage == 0);
    CHECK(replay->workers[0].replica == 0);
    CHECK(replay->workers[0].factor == Approx(2.36).epsilon(0.01));
    CHECK(replay->stages_slow.empty());
    CHECK(replay->schedule_error < 0.01);
  }
  for (const std::string form : {"trace-ST.csv.gz", "timeline-ST.json.gz"}) {
    const Answer<PipelineReplay> replay = pipeline_replay_of(traces_of_file(*folder / form));
    REQUIRE(replay);
    CHECK(replay->steps.size() == 32);
    CHECK(replay->measured.value() == Approx(2.213).epsilon(0.002));
    CHECK(replay->median_error < 0.005);
    CHECK(replay->forecast_error < 0.01);
    CHECK(replay->unevenness == Approx(1.1787).epsilon(0.01));
    CHECK(replay->workers.empty());
    REQUIRE(replay->stages_slow.size() == 1);
    CHECK(replay->stages_slow[0].stage == 3);
    CHECK(replay->stages_slow[0].forward == Approx(2.07).epsilon(0.01));
    CHECK(replay->schedule_error < 0.01);
  }
}

TEST_CASE("pipeline replay: 1F1B over eight stages, rebuilt and modelled") {
  const auto folder = shared_folder("traces/AMD-AGI__Primus");
  if (!folder) return;
  std::vector<Trace> traces;
  for (int rank = 0; rank < 8; ++rank)
    traces.push_back(
        traces_of_file(*folder / ("gpu8_layer64_gbs16__pp8__pp_rank_" + std::to_string(rank) + ".json.gz")).front());
  const Answer<PipelineReplay> replay = pipeline_replay_of(traces);
  REQUIRE(replay);
  CHECK(replay->steps.size() == 20);
  CHECK(replay->stages == 8);
  CHECK(replay->micro_batches == 16);
  CHECK(replay->measured.value() == Approx(3.249).epsilon(0.002));
  CHECK(replay->rebuilt.value() == Approx(3.249).epsilon(0.01));
  CHECK(replay->median_error < 0.005);
  CHECK(replay->forecast_error < 0.01);
  const auto recorded = std::ranges::find_if(replay->schedules, &ReorderedPipeline::recorded);
  REQUIRE(recorded != replay->schedules.end());
  CHECK(recorded->schedule == "1f1b");
  CHECK(recorded->step.value() == Approx(3.249).epsilon(0.03));
  CHECK(replay->schedule_error < 0.01);
}

TEST_CASE("pipeline replay: no other real trace is taken for a pipelined job") {
  const auto folder = shared_folder("traces");
  if (!folder) return;
  constexpr std::uintmax_t largest = 1u << 19;
  std::size_t pipelined = 0, others = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(*folder)) {
    if (!entry.is_regular_file() || entry.file_size() > largest) continue;
    const std::string path = entry.path().string();
    if (path.find("README") != std::string::npos || path.ends_with(".yaml")) continue;
    std::vector<Trace> traces;
    try {
      traces = traces_of_file(entry.path());
    } catch (const InputError&) { continue; }
    if (traces.empty()) continue;
    const bool expected = path.find("Primus") != std::string::npos || path.find("Straggler") != std::string::npos;
    CAPTURE(path);
    CHECK(is_pipelined(traces) == expected);
    ++(expected ? pipelined : others);
  }
  CHECK(pipelined >= 10);
  CHECK(others >= 50);
}
