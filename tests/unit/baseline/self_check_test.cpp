// Self-check: what the ranks of a run say together, with a replay of each and without; how their model is called.
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/prediction/recommend.hpp>
#include <stepcast/report/report.hpp>

#include "helpers/plan_cases.hpp"
#include "helpers/ranks_run.hpp"
#include "helpers/shared_data.hpp"

#include <nlohmann/json.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string>

namespace stepcast {
namespace {

nlohmann::json json_of_check(Documents documents) {
  std::ostringstream out;
  report_named("json")->replay(out, self_check_of(documents));
  return nlohmann::json::parse(out.str());
}

TEST_CASE("self-check: JSON names the straggler of a run whose steps are annotated, and of one without steps") {
  Documents documents;
  documents.traces = test::traces_of({.late_rank = 2, .late_us = 5000});
  nlohmann::json json = json_of_check(documents);
  CHECK(json["schema"] == "stepcast.replay/1");
  CHECK(json["ranks"].size() == 4);
  CHECK(json["together"]["lateness"].get<std::string>().starts_with("rank 2 is late by 5."));
  for (Trace& trace : documents.traces)
    trace = test::without(std::move(trace), [](const Event& e) { return e.kind == EventKind::annotation; });
  json = json_of_check(documents);
  CHECK(json["schema"] == "stepcast.inapplicable/1");
  CHECK(json["reason"].get<std::string>().find("no annotated steps") != std::string::npos);
  CHECK(json["together"]["ranks"].size() == 4);
  CHECK(json["together"]["lateness"].get<std::string>().starts_with("rank 2 is late by "));
}

TEST_CASE("self-check: where the recorded step tells another answer, the interval holds both") {
  Documents documents;
  for (const char* rank : {"0", "1"}) {
    const std::string name = "profiles/examples/gpt-cpu-ddp-rank" + std::string(rank) + ".pt.trace.json.gz";
    documents.traces.push_back(trace_of(test::File(std::filesystem::path(STEPCAST_SOURCE_DIR) / name).source()));
  }
  const Profile profile = profile_of(documents, ProfileOptions{});
  const SelfCheck check = self_check_of(documents, profile);
  REQUIRE(check.beside);
  CHECK(!check.recorded);
  SelfCheck alone = check;
  alone.beside.reset();
  const PreparedQuestion question(Question{.profile = profile, .cluster = cluster_of_flags(4, 1, "10GbE")});
  const auto doubts = [](const Prediction& p) {
    return std::ranges::count_if(
        p.warnings, [](const std::string& w) { return w.find("the recorded step with these messages") == 0; });
  };
  bool apart = false, agreed = false;
  for (const char* plan : {"ddp", "wfbp", "bsp", "ddp(bucket=1 MiB)"}) {
    CAPTURE(plan);
    const Prediction heard = *checked_answer(check, question, plan_of(plan));
    const Prediction one = *checked_answer(alone, question, plan_of(plan));
    CHECK(heard.iteration == one.iteration);
    CHECK(doubts(one) == 0);
    const Seconds there = check.beside->with(plan_of(plan).strategy, profile, question.cluster())->iteration *
                          (check.as_traced->measured / check.beside->step());
    const bool differ = std::abs(there / one.iteration - 1) > AsTraced::telling_error;
    CHECK(doubts(heard) == differ);
    CHECK(heard.interval_low == (differ ? std::min(one.interval_low, there) : one.interval_low));
    CHECK(heard.interval_high == (differ ? std::max(one.interval_high, there) : one.interval_high));
    (differ ? apart : agreed) = true;
  }
  CHECK(apart);
  CHECK(agreed);
  // On a host other messages are less known than those that ran, and state that is divided less than these.
  const auto width = [](const Prediction& p) { return (p.interval_high - p.interval_low) / p.iteration; };
  const auto widened = [&](const std::string& plan) {
    const Plan asked = plan_of(plan);
    return width(*checked_answer(alone, question, asked)) - width(*question.answer(asked));
  };
  CHECK(widened(text_of(*check.as_traced->as_plan())) == 0);
  CHECK(widened("wfbp") > 0);
  CHECK(widened("layout(zero=3)/ddp") > widened("wfbp"));
  const Prediction divided = *checked_answer(alone, question, plan_of("layout(zero=3)/ddp"));
  REQUIRE(divided.layout);
  CHECK(divided.layout->interval_high == divided.interval_high);
  // A ranking hears it of each of its plans.
  RecommendOptions options;
  options.tune = options.sensitivity = false;
  for (const char* plan : {"ddp", "wfbp", "bsp"}) options.plans.push_back(plan_spec_of(plan));
  rank_over_what_runs(options, check, question);
  for (const RankedPlan& ranked : recommended(profile, question.cluster(), options).exact) {
    const Prediction asked = *checked_answer(check, question, plan_of(text_of(ranked.prediction.plan)));
    CHECK(ranked.prediction.interval_low == asked.interval_low);
    CHECK(ranked.prediction.interval_high == asked.interval_high);
    CHECK(doubts(ranked.prediction) == doubts(asked));
  }
  // Of a job that was changed nothing is recorded.
  Profile faster = profile;
  faster.optimizer.host *= 0.5;
  const PreparedQuestion other(Question{.profile = faster, .cluster = cluster_of_flags(4, 1, "10GbE")});
  CHECK(doubts(*checked_answer(check, other, plan_of("wfbp"))) == 0);
}

TEST_CASE("documents: a model without a name is called like the file of the rank that stands for all") {
  const std::filesystem::path example = "profiles/examples/transformer-cpu-1-worker.pt.trace.json.gz";
  const test::File file(std::filesystem::path(STEPCAST_SOURCE_DIR) / example);
  Documents documents;
  documents.traces.push_back(trace_of(file.source()));
  documents.traces.push_back(test::shifted(documents.traces.front(), 1'000'000));
  documents.traces[0].source = "runs/first.pt.trace.json.gz", documents.traces[1].source = "runs/second.pt.trace.json";
  documents.traces[1].rank = 1;
  CHECK(profile_of(documents, ProfileOptions{}).model == "second");  // of two equal ones
  documents.traces.pop_back();
  CHECK(profile_of(documents, ProfileOptions{}).model == "first");
}

}  // namespace
}  // namespace stepcast
