// Inspection: lines that fit the page, JSON that says the same, refusals that are not lost.
#include <stepcast/documents/inspection.hpp>
#include <stepcast/report/report.hpp>

#include "helpers/hand_trace.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <sstream>
#include <string>

namespace stepcast {
namespace {

Inspection example() {
  test::HandTrace hand;
  for (int i = 0; i < 3; ++i) {
    hand.shift(1000.0 * i);
    hand.step(i + 5, 0, 900);
    hand.kernel(0, 10, 20, 7, "sgemm", 100, 300);
    hand.kernel(0, 30, 40, 8, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 200, 400);
  }
  Reading reading;
  reading.traces.push_back(hand.trace());
  Trace& trace = reading.traces.front();
  trace.source = "runs/a/folder/rank-3-of-a-run-whose-name-goes-on-and-on-and-on-and-on-until-it-ends.json.gz";
  trace.report.format = "kineto";
  trace.report.producer = "PyTorch Kineto >= 2.4 (relative ns times), CUDA runtime 12.6";
  trace.report.missing = {"input shapes"};
  trace.rank = 3;
  trace.world_size = 128;
  trace.dependencies.push_back({0, 1, DependencyKind::host_wait});
  ExecutionTrace execution;
  execution.source = "et.json";
  execution.schema = "1.1.1-chakra.0.0.4";
  execution.nodes.resize(7);
  reading.executions.push_back(execution);
  reading.refused = {"archive.tar/notes.txt: expected a profiler trace, found text"};
  Inspection inspection;
  inspection.files.push_back(inspected("archive.tar", reading));
  return inspection;
}

std::string text_of_inspection(const Inspection& inspection, std::string_view report) {
  std::ostringstream out;
  report_named(report)->inspection(out, inspection);
  return out.str();
}

TEST_CASE("long names lose their middle, and no character is cut in two") {
  CHECK(shortened("short", 5) == "short");
  CHECK(shortened("a-longer-name.json", 11) == "a-lo...json");
  CHECK(shortened("a-longer-name.json", 2) == "a-");
  CHECK(shortened("\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 8) == "\xc3\xa4...\xc3\xa4");
  for (std::size_t width = 4; width < 30; ++width)
    CHECK(shortened("0123456789012345678901234567890123456789", width).size() == width);
}

TEST_CASE("the figures of every trace fit 80 columns, its name stands whole behind them, and all is said") {
  Inspection inspection = example();
  for (const bool in_full : {false, true}) {
    CAPTURE(in_full);
    inspection.in_full = in_full;
    const std::string text = text_of_inspection(inspection, "text");
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      if (!in_full) CHECK_MESSAGE((line.size() <= 80 || line.rfind("  ") < 80), line);
    CHECK(text.find("rank-3-of-a-run-whose-name-goes-on-and-on-and-on-and-on-until-it-ends.json.gz") !=
          std::string::npos);
    CHECK(text.find("3/128") != std::string::npos);
    CHECK(text.find("Kineto >= 2.4") != std::string::npos);
    CHECK(text.find("1.1.1-chakra.0.0.4") != std::string::npos);
    CHECK(text.find("refused") != std::string::npos);
    CHECK(text.find("notes.txt") != std::string::npos);
    CHECK((text.find("input shapes") != std::string::npos) == in_full);
    CHECK((text.find("3 of unknown size") != std::string::npos) == in_full);
    CHECK((text.find("1 host waits") != std::string::npos) == in_full);
  }
  CHECK(!inspection.all_read());
}

TEST_CASE("the JSON holds the numbers of the text, and null for what is not known") {
  const auto json = nlohmann::json::parse(text_of_inspection(example(), "json"));
  CHECK(json["schema"] == "stepcast.inspect/1");
  const auto& file = json["files"][0];
  CHECK(file["file"] == "archive.tar");
  CHECK(file["refused"].size() == 1);
  CHECK(file["execution_traces"][0]["operators"] == 7);
  const auto& trace = file["traces"][0];
  CHECK(trace["steps"] == 3);
  CHECK(trace["first_step"] == 5);
  CHECK(trace["step_s"].get<double>() == doctest::Approx(900e-6));
  CHECK(trace["device_period_s"].get<double>() == doctest::Approx(1000e-6));
  CHECK(trace["device"].is_null());
  CHECK(trace["collectives"]["count"] == 3);
  CHECK(trace["collectives"]["exposed_s"].get<double>() == doctest::Approx(300e-6));
  CHECK(trace["collectives"]["size_sources"]["unknown"]["size_bytes"].is_null());
  CHECK(trace["dependencies"]["host_wait"] == 1);
  CHECK(trace["report"]["missing"][0] == "input shapes");
}

TEST_CASE("exposed time that is not known is no number") {
  Inspection inspection = example();
  inspection.in_full = true;
  inspection.files[0].traces[0].summary.exposed = Seconds(-1);
  const auto json = nlohmann::json::parse(text_of_inspection(inspection, "json"));
  CHECK(json["files"][0]["traces"][0]["collectives"]["exposed_s"].is_null());
  CHECK(text_of_inspection(inspection, "text").find("is not recorded") != std::string::npos);
}

TEST_CASE("kernels that take no time have no share of it") {
  Inspection inspection = example();
  inspection.in_full = true;
  TraceSummary& summary = inspection.files[0].traces[0].summary;
  summary.unclassified_kernels = 2;
  summary.kernel_time = summary.unclassified_kernel_time = Seconds(0);
  const std::string text = text_of_inspection(inspection, "text");
  CHECK(text.find("2 (0 % of the time) do what") != std::string::npos);
  CHECK(text.find("nan") == std::string::npos);
}

TEST_CASE("a share is never rounded to nothing") {
  CHECK(share_text(0) == "0 %");
  CHECK(share_text(1e-9) == "<0.1 %");
  CHECK(share_text(0.25) == "25.0 %");
}

}  // namespace
}  // namespace stepcast
