// Validation: cases that must fail do, statistics by hand, and documents that are refused; then the shipped suites.
#include <stepcast/base/statistics.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/page/validation_html.hpp>
#include <stepcast/parallelism/layout_prediction.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/report/validation_report.hpp>
#include <stepcast/validation/validation.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string>

using namespace stepcast;
using doctest::Approx;

namespace {

// One layer, 1 s forward and 1 s backward, 1 GB of gradients; two machines on 1 GB/s: bsp takes 2 + 1 = 3 s.
const char* const own_inputs = R"("profiles": {"tiny": {"schema": "stepcast.profile/1", "model": "tiny",
    "layers": [{"name": "l", "forward": {"host_s": 1}, "backward": {"host_s": 1}}],
    "tensors": [{"name": "t", "size_bytes": 1000000000, "layer": "l"}]}},
  "clusters": {"pair": {"schema": "stepcast.cluster/1", "name": "pair", "nodes": 2, "devices_per_node": 1,
    "inside": {"latency": "0 s", "bandwidth": "1 GB/s"}, "network": {"latency": "0 s", "bandwidth": "1 GB/s"},
    "all_reduce": "ring", "provenance": ["made up"]}},)";

std::string document(const std::string& cases, const std::string& defaults = "") {
  return R"({"schema": "stepcast.cases/1", "suite": "made up", "defaults": {"source": "nowhere", "grade": "made up",
    "tolerance": 0.1, "split": "held_out", "inputs": {"profile": "tiny", "cluster": "pair", "plan": "bsp"})" +
         defaults + "}," + own_inputs + "\"cases\": [" + cases + "]}";
}

SuiteResult run(const std::string& text) { return validated({suite_of_json(text, "test")}, {}).at(0); }

CaseResult result_of(const std::string& one_case) { return run(document(one_case)).results.at(0); }

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(suite_of_json(text, "test"));
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("verdicts: tolerance, the ratchet and its slack") {
  const CaseResult right = result_of(R"({"id": "a", "measured_s": 3})");
  CHECK(right.outcome == Outcome::passed);
  CHECK(right.predicted == Approx(3).epsilon(1e-9));
  CHECK(right.error == Approx(0).epsilon(1e-9));
  // Off by +20 %, of which 10 % are allowed.
  const CaseResult wrong = result_of(R"({"id": "a", "measured_s": 2.5})");
  CHECK(wrong.outcome == Outcome::failed);
  CHECK(wrong.error == Approx(0.2));
  CHECK(contains(wrong.reason, "20.0 %"));
  CHECK(contains(wrong.reason, "tolerance 10.0 %"));
  CHECK(result_of(R"({"id": "a", "measured_s": 3.6})").outcome == Outcome::failed);  // -16.7 %
  // Off by -4.76 %: within the tolerance, but worse than recorded unless the record is within 0.2 points.
  const auto with_record = [](const char* record) {
    return result_of(std::string(R"({"id": "a", "measured_s": 3.15, "recorded_error": )") + record + "}");
  };
  CHECK(with_record("0.0450").outcome == Outcome::failed);
  CHECK(contains(with_record("0.0450").reason, "recorded 4.5 %"));
  CHECK(with_record("-0.0450").outcome == Outcome::failed);
  CHECK(with_record("0.0460").outcome == Outcome::passed);  // the sign may change
  CHECK(with_record("-0.0460").outcome == Outcome::passed);
  CHECK(with_record("0").outcome == Outcome::failed);
}

TEST_CASE("verdicts: an error that is not a number fails") {
  ValidationCase c;
  c.tolerance = 1e300;
  CaseResult r;
  r.predicted_any = true;
  r.predicted = NAN;
  r.measured = 1;
  judge(c, r);
  CHECK(r.outcome == Outcome::failed);
}

TEST_CASE("verdicts: no prediction fails, no file skips, excluded does neither") {
  const CaseResult misspelt = result_of(R"({"id": "a", "inputs": {"profile": "tinny"}, "measured_s": 3})");
  CHECK(misspelt.outcome == Outcome::failed);
  CHECK(contains(misspelt.reason, "no prediction: profile: expected a known name"));
  CHECK(result_of(R"({"id": "a", "inputs": {"plan": "bsp@table"}, "measured_s": 3})").outcome == Outcome::failed);
  // A number that must not be used is predicted all the same.
  const CaseResult excluded = result_of(R"({"id": "a", "measured_s": 99, "excluded": "a typing error"})");
  CHECK(excluded.outcome == Outcome::excluded);
  CHECK(excluded.error == Approx(3.0 / 99 - 1));
  const CaseResult absent = result_of(R"({"id": "a", "inputs": {"profile": "no/such.json"}, "measured_s": 3})");
  CHECK(absent.outcome == Outcome::skipped);
  CHECK(absent.reason == "no file no/such.json");
  const SuiteStatistics s = run(document(R"({"id": "a", "measured_s": 99, "excluded": "a typing error"},
      {"id": "b", "inputs": {"profile": "no/such.json"}, "measured_s": 3}, {"id": "c", "measured_s": 3},
      {"id": "d", "measured_s": 9})"))
                                .statistics;
  CHECK(s.cases == 4);
  CHECK(s.excluded == 1);
  CHECK(s.skipped == 1);
  CHECK(s.passed == 1);
  CHECK(s.failed == 1);
  CHECK(s.held_out == 2);
}

TEST_CASE("inputs: scaled profiles, an update of its own, ratios, and files") {
  CHECK(result_of(R"({"id": "a", "inputs": {"single_worker_s": 4}, "measured_s": 5})").error == Approx(0));
  CHECK(result_of(R"({"id": "a", "inputs": {"single_worker_s": 4, "extra_optimizer_s": 0.5}, "measured_s": 5.5})")
            .error == Approx(0));
  // Two layers would overlap; with one, WFBP waits for the whole backward pass as BSP does.
  CHECK(result_of(R"({"id": "a", "inputs": {"over": "wfbp"}, "measured_ratio": 1})").error == Approx(0));
  const std::string profile = R"({"schema": "stepcast.profile/1", "layers": [{"name": "l", "forward": {"host_s": 6}}],
    "tensors": [{"name": "t", "size_bytes": 1000000000, "layer": "l"}]})";
  ValidationOptions options;
  options.file = [&](const std::string& path) { return path == "here/p.json" ? std::optional(profile) : std::nullopt; };
  const auto suite =
      suite_of_json(document(R"({"id": "a", "inputs": {"profile": "here/p.json"}, "measured_s": 7})"), "test");
  CHECK(validated({suite}, options).at(0).results.at(0).outcome == Outcome::passed);
}

TEST_CASE("operations: one transfer by one collective algorithm, without a profile") {
  const auto operation = [](const std::string& inputs, const char* measured) {
    return R"({"schema": "stepcast.cases/1", "suite": "made up", "defaults": {"source": "nowhere", "grade": "made up",
      "tolerance": 1e-9, "split": "held_out"},)" +
           std::string(own_inputs) + R"("cases": [{"id": "a", "inputs": {"cluster": "pair", )" + inputs +
           R"(}, "measured_s": )" + measured + "}]}";
  };
  const auto result = [&](const std::string& inputs, const char* measured) {
    return run(operation(inputs, measured)).results.at(0);
  };
  // 1 GB to one other on 1 GB/s: half of it is exchanged, all of it is broadcast.
  CHECK(result(R"("operation": "all_to_all@pairwise", "size_bytes": 1e9)", "0.5").outcome == Outcome::passed);
  CHECK(result(R"("operation": "broadcast@binary_tree", "size_bytes": 1e9)", "1").outcome == Outcome::passed);
  CHECK(result(R"("operation": "broadcast@binary_tree", "size_bytes": 1e9)", "1.01").outcome == Outcome::failed);
  CHECK(result(R"("operation": "all_reduce", "size_bytes": 1e9)", "1").outcome ==
        Outcome::passed);  // the cluster's ring
  CHECK(contains(result(R"("operation": "all_reduce@bruck", "size_bytes": 1e9)", "1").reason,
                 "bruck does not define all_reduce"));
  CHECK(contains(result(R"("operation": "all_reduce@brook", "size_bytes": 1e9)", "1").reason, "'brook'"));
  CHECK(contains(refusal(operation(R"("operation": "broadkast@chain", "size_bytes": 1)", "1")),
                 "did you mean 'broadcast'?"));
  CHECK(contains(refusal(operation(R"("operation": "broadcast@chain")", "1")), "size_bytes"));
  CHECK(contains(refusal(operation(R"("operation": "broadcast", "size_bytes": 1, "plan": "bsp")", "1")),
                 "more than one of them"));
  // Of links that are known by name alone the interval is that of the algorithm at the size, of others their error's.
  std::string named = operation(R"("operation": "all_reduce", "size_bytes": 1e9)", "1");
  const CaseResult exact = run(named).results.at(0);
  CHECK(exact.low == exact.high);
  const std::string ring = R"("all_reduce": "ring")";
  REQUIRE(contains(named, ring.c_str()));
  named.replace(named.find(ring), ring.size(), R"("all_reduce": "nccl")");
  const CaseResult nominal = run(named).results.at(0);
  CHECK(nominal.high / nominal.predicted == Approx(1.4));
  CHECK(nominal.predicted / nominal.low == Approx(1.4));
}

TEST_CASE("quantiles: linear between order statistics") {
  CHECK(quantile({}, 0.5) == 0);
  CHECK(quantile({7}, 0.9) == 7);
  CHECK(quantile({4, 1, 3, 2}, 0.5) == Approx(2.5));
  CHECK(quantile({4, 1, 3, 2}, 0) == 1);
  CHECK(quantile({4, 1, 3, 2}, 1) == 4);
  CHECK(quantile({0, 10}, 0.9) == Approx(9));
  CHECK(quantile({5, 9, 1, 8, 3}, 0.6) == Approx(6.2));
  CHECK(median({3, 1, 2}) == 2);
}

namespace {

/// A suite of step cases and results as given, without any prediction.
struct Row {
  const char *cluster, *plan;
  double measured, predicted;
  CaseSplit split = CaseSplit::held_out;
};
SuiteStatistics statistics_of_rows(const std::vector<Row>& rows, double half_interval = 0) {
  ValidationSuite suite;
  std::vector<CaseResult> results;
  for (const Row& row : rows) {
    ValidationCase& c = suite.cases.emplace_back();
    c.id = std::to_string(suite.cases.size());
    c.inputs.cluster = row.cluster;
    c.inputs.plan = plan_spec_of(row.plan);
    c.method = row.plan;
    c.measured = row.measured;
    c.tolerance = 10;
    c.split = row.split;
    CaseResult& r = results.emplace_back();
    r.predicted_any = true;
    r.predicted = row.predicted;
    r.measured = row.measured;
    r.low = row.predicted - half_interval;
    r.high = row.predicted + half_interval;
    judge(c, r);
  }
  return statistics_of(suite, results);
}

}  // namespace

TEST_CASE("statistics: errors and coverage of the held-out cases only") {
  const SuiteStatistics s = statistics_of_rows({{"a", "bsp", 100, 110},
                                                {"b", "bsp", 100, 80},
                                                {"c", "bsp", 100, 100},
                                                {"d", "bsp", 100, 300, CaseSplit::calibration}},
                                               15);
  CHECK(s.held_out == 3);
  CHECK(s.median == Approx(0.1));
  CHECK(s.p90 == Approx(0.18));  // between 0.1 and 0.2
  CHECK(s.worst == Approx(0.2));
  CHECK(s.mean == Approx(0.1));
  CHECK(s.with_interval == 3);
  CHECK(s.inside == 2);
  CHECK(statistics_of_rows({{"a", "bsp", 100, 100}}).with_interval == 0);
}

TEST_CASE("statistics: rank correlation and clear pairs within a group") {
  // Measured order bsp < wfbp < ddp; predicted bsp < ddp < wfbp. wfbp and ddp are 4 % apart.
  const SuiteStatistics s =
      statistics_of_rows({{"a", "bsp", 100, 1}, {"a", "wfbp", 110, 3}, {"a", "ddp", 114.4, 2}, {"b", "ddp", 1, 9}});
  CHECK(s.pairs == 3);
  CHECK(s.kendall == Approx((2 - 1) / 3.0));
  CHECK(s.clear_pairs == 2);
  CHECK(s.clear_pairs_right == 2);
  // A tie in the prediction orders nothing; a pair of two calibration cases says nothing.
  const SuiteStatistics tie = statistics_of_rows({{"a", "bsp", 100, 1}, {"a", "wfbp", 200, 1}});
  CHECK(tie.kendall == 0);
  CHECK(tie.clear_pairs == 1);
  CHECK(tie.clear_pairs_right == 0);
  CHECK(statistics_of_rows({{"a", "bsp", 1, 1, CaseSplit::calibration}, {"a", "wfbp", 2, 2, CaseSplit::calibration}})
            .pairs == 0);
}

TEST_CASE("statistics: regret of the choice beside the best constant answer; servers apart") {
  const SuiteStatistics s = statistics_of_rows({{"a", "bsp", 100, 1},  // chosen, and best
                                                {"a", "wfbp", 150, 2},
                                                {"b", "bsp", 130, 1},  // chosen; wfbp is best
                                                {"b", "wfbp", 100, 2},
                                                {"a", "bsp_ps", 50, 5},
                                                {"a", "wfbp_ps", 40, 5}});  // a tie: either
  REQUIRE(s.regrets.size() == 2);
  const Regret& choice = s.regrets[0];
  CHECK(choice.among == "all-reduce");
  CHECK(choice.groups == 2);
  CHECK(choice.mean == Approx(0.15));
  CHECK(choice.p90 == Approx(0.27));
  CHECK(choice.worst == Approx(0.3));
  CHECK(choice.constant == "bsp");
  CHECK(choice.constant_mean == Approx(0.15));
  CHECK(s.regrets[1].among == "servers");
  CHECK(s.regrets[1].mean == Approx(45.0 / 40 - 1));
  CHECK(s.regrets[1].constant == "wfbp_ps");
  CHECK(s.regrets[1].constant_mean == 0);
}

TEST_CASE("documents: what is wrong is refused by its place") {
  const std::string good = R"({"id": "a", "measured_s": 3})";
  CHECK(refusal(document(good)) == "accepted");
  CHECK(contains(refusal("{"), "a JSON document"));
  CHECK(contains(refusal("[]"), "an object"));
  CHECK(contains(refusal(R"({"schema": "stepcast.cases/2"})"), "/schema"));
  CHECK(contains(refusal(document("")), "/cases"));
  CHECK(contains(refusal(document("3")), "/cases/0"));
  CHECK(contains(refusal(document(good + "," + good)), "'a' twice"));
  CHECK(contains(refusal(document(R"({"id": "a", "measured_s": 3, "tolerence": 1})")), "did you mean 'tolerance'?"));
  CHECK(contains(refusal(document(R"({"id": "a", "inputs": {"clutser": "x"}, "measured_s": 3})")), "'cluster'"));
  CHECK(contains(refusal(document(R"({"id": "a"})")), "/cases/0/measured_s"));
  CHECK(contains(refusal(document(R"({"id": "a", "measured_s": 0})")), "a positive number"));
  CHECK(contains(refusal(document(R"({"id": "a", "measured_s": "3"})")), "expected a number, found '3'"));
  CHECK(contains(refusal(document(R"({"measured_s": 3})")), "/cases/0/id"));
  CHECK(contains(refusal(document(R"({"id": "a", "measured_s": 3, "split": "test"})")), "'held_out'"));
  CHECK(contains(refusal(document(R"({"id": "a", "measured_s": 3, "tolerance": -1})")), "/tolerance"));
  CHECK(contains(refusal(document(R"({"id": "a", "inputs": {"plan": "wfpb"}, "measured_s": 3})")), "/inputs/plan"));
  CHECK(contains(refusal(document(R"({"id": "a", "inputs": {"workers": 1.5}, "measured_s": 3})")), "a whole number"));
  CHECK(contains(refusal(document(R"({"id": "a", "inputs": {"over": "wfbp"}, "measured_s": 3})")), "measured_ratio"));
  std::string deep(100, '[');
  CHECK(contains(refusal(deep + std::string(100, ']')), "32 levels"));
  // Cut anywhere: one clear refusal.
  const std::string whole = document(good);
  for (std::size_t n = 0; n < whole.size(); n += 7) CHECK(refusal(whole.substr(0, n)) != "accepted");
}

TEST_CASE("shipped suites: every case is understood, and the same results come from one thread and from many") {
  const std::vector<std::string> names = shipped_suite_names();
  CHECK(names.size() >= 9);
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(shipped_suite(name).name == name);
  }
  CHECK_THROWS_AS(static_cast<void>(shipped_suite("servey")), InputError);
  const auto errors = [](unsigned threads) {
    ValidationOptions options;
    options.threads = threads;
    std::ostringstream out;
    write_validation_json(out, validated({shipped_suite("survey"), shipped_suite("bcaffe")}, options));
    return out.str();
  };
  CHECK(errors(1) == errors(4));
}

/// Of the rows of a suite that calibrate, as far as `counts`; 0 where there are fewer than `least`.
template <class Counts>
double calibration_rms(const std::string& suite, int least, const Counts& counts) {
  const std::vector<SuiteResult> results = validated({shipped_suite(suite)}, {});
  double sum = 0;
  int rows = 0;
  for (std::size_t i = 0; i < results[0].results.size(); ++i) {
    const ValidationCase& row = results[0].suite.cases[i];
    const CaseResult& r = results[0].results[i];
    if (row.split != CaseSplit::calibration || r.outcome == Outcome::excluded || !counts(row)) continue;
    REQUIRE(r.predicted_any);
    sum += r.error * r.error;
    ++rows;
  }
  return rows < least ? 0 : std::sqrt(sum / rows);
}

TEST_CASE("the model's residuals are those of calibration rows") {
  CHECK(calibration_rms("survey", 40, [](const ValidationCase&) { return true; }) ==
        doctest::Approx(residual_of_model).epsilon(0.02));
  const auto shards = [](const ValidationCase& row) { return row.inputs.layout && row.inputs.layout->zero == 3; };
  CHECK(calibration_rms("lab_matrix", 20, shards) == doctest::Approx(residual_of_sharding).epsilon(0.02));
}

TEST_CASE("what is said of devices without a measured step is that of rows that calibrate, and holds others") {
  const std::vector<SuiteResult> results = validated({shipped_suite("unmeasured")}, {});
  std::vector<double> logarithms;
  int held_out = 0, inside = 0;
  for (std::size_t i = 0; i < results[0].results.size(); ++i) {
    const CaseResult& r = results[0].results[i];
    REQUIRE(r.predicted_any);
    const double measured = results[0].suite.cases[i].measured;
    if (results[0].suite.cases[i].split == CaseSplit::calibration) {
      logarithms.push_back(std::log(measured / r.predicted));
      continue;
    }
    ++held_out;
    inside += r.low <= measured && measured <= r.high ? 1 : 0;
    CHECK(r.high - r.predicted > 1.5 * (r.predicted - r.low));  // late, and never as early
  }
  double mean = 0, squares = 0;
  for (const double l : logarithms) mean += l / double(logarithms.size());
  for (const double l : logarithms) squares += (l - mean) * (l - mean);
  CHECK(logarithms.size() >= 15);
  CHECK(mean == doctest::Approx(unmeasured_bias).epsilon(0.02));
  CHECK(std::sqrt(squares / double(logarithms.size() - 1)) == doctest::Approx(unmeasured_spread).epsilon(0.02));
  CHECK(held_out >= 14);
  CHECK(inside >= 0.75 * held_out);  // of 80 % intervals
}

TEST_CASE("memory is compared in bytes, with the allocator's count or the card's") {
  const std::string head = R"({"schema": "stepcast.cases/1", "suite": "m", "clusters": {"c": {"schema":
    "stepcast.cluster/1", "name": "c", "nodes": 1, "devices_per_node": 8, "inside": {"latency": "6 us", "bandwidth":
    "229 GB/s"}, "network": {"latency": "9 us", "bandwidth": "22 GB/s"}, "provenance": ["test"]}}, "defaults": {"source":
    "test", "grade": "source", "split": "held_out", "tolerance": 0.5, "inputs": {"cluster": "c", "workers": 8, "device":
    "NVIDIA B200", "model": "gpt:hidden=2048,layers=8,heads=16,seq=1024", "global_batch": 64, "plan":
    "layout(mb=2)/ddp"}}, "cases": [)";
  const auto suite = [&](const std::string& memory, const std::string& measured) {
    return suite_of_json(head + R"({"id": "x", "inputs": {"memory": ")" + memory + R"("}, )" + measured + "}]}",
                         "m.json");
  };
  const auto predicted_bytes = [&](const std::string& memory) {
    const std::vector<SuiteResult> results = validated({suite(memory, "\"measured_bytes\": 1e10")}, {});
    CHECK(results[0].suite.cases[0].subject == Subject::memory);
    CHECK(unit_of(results[0].suite.cases[0].subject) == "bytes");
    REQUIRE(results[0].results[0].predicted_any);
    CHECK_FALSE(results[0].results[0].has_interval());
    std::ostringstream out;
    write_validation_json(out, results);
    CHECK(out.str().find("\"measured_bytes\": 10000000000") != std::string::npos);
    return results[0].results[0].predicted;
  };
  const double allocated = predicted_bytes("allocated"), used = predicted_bytes("used");
  CHECK(used == doctest::Approx(1.05 * allocated + 1e9));  // the allocator's gaps, and context and libraries
  CHECK_THROWS_AS((void)suite("reserved", "\"measured_bytes\": 1e10"), InputError);
  CHECK_THROWS_AS((void)suite("exceeded", "\"measured_bytes\": 1e10"), InputError);  // the device says it
  CHECK_THROWS_AS((void)suite("used", "\"measured_s\": 1"), InputError);
}

TEST_CASE("what ran is to be accepted, and what ran out of memory refused") {
  const auto with = [](std::string_view recorded, std::string_view cases) {
    std::string text = R"({"schema": "stepcast.cases/1", "suite": "m", RECORDED "clusters": {"c": {"schema":
      "stepcast.cluster/1", "name": "c", "nodes": 1, "devices_per_node": 8, "inside": {"latency": "6 us", "bandwidth":
      "229 GB/s"}, "network": {"latency": "9 us", "bandwidth": "22 GB/s"}, "provenance": ["test"]}}, "defaults":
      {"source": "test", "grade": "source", "split": "held_out", "tolerance": 0.15, "inputs": {"cluster": "c",
      "workers": 8, "device": "NVIDIA B200", "global_batch": 64, "plan": "layout(mb=2)/ddp"}}, "cases": [CASES]})";
    text.replace(text.find("RECORDED"), 8, recorded);
    text.replace(text.find("CASES"), 5, cases);
    return validated({suite_of_json(text, "m.json")}, {}).front();
  };
  const std::string small = R"("model": "gpt:hidden=2048,layers=8,heads=16,seq=1024")";
  const std::string large = R"("model": "gpt:hidden=8192,layers=80,heads=64,seq=1024")";
  const std::string ran_small = R"({"id": "a", "inputs": {)" + small + R"(}, "measured_s": 1, "tolerance": 99})";
  const std::string ran_large = R"({"id": "b", "inputs": {)" + large + R"(}, "measured_s": 1, "tolerance": 99})";
  const auto exceeded = [](const char* id, const std::string& model) {
    return std::string(R"({"id": ")") + id + R"(", "inputs": {)" + model + R"(, "memory": "exceeded"}})";
  };

  const SuiteResult ran = with("", ran_small + "," + ran_large);
  CHECK(ran.statistics.memory.ran == 2);
  CHECK(ran.statistics.memory.accepted == 1);
  CHECK_FALSE(ran.statistics.fewer_accepted);
  CHECK(with(R"("recorded_accepted": 2,)", ran_small + "," + ran_large).statistics.fewer_accepted);
  CHECK_FALSE(with(R"("recorded_accepted": 1,)", ran_small + "," + ran_large).statistics.fewer_accepted);

  const SuiteResult out = with("", exceeded("c", small) + "," + exceeded("d", large));
  CHECK(out.statistics.memory.exceeded == 2);
  CHECK(out.statistics.memory.refused == 1);
  CHECK(out.statistics.held_out == 0);  // it is not one of the errors
  CHECK(out.results[0].outcome == Outcome::failed);
  CHECK(out.results[0].error < -0.15);
  CHECK(out.results[1].outcome == Outcome::passed);
  CHECK(out.results[1].error == 0);
}

TEST_CASE("layouts' errors are told by scale, tokens, precision and degree, with how often the interval holds") {
  const std::vector<SuiteResult> results = validated({shipped_suite("internevo")}, {});
  const SuiteStatistics& s = results[0].statistics;
  REQUIRE_FALSE(s.groups.empty());
  CHECK(s.groups.front().label == "all");
  CHECK(s.groups.front().cases == s.held_out);
  CHECK(s.groups.front().mean == doctest::Approx(s.mean));
  CHECK(s.groups.front().inside == s.inside);
  CHECK(s.groups.front().with_interval == s.with_interval);
  std::map<std::string, std::size_t> cases, inside;
  for (const ErrorGroup& group : s.groups) cases[group.by] += group.cases, inside[group.by] += group.inside;
  for (const char* by : {"devices", "tokens", "dtype", "tp", "hidden"}) {
    CAPTURE(by);
    CHECK(cases[by] == s.held_out);
    CHECK(inside[by] == s.inside);
  }
  const auto labelled = [&](const std::string& label) {
    return std::ranges::any_of(s.groups, [&](const ErrorGroup& g) { return g.label == label; });
  };
  CHECK(labelled("devices 1024"));
  CHECK(labelled("tokens 2048"));
  CHECK(labelled("dtype bf16"));
}

TEST_CASE("shipped suites: no case fails") {
  std::vector<ValidationSuite> suites;
  for (const std::string& name : shipped_suite_names()) suites.push_back(shipped_suite(name));
  ValidationOptions options;
  options.file = [](const std::string& path) -> std::optional<std::string> {
    std::ifstream in(std::string(STEPCAST_SOURCE_DIR) + "/" + path, std::ios::binary);
    if (!in) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  for (const SuiteResult& suite : validated(std::move(suites), options))
    for (std::size_t i = 0; i < suite.results.size(); ++i) {
      CAPTURE(suite.suite.name + " " + suite.suite.cases[i].id + ": " + suite.results[i].reason);
      CHECK(suite.results[i].outcome != Outcome::failed);
      if (suite.results[i].outcome == Outcome::skipped)
        MESSAGE("skipped: " << suite.suite.name << " " << suite.suite.cases[i].id << ": " << suite.results[i].reason);
    }
}

TEST_CASE("reports: text of at most 80 columns that names what failed; JSON with every case") {
  const std::vector<SuiteResult> results{run(document(R"({"id": "good", "measured_s": 3},
      {"id": "bad", "measured_s": 9}, {"id": "absent", "inputs": {"profile": "no/such.json"}, "measured_s": 3})"))};
  std::ostringstream text, json;
  write_validation_text(text, results, true);
  CHECK(contains(text.str(), "failed:  made up bad: off by 66.7 %"));
  CHECK(contains(text.str(), "skipped: made up: 1 case: no file no/such.json"));
  CHECK(contains(text.str(), "FAILED: 1 of 3 cases failed, 1 passed, 1 skipped, 0 excluded\n"));
  std::istringstream lines(text.str());
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(line.size() <= 80, line);
  write_validation_json(json, results);
  const auto parsed = nlohmann::json::parse(json.str());
  CHECK(parsed["schema"] == "stepcast.validation/1");
  const auto& suite = parsed["suites"][0];
  CHECK(suite["statistics"]["failed"] == 1);
  CHECK(suite["cases"].size() == 3);
  CHECK(suite["cases"][1]["outcome"] == "failed");
  CHECK(suite["cases"][1]["error"].get<double>() == Approx(-2.0 / 3));
  CHECK(suite["cases"][2]["predicted_s"].is_null());
}

TEST_CASE("reports: the page shows every predicted case once, escapes what it quotes and needs nothing else") {
  const std::vector<SuiteResult> results{run(document(R"({"id": "a <b> & \"c\"", "measured_s": 3},
      {"id": "fitted", "measured_s": 3.1, "split": "calibration"}, {"id": "ratio", "measured_ratio": 1,
      "inputs": {"over": "wfbp"}}, {"id": "misprint", "measured_s": 9, "excluded": "a misprint"})"))};
  std::ostringstream out;
  write_validation_html(out, results);
  const std::string page = out.str();
  const auto count = [&](const std::string& part) {
    std::size_t n = 0;
    for (auto at = page.find(part); at != std::string::npos; at = page.find(part, at + 1)) ++n;
    return n;
  };
  CHECK(count("<circle") == 3);
  CHECK(count("fill=\"none\"") == 1);
  CHECK(contains(page, "a &lt;b&gt; &amp; &quot;c&quot;: measured 3.000 s, predicted 3.000 s"));
  CHECK(count("<b>") == 0);
  CHECK(count("http") == count("xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(count("nan") + count("inf") == 0);
  for (const std::string tag : {"section", "table", "svg", "tr", "td", "div", "html"})
    CHECK(count("<" + tag + ">") + count("<" + tag + " ") == count("</" + tag + ">"));
}

TEST_CASE("a profile takes a plan with a layout, with its batch and workers, but no ratio") {
  const std::string path = "profiles/examples/transformer-cpu-1-worker.pt.trace.json.gz";
  ValidationOptions options;
  options.file = [&](const std::string& wanted) -> std::optional<std::string> {
    if (wanted != path) return std::nullopt;
    std::ifstream file(std::string(STEPCAST_SOURCE_DIR) + "/" + path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const auto inputs = [&](const std::string& more) {
    return R"({"id": "a", "measured_s": 1, "tolerance": 100, "inputs": {"profile": ")" + path +
           R"(", "plan": "layout(zero=3)/ddp")" + more + "}}";
  };
  const SuiteResult result =
      validated({suite_of_json(document(inputs(R"(, "global_batch": 4, "workers": 2)")), "test")}, options).at(0);
  const std::string text = *options.file(path);
  const Profile profile = profile_of(trace_of({path, std::as_bytes(std::span(text))}));
  LayoutOptions of_layout;
  of_layout.global_batch = 4;
  const LayoutPlan plan = layout_plan_of("layout(zero=3)/ddp");
  const auto expected = predicted(*workload_of(profile), result.suite.clusters.at("pair"), plan, of_layout);
  REQUIRE(expected);
  CHECK(result.results.at(0).predicted == Approx(expected->iteration.value()).epsilon(1e-12));
  CHECK(result.results.at(0).low == Approx(expected->interval_low.value()).epsilon(1e-12));

  CHECK(contains(refusal(document(inputs(R"(, "workers": 2)"))), "global_batch"));
  CHECK(contains(refusal(document(inputs(R"(, "global_batch": 4, "workers": 2, "over": "wfbp")"))), "over"));
}

TEST_CASE("tables of measured steps become cases, rows in the suite before those of files") {
  const std::string text = R"({"schema": "stepcast.cases/1", "suite": "t", "published": {"mean_absolute_error": 0.001,
    "source": "somebody"}, "defaults": {"source": "s", "grade": "measured", "split": "held_out", "tolerance": 1e9,
    "inputs": {"cluster": "32x8-a100-800gbib", "device": "NVIDIA A100-SXM4-80GB", "plan": "layout(overlap_dp=off)/bsp"}},
    "tables": [{"split": "calibration", "rows": ["hidden,heads,layers,seq,tp,mb,global batch,devices,step_s",
    "1024,16,4,512,1,2,8,2,1.0"]}, {"file": "more.csv"}]})";
  const ValidationSuite suite = suite_of_json(text, "t");
  REQUIRE(suite.cases.size() == 1);
  CHECK(suite.cases[0].split == CaseSplit::calibration);
  CHECK(suite.cases[0].inputs.global_batch == 8);
  REQUIRE(suite.tables.size() == 1);

  ValidationOptions options;
  SUBCASE("a file that is absent is one case, which is skipped") {
    const SuiteResult result = validated({suite}, options).front();
    CHECK(result.statistics.skipped == 1);
    CHECK(result.statistics.failed == 0);
    CHECK(result.statistics.held_out == 0);
  }
  SUBCASE("rows that the suite has are left out, and a mean error above the published one fails") {
    options.file = [](const std::string& path) -> std::optional<std::string> {
      if (path != "more.csv") return std::nullopt;
      return "hidden,heads,layers,seq,tp,mb,global batch,devices,step_s\n"
             "1024,16,4,512,1,2,8,2,1.0\n"
             "1024,16,4,512,2,2,8,2,1.0\n";
    };
    const SuiteResult result = validated({suite}, options).front();
    CHECK(result.suite.cases.size() == 2);
    CHECK(result.statistics.held_out == 1);
    CHECK(result.statistics.worse_than_published);
    CHECK(result.statistics.failed == 1);
    for (const double slack : {2 * ratchet_slack, -0.5 * ratchet_slack}) {
      ValidationSuite recorded = suite;
      recorded.published = {};
      recorded.recorded_mean_error = result.statistics.mean - slack;
      CHECK(validated({recorded}, options).front().statistics.worse_than_recorded == (slack > ratchet_slack));
      CHECK(validated({recorded}, options).front().statistics.failed == (slack > ratchet_slack ? 1 : 0));
    }
    REQUIRE_FALSE(result.statistics.groups.empty());
    const auto tensor = std::ranges::find(result.statistics.groups, "tp", &ErrorGroup::by);
    REQUIRE(tensor != result.statistics.groups.end());
    CHECK(tensor->value == 2);
    CHECK(tensor->label == "tp 2");
  }
}

TEST_CASE("forecasts: each band of sizes has a ratchet, and intervals are told by what was measured") {
  std::string rows = "set,op,gpus,size_bytes,time_us_out_of_place\n";
  for (const int gpus : {8, 32})
    for (double m = 1024; m <= 0x1p28; m *= 4)
      rows += "one,all_reduce," + std::to_string(gpus) + "," + std::to_string(m) + "," +
              std::to_string(30 + 4 * gpus + m / (gpus == 8 ? 20e3 : 15e3)) + "\n";
  const std::string text =
      R"({"schema": "stepcast.cases/1", "suite": "made up",
    "recorded_errors_by_size": {"beyond": {"to 8 KiB": {"median": 9, "p90": 9}}},
    "defaults": {"source": "nowhere", "grade": "made up", "tolerance": 9, "split": "held_out"}, "clusters": {"shape":
      {"schema": "stepcast.cluster/1", "name": "shape", "nodes": 4, "devices_per_node": 8, "all_reduce": "nccl",
      "inside": {"latency": "5 us", "bandwidth": "100 GB/s"}, "network": {"latency": "5 us", "bandwidth": "10 GB/s"},
      "provenance": ["made up"]}},
    "forecasts": [{"kind": "beyond", "machine": "m", "cluster": "shape",
      "fit": [{"file": "rows.csv", "set": "one", "gpus": "8"}], "predict": [{"file": "rows.csv", "set": "one",
      "gpus": "32"}]}]})";
  ValidationOptions options;
  options.file = [&](const std::string& path) { return path == "rows.csv" ? std::optional(rows) : std::nullopt; };
  const ValidationSuite suite = suite_of_json(text, "test");
  REQUIRE(suite.recorded_by_size.contains("beyond"));
  CHECK(suite.recorded_by_size.at("beyond")[0]->median == 9);
  CHECK_FALSE(suite.recorded_by_size.at("beyond")[1]);
  CHECK(contains(refusal(document(R"({"id": "a", "measured_s": 3})")
                             .insert(1, R"("recorded_errors_by_size": {"x": {"to 9 KiB": {}}},)")),
                 "did you mean 'to 8 KiB'?"));
  const SuiteResult result = validated({suite}, options).front();
  CHECK(result.statistics.failed == 0);
  REQUIRE_FALSE(result.statistics.sizes.empty());
  REQUIRE(result.statistics.widths.size() == 1);
  CHECK(result.statistics.widths[0].measured_there == "nothing");  // one machine tells nothing of several
  CHECK(result.statistics.widths[0].bands[0].width == Approx(4));
  const SizeErrors::Band& now = result.statistics.sizes[0].bands[1];
  for (const double slack : {2 * ratchet_slack, -0.5 * ratchet_slack}) {
    ValidationSuite recorded = suite;
    recorded.recorded_by_size["beyond"][1] = {now.median, now.p90 - slack};
    const SuiteStatistics judged = validated({recorded}, options).front().statistics;
    CHECK(judged.sizes[0].bands[1].worse == (slack > ratchet_slack));
    CHECK(judged.failed == (slack > ratchet_slack ? 1 : 0));
    std::ostringstream out;
    write_validation_text(out, std::vector{SuiteResult{recorded, {}, judged}}, false);
    CHECK(contains(out.str(), "beyond to 1 MiB") == (slack > ratchet_slack));
  }
}
