// Self-check: what the ranks of a run say together, with a replay of each and without; how their model is called.
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/report/report.hpp>

#include "helpers/ranks_run.hpp"
#include "helpers/shared_data.hpp"

#include <nlohmann/json.hpp>

#include <doctest/doctest.h>

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
