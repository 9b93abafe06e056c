// RecordedJob: shipped and public traces as they were recorded, and on other clusters.
#include <stepcast/baseline/recorded_job.hpp>
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/prediction/recommend.hpp>
#include <stepcast/replay/edits/recorded_transfers.hpp>
#include <stepcast/schedule/schedule.hpp>

#include "helpers/plan_cases.hpp"
#include "helpers/random_input.hpp"
#include "helpers/replay_graph.hpp"
#include "helpers/shared_data.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace stepcast {
namespace {

std::filesystem::path shipped(const std::string& name) {
  return std::filesystem::path(STEPCAST_SOURCE_DIR) / "profiles" / "examples" / (name + ".pt.trace.json.gz");
}

/// The step of the replay's own graph with each of its collectives `factor` times as long.
Picoseconds scheduled(const Trace& trace, double factor) {
  const auto calibration = replaying::calibration_of(trace);
  REQUIRE(static_cast<bool>(calibration));
  const RecordedTransfers transfers(TraceIndex(trace), (*calibration)->steps);
  TaskGraph graph = (*calibration)->taken_apart.graph;
  for (Task& task : graph.tasks)
    if ((task.kind == TaskKind::transfer || task.kind == TaskKind::kernel) && transfers.of(task.index) != nullptr)
      task.work = std::llround(static_cast<double>(task.work) * factor);
  return schedule(graph).period;
}

void check_blocks(const std::filesystem::path& path) {
  CAPTURE(path.string());
  const test::File file(path);
  const Trace trace = trace_of(file.source());
  const Answer<RecordedJob> job = recorded_job_of(std::span(&trace, 1));
  REQUIRE(static_cast<bool>(job));
  CHECK(is_whole(*job));
  const RecordedRank& rank = job->ranks.front();
  Seconds last;
  for (const double factor : {0.0, 1.0, 3.0}) {
    CAPTURE(factor);
    const Seconds step = rank.step(std::vector<double>(rank.collectives.size(), factor));
    // The scheduler takes steps for equal that differ by a nanosecond.
    CHECK(std::abs(picoseconds_of(step) - scheduled(trace, factor)) <= 1000);
    CHECK(step >= last);
    last = step;
  }
}

Cluster ethernet(std::int64_t workers, double gigabits) {
  return test::plain_cluster(workers, gigabits_per_second(gigabits));
}

}  // namespace

TEST_CASE("recorded job: its blocks are the graph of the replay, whatever its collectives take") {
  for (const char* name : {"gpt-cpu-ddp-rank0", "gpt-cpu-ddp-rank1"}) check_blocks(shipped(name));
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  for (const char* name :
       {"facebookresearch__HolisticTraceAnalysis/nccl_parser_config__nccl_data.json.gz",
        "facebookresearch__HolisticTraceAnalysis/trace_diff__control__control.json.gz",
        "facebookresearch__HolisticTraceAnalysis/df_index_resolver__df_index_resolver.json.gz",
        "facebookresearch__HolisticTraceAnalysis/timeline_analysis__sampled_rank-0.json.gz",
        "KellerJordan__modded-nanogpt/"
        "2025-10-31_AdamSyncGradientHook__modded-nanogpt-current-gpu-rank-00-chrome-trace.json.gz",
        "KellerJordan__modded-nanogpt/"
        "2025-10-31_AdamSyncGradientHook__modded-nanogpt-current-gpu-rank-00-chrome-trace.v2.json.gz",
        "pytorch__torchrec/sst_long_a2a_optimizer_2__26699.1698955629431054031.pt.trace.json.gz"})
    check_blocks(*folder / name);
}

TEST_CASE("recorded job: on another network its collectives take the time of that network, all else what it took") {
  std::vector<Trace> traces;
  for (const char* rank : {"gpt-cpu-ddp-rank0", "gpt-cpu-ddp-rank1"}) {
    const test::File file(shipped(rank));
    traces.push_back(trace_of(file.source()));
  }
  const Answer<RecordedJob> job = recorded_job_of(traces);
  REQUIRE(static_cast<bool>(job));
  CHECK(job->workers == 2);
  const auto step_on = [&](const Cluster& cluster) {
    const Answer<Prediction> p = job->on(cluster);
    REQUIRE(static_cast<bool>(p));
    CHECK(text_of(p->plan) == "recorded");
    CHECK(p->interval_low < p->iteration);
    CHECK(p->breakdown.exposed_communication >= Seconds(0));
    return p->iteration;
  };
  const Seconds slow = step_on(ethernet(2, 0.3)), same = step_on(ethernet(2, 1)), fast = step_on(ethernet(2, 100));
  CHECK(slow > 1.5 * same);
  CHECK(same.value() == doctest::Approx(job->step().value()).epsilon(0.1));  // recorded on links of 1 Gb/s
  CHECK(fast < 0.95 * same);
  // Alone nothing is sent, and nobody is waited for but for what the recording says of others' lateness.
  CHECK(step_on(ethernet(1, 1)) <= fast);
}

namespace {

RecordedJob job_of(const std::vector<std::filesystem::path>& paths, const Profile* profile = nullptr) {
  std::vector<Trace> traces;
  for (const std::filesystem::path& path : paths) {
    const test::File file(path);
    traces.push_back(trace_of(file.source()));
  }
  Answer<RecordedJob> job = recorded_job_of(traces, profile);
  REQUIRE(static_cast<bool>(job));
  return *std::move(job);
}

/// The traced machines with the links that the trace shows, these `by` times as fast.
Cluster own_machines(const RecordedJob& job, double by) {
  Cluster cluster = ethernet(job.workers, 1);
  if (job.inside) cluster.devices_per_node = job.workers, cluster.nodes = 1;
  const Link shown = job.inside ? *job.inside : *job.anywhere;
  cluster.inside = cluster.network = {shown.latency / by, shown.bandwidth * by};
  cluster.message_overhead = Seconds(0);
  return cluster;
}

void check_identity(const std::vector<std::filesystem::path>& paths) {
  CAPTURE(paths.front().string());
  const RecordedJob job = job_of(paths);
  const auto step = [&](double by) { return (*job.on(own_machines(job, by))).iteration; };
  CHECK(step(1).value() == doctest::Approx(job.step().value()).epsilon(1e-6));
  // Every transfer takes a third, or three times as long; what was waited for stays.
  const auto with_transfers = [&](double factor) {
    std::vector<std::vector<double>> factors;
    for (const RecordedRank& rank : job.ranks) {
      factors.emplace_back();
      for (const RecordedCollective& c : rank.collectives)
        factors.back().push_back((c.late - job.told_by(c) + (c.duration - c.late) * factor) / c.duration);
    }
    return job.step(factors);
  };
  if (job.ranks.size() == 1) return;  // of which nobody knows what was waited for
  for (const double by : {1.0 / 3, 3.0})
    CHECK(step(by).value() == doctest::Approx(with_transfers(1 / by).value()).epsilon(1e-6));
}

}  // namespace

TEST_CASE("recorded job: on the links that its trace shows it takes what it was recorded to take") {
  for (const char* job : {"gpt-cpu-ddp", "gpt-cpu-fsdp2"})
    check_identity({shipped(job + std::string("-rank0")), shipped(job + std::string("-rank1"))});
  if (const auto folder = test::shared_folder("lab"))
    check_identity({*folder / "traces/tfm4x256_w2_tp_1000mbit_rank0.json.gz",
                    *folder / "traces/tfm4x256_w2_tp_1000mbit_rank1.json.gz"});
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  for (const char* name :
       {"facebookresearch__HolisticTraceAnalysis/trace_diff__control__control.json.gz",
        "KellerJordan__modded-nanogpt/"
        "2025-10-31_AdamSyncGradientHook__modded-nanogpt-current-gpu-rank-00-chrome-trace.v2.json.gz"}) {
    const RecordedJob job = job_of({*folder / name});
    CHECK(job.inside);
    check_identity({*folder / name});
  }
}

TEST_CASE("recorded job: ranks that meet wait for one another as far as the network leaves anything to wait for") {
  RecordedJob job = job_of({shipped("gpt-cpu-fsdp2-rank0"), shipped("gpt-cpu-fsdp2-rank1")});
  REQUIRE(job.in_lockstep);
  RecordedJob apart = job;
  apart.in_lockstep = false;
  const auto step = [](const RecordedJob& j, double gigabits) { return (*j.on(ethernet(2, gigabits))).iteration; };
  CHECK(step(job, 0.1) < step(apart, 0.1));  // lateness in a queue of messages costs nothing
  // One rank that computes longer holds up both.
  RecordedJob later = job;
  for (StepBlocks::Term& term : later.ranks[1].blocks.terms) term.after += 1'000'000;
  CHECK(step(later, 1) > step(job, 1));
  REQUIRE(is_whole(job));
  later.ranks[0].collectives[0].meeting = 1'000'000;
  CHECK_FALSE(is_whole(later));
  // Two threads of gloo take messages of single gradients in another order on either rank: most of them meet.
  const auto lab = test::shared_folder("lab");
  if (!lab) return;
  const RecordedJob crosswise = job_of({*lab / "traces/resnet18_w2_wfbp_1000mbit_rank0.json.gz",
                                        *lab / "traces/resnet18_w2_wfbp_1000mbit_rank1.json.gz"});
  CHECK(crosswise.in_lockstep);
  const std::vector<RecordedCollective>& all = crosswise.ranks[0].collectives;
  const auto apart_from_others = std::ranges::count(all, no_meeting, &RecordedCollective::meeting);
  CHECK(apart_from_others > 0);
  CHECK(5 * apart_from_others < std::ssize(all));
}

TEST_CASE("recorded job: one worker alone sends nothing and waits for nobody") {
  const RecordedJob job = job_of({shipped("gpt-cpu-ddp-rank0"), shipped("gpt-cpu-ddp-rank1")});
  const Answer<Prediction> alone = job.on(ethernet(1, 1));
  REQUIRE(alone);
  CHECK(alone->breakdown.exposed_communication == Seconds(0));
  CHECK(alone->breakdown.hidden_communication == Seconds(0));
  CHECK(alone->iteration < job.step());
}

TEST_CASE("recorded job: gathers and scatters of FSDP are in its graph, by their roles") {
  const test::File first(shipped("gpt-cpu-fsdp2-rank0")), second(shipped("gpt-cpu-fsdp2-rank1"));
  const Documents documents = documents_of(std::vector{first.source(), second.source()});
  const Profile profile = profile_of(documents, {});
  const SelfCheck check = recorded_check_of(documents, profile, "recorded");
  REQUIRE(check.recorded);
  for (const RecordedRank& rank : check.recorded->ranks) {
    const auto count = [&](CollectiveRole role) {
      return std::ranges::count(rank.collectives, role, &RecordedCollective::role);
    };
    CHECK(count(CollectiveRole::parameter_gather_forward) == 9);
    CHECK(count(CollectiveRole::parameter_gather_backward) == 9);
    CHECK(count(CollectiveRole::gradient_scatter) == 9);
  }
  // The traced plan may be asked, elsewhere too; of others the recorded step knows nothing.
  const auto step_on = [&](double gigabits) {
    const PreparedQuestion question({.profile = profile, .cluster = ethernet(2, gigabits)});
    const Answer<Prediction> there = checked_answer(check, question, plan_of("fsdp"));
    REQUIRE(static_cast<bool>(there));
    CHECK(there->of_recorded_step);
    CHECK(text_of(there->plan) == "layout(zero=3)/ddp");
    return there->iteration;
  };
  CHECK(step_on(0.3) > 1.5 * step_on(1));
  CHECK(step_on(10) < 0.8 * step_on(1));
  const PreparedQuestion question({.profile = profile, .cluster = ethernet(2, 1)});
  CHECK(checked_answer(check, question, plan_of("ddp")).reason().find("traced plan, 'layout(zero=3)/ddp'") !=
        std::string::npos);
  CHECK_FALSE(check.recorded_model(question)(profile, question.cluster(), plan_spec_of("wfbp")));
  RecommendOptions options;
  rank_over_what_runs(options, check, question);
  const Ranking ranking = recommended(profile, question.cluster(), options);
  REQUIRE(ranking.exact.size() == 1);  // nothing is said of others by the model of layers
  CHECK(check.is_recorded(ranking.exact.front().prediction.plan));
}

TEST_CASE("recorded job: groups of data parallelism grow with the workers, those within a layer do not") {
  RecordedJob job = job_of({shipped("gpt-cpu-fsdp2-rank0"), shipped("gpt-cpu-fsdp2-rank1")});
  const auto step_on = [&](CollectiveRole role, std::int64_t workers) {
    RecordedJob half = job;
    half.workers = 4;  // as if each group was one of two
    for (RecordedRank& rank : half.ranks)
      for (RecordedCollective& c : rank.collectives) c.group_size = 2, c.role = role;
    return (*half.on(ethernet(workers, 1))).iteration;
  };
  CHECK(step_on(CollectiveRole::within_layer, 16) == step_on(CollectiveRole::within_layer, 4));
  CHECK(step_on(CollectiveRole::gradient_scatter, 4) == step_on(CollectiveRole::within_layer, 4));
  CHECK(step_on(CollectiveRole::gradient_scatter, 16) > 1.2 * step_on(CollectiveRole::gradient_scatter, 4));
}

TEST_CASE("recorded job: where no plan stands for a job it is ranked alone, unless all plans are asked for") {
  const test::File file(shipped("gpt-cpu-ddp-rank0"));
  const Documents documents = documents_of(std::vector{file.source()});
  const Profile profile = profile_of(documents, {});
  SelfCheck check = self_check_of(documents, profile);
  CHECK_FALSE(check.recorded);  // a plan stands for it
  check.as_traced->plan = "recorded", check.as_traced->left_out = "its all-to-alls";
  check.recorded = *recorded_job_of(documents.traces);
  check.recorded->work = fingerprint_of(profile);
  CHECK(check.traced_plan() == "recorded");
  const Cluster cluster = ethernet(2, 1);
  const PreparedQuestion question({.profile = profile, .cluster = cluster});
  // Layouts keep what the recorded step has beside the layers, and differ as the layers say; asked twice it is the
  // same.
  const auto step = [](const Answer<Prediction>& answer) { return (*answer).iteration.value(); };
  const double more = step(check.recorded->on(cluster)) - step(question.answer(plan_of("layout()/ddp")));
  REQUIRE(more > 0);
  for (const char* text : {"layout()/ddp", "layout(zero=1)/ddp", "layout(zero=3)/ddp"}) {
    const double layers = step(question.answer(plan_of(text)));
    CHECK(step(checked_answer(check, question, plan_of(text))) == doctest::Approx(layers + more));
    const PreparedQuestion twice = with_recorded_rest(check, with_recorded_rest(check, question));
    CHECK(step(twice.answer(plan_of(text))) == doctest::Approx(layers + more));
    CHECK(step(twice.on(cluster).answer(plan_of(text))) == doctest::Approx(layers));
  }
  RecommendOptions options;
  rank_over_what_runs(options, check, question);
  REQUIRE(options.baseline);
  CHECK(check.is_recorded(options.baseline->plan));
  const Ranking alone = recommended(profile, cluster, options);
  REQUIRE(alone.exact.size() == 1);
  CHECK(check.is_recorded(alone.exact.front().prediction.plan));
  REQUIRE(alone.inapplicable.size() == 1);
  CHECK(alone.inapplicable.front().reason.starts_with(check.as_traced->left_out + "; "));
  RecommendOptions all{.by_step = true};
  rank_over_what_runs(all, check, question, PlansOfAnotherJob::ranked);
  CHECK_FALSE(all.baseline);  // nothing is compared with another job
  CHECK(recommended(profile, cluster, all).exact.size() > 5);
  // Where the sizes of its gradients are known their messages are exchanged in the recorded step.
  check.recorded = *recorded_job_of(documents.traces, &profile);
  check.recorded->work = fingerprint_of(profile);
  REQUIRE(check.exchanges(question));
  RecommendOptions exchanging;
  rank_over_what_runs(exchanging, check, question);
  const Ranking exchanged = recommended(profile, cluster, exchanging);
  CHECK(exchanged.exact.size() > 3);
  CHECK_FALSE(exchanged.holds);
  for (const RankedPlan& plan : exchanged.exact)
    CHECK(plan.prediction.of_recorded_step != check.is_recorded(plan.prediction.plan));
  CHECK(check.caution() != "");
  CHECK(check.for_recorded_step().caution() == "");
  const Answer<Prediction> ddp = checked_answer(check, question, plan_of("ddp"));
  const Answer<Prediction> dear = checked_answer(check, question, plan_of("dear"));
  REQUIRE(ddp);
  CHECK(ddp->of_recorded_step);
  CHECK_FALSE(dear);  // it does more than that
  // A job that is changed is no longer the one that was recorded.
  CHECK_FALSE(check.in_use(PreparedQuestion({.profile = profile, .cluster = cluster, .changes = scenario_of("amp")})));
}

}  // namespace stepcast
