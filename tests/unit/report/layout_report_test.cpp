// What is said of layouts: text fits the page, text and JSON come from the same value, and a search says how sure it
// is.
#include <stepcast/base/text.hpp>
#include <stepcast/report/report.hpp>
#include <stepcast/report/text/table.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <sstream>

using namespace stepcast;

namespace {

MemoryUse memory_of_gigabytes(double parameters, double activations) {
  MemoryUse m;
  m.parameters = Bytes(parameters * 1e9);
  m.activations = Bytes(activations * 1e9);
  m.margin = Bytes(1e9);
  return m;
}

/// A layout of four stages, eight tensor devices and two replicas; nothing of it is computed here.
LayoutPrediction layout_of_64() {
  LayoutPrediction p;
  p.plan = layout_plan_of("layout(tp=8, pp=4, dp=2, mb=2, zero=1, recompute=full, sp=on)/ddp");
  p.iteration = Seconds(2);
  p.interval_low = Seconds(1.8), p.interval_high = Seconds(2.2);
  p.breakdown.compute = Seconds(1.2), p.breakdown.tensor = Seconds(0.3), p.breakdown.bubble = Seconds(0.4);
  p.breakdown.gradients = Seconds(0.1);
  for (std::uint32_t s = 0; s < 4; ++s) {
    StageSummary stage;
    stage.first_unit = s == 0 ? 0 : 1 + 3 * s;
    stage.units = s == 0 ? 4 : s == 3 ? 4 : 3;
    stage.forward = milliseconds(s == 0 ? 11 : 10), stage.backward = milliseconds(20);
    stage.end = Seconds(1.5 + 0.1 * s);
    stage.memory = memory_of_gigabytes(10, 20 - 4.0 * s);
    p.stages.push_back(stage);
  }
  p.memory = p.stages[0].memory;
  p.devices = 64, p.micro_batches = 8;
  p.throughput_samples_per_s = 16;
  p.model_flops_utilization = 0.42;
  p.bound = "compute";
  p.assumed = {"experts are used evenly"};
  return p;
}

Workload thirteen_units() {
  Workload w;
  w.name = "gpt:layers=12";
  w.kinds = {{.name = "embedding"}, {.name = "block"}, {.name = "head"}};
  w.units = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2};
  w.shape = ModelShape{};
  w.sequence = 2048;
  return w;
}

struct Fixture {
  Workload workload = thirteen_units();
  Cluster cluster = cluster_of_flags(64, 8, "100GbE");
  SelfCheck check{{}, "described"};
  LayoutSubject subject{workload, cluster, check, 32, Bytes(80e9)};
};

std::string text_written(const auto& write) {
  std::ostringstream out;
  write(out);
  return out.str();
}

bool fits_page(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.size() > page_width) return false;
  return true;
}

bool says(const std::string& text, const std::string& what) {
  // Wrapping is not what is tested.
  std::string flat;
  for (const char c : text)
    if (c != '\n' && !(c == ' ' && flat.ends_with(' '))) flat += c;
    else if (!flat.ends_with(' ')) flat += ' ';
  return flat.find(what) != std::string::npos;
}

LayoutSearchResult search_over(std::uint64_t total, bool proved) {
  LayoutSearchResult s;
  s.best = {layout_of_64(), layout_of_64()};
  s.best[1].iteration = Seconds(2.5);
  s.frontier = {{Bytes(10e9), Seconds(3), layout_plan_of("layout(pp=8, dp=8)/ddp")},
                {Bytes(31e9), Seconds(2), s.best[0].plan}};
  s.total = total, s.evaluated = 1234, s.bounded = total - 1234 - 20 - 6, s.too_large = 20, s.unsuitable = 6;
  s.proved = proved, s.gap = proved ? 0 : 0.125;
  return s;
}

}  // namespace

TEST_CASE("layout report: words, parts and stages of one layout") {
  Fixture f;
  const LayoutPrediction p = layout_of_64();
  const LayoutReport report{
      f.subject, p, {{"Megatron-LM", "--tensor-model-parallel-size 8", ""}, {"Horovod", "", "it divides no layer"}}};
  const std::string text = text_written([&](std::ostream& out) { write_layout_text(out, report); });
  CHECK(fits_page(text));
  CHECK(says(text,
             "tensor parallelism over 8 devices with sequence parallelism; 4 pipeline stages (1f1b); 2 "
             "data-parallel replicas with ZeRO-1; 8 micro-batches of 2 samples; full recomputation"));
  CHECK(says(text, "pipeline bubble 400.0 ms 20.0 %"));
  CHECK(says(text, "embedding, 3 x block"));
  // Stages 1 and 2 show the same and stand in one row; the others do not.
  CHECK(says(text, "1-2 3 x block"));
  CHECK(says(text, "--tensor-model-parallel-size 8"));
  CHECK(says(text, "not with Horovod: it divides no layer"));
  CHECK(says(text, "a device"));
  // What does not occur is not listed.
  CHECK_FALSE(says(text, "expert exchanges"));
}

TEST_CASE("layout report: JSON says the same as text, in SI units") {
  Fixture f;
  const LayoutPrediction p = layout_of_64();
  const auto json = nlohmann::json::parse(text_written([&](std::ostream& out) {
    write_layout_json(out, {f.subject, p, {}});
  }));
  CHECK(json["schema"] == "stepcast.layout/1");
  CHECK(json["plan"] == text_of(p.plan));
  CHECK(json["iteration_s"] == 2.0);
  CHECK(json["breakdown_s"]["bubble"] == 0.4);
  CHECK(json["memory_bytes"]["total"] == p.memory.total().value());
  CHECK(json["stages"].size() == 4);
  CHECK(json["layout"]["tensor"] == 8);
  CHECK(json["layout"]["recomputation"] == "full");
  CHECK(json["memory_cap_bytes"] == 80e9);
  CHECK(json["described"] == true);
  CHECK(layout_plan_of(json["plan"].get<std::string>()).layout == p.plan.layout);
}

TEST_CASE("layout report: layouts side by side, with those that do not work") {
  Fixture f;
  LayoutComparisonReport report{f.subject, {}};
  report.rows = {{"layout(tp=8, pp=4)/ddp", layout_of_64(), ""}, {"ddp", std::nullopt, "needs 900 GB a device"}};
  report.rows.push_back(report.rows.front());
  report.rows.back().prediction->iteration = Seconds(4);
  const std::string text = text_written([&](std::ostream& out) { write_layout_comparison_text(out, report); });
  CHECK(fits_page(text));
  CHECK(says(text, "0.50x"));  // over the first, which the line below names
  CHECK(says(text, "gain over layout(tp=8, pp=4)/ddp"));
  CHECK(says(text, "ddp needs 900 GB a device"));
  const auto json =
      nlohmann::json::parse(text_written([&](std::ostream& out) { write_layout_comparison_json(out, report); }));
  CHECK(json["predictions"].size() == 2);
  CHECK(json["inapplicable"][0]["plan"] == "ddp");
}

TEST_CASE("layout search report: proved, stopped, and nothing that fits") {
  Fixture f;
  LayoutAdvice advice;
  advice.search = search_over(123'456, true);
  advice.search.space = "tp 1 to 8", advice.search.not_tried = {"this", "that"};
  advice.best = advice.search.best;
  advice.no_data_parallel = "needs 900 GB a device";
  advice.networks = {{.factor = 0.5, .own = Seconds(3), .best = Seconds(2.9), .better = "layout(pp=8)/ddp"},
                     {.factor = 2, .own = Seconds(1.9), .best = Seconds(1.9)}};
  LayoutSearchReport report{f.subject, advice, {}, "", false};
  const auto text_of_report = [&] {
    return text_written([&](std::ostream& out) { write_layout_search_text(out, report); });
  };
  std::string text = text_of_report();
  CHECK(fits_page(text));
  CHECK(says(text,
             "best of 123,456 layouts (1,234 evaluated, 122,196 excluded by bounds, 20 too large for the memory, 6 "
             "unsuitable) of tp 1 to 8"));
  CHECK(says(text, "not tried this; that"));
  CHECK(says(text, "data parallelism alone does not work: needs 900 GB a device"));
  CHECK(says(text, "at half the bandwidth of the network: layout(pp=8)/ddp is better, 2.900 s against 3.000 s"));
  CHECK(says(text, "at 2 times the bandwidth of the network: still best"));
  CHECK_FALSE(says(text, "shortest step with so much memory"));
  report.frontier = true;
  CHECK(says(text_of_report(), "shortest step with so much memory"));

  advice.data_parallel = layout_of_64();
  advice.data_parallel->iteration = Seconds(5);
  CHECK(says(text_of_report(), "2.50x over the best with data parallelism alone"));

  advice.fastest = layout_of_64();
  advice.resolution = 0.025;
  advice.equals = 1;
  CHECK(says(text_of_report(), "shorter, which this answer does not resolve (2.5 %)"));
  advice.other_batch = BatchChoice{96, layout_of_64()};
  CHECK(says(text_of_report(), "96 samples a step train"));

  advice.search = search_over(123'456, false);
  CHECK(says(text_of_report(), "stopped early: the best of all may be up to 12.5 % shorter"));

  advice.search.best.clear(), advice.best.clear();
  advice.search.nothing = "the least memory is 90 GB";
  text = text_of_report();
  CHECK(fits_page(text));
  CHECK(says(text, "the least memory is 90 GB"));
  const auto json =
      nlohmann::json::parse(text_written([&](std::ostream& out) { write_layout_search_json(out, report); }));
  CHECK(json["search"]["nothing"] == "the least memory is 90 GB");
  CHECK(json["best"].empty());
}

TEST_CASE("layout search report: an objective with a price has a cost") {
  Fixture f;
  LayoutAdvice advice;
  advice.search = search_over(10'000, true);
  advice.best = advice.search.best;
  LayoutSearchOptions options;
  options.objective = Objective::cheapest;
  options.price_per_device_hour = 2.5;
  const LayoutSearchReport report{f.subject, advice, options, "", false};
  // 2 s on 64 devices at 2.5 an hour.
  CHECK(cost_of(advice.best[0], 2.5) == doctest::Approx(0.08889).epsilon(1e-3));
  const std::string text = text_written([&](std::ostream& out) { write_layout_search_text(out, report); });
  CHECK(fits_page(text));
  CHECK(says(text, "least cost: 0.0889 a step on 64 devices"));
  CHECK(says(text, "devices cost"));
}
