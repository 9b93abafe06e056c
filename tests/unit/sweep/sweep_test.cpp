#include "helpers/random_input.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/page/sweep_svg.hpp>
#include <stepcast/prediction/recommend.hpp>
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/report/sweep_report.hpp>
#include <stepcast/report/text/table.hpp>
#include <stepcast/roofline/device.hpp>
#include <stepcast/roofline/unit_roofline.hpp>
#include <stepcast/sweep/cross_overs.hpp>
#include <stepcast/sweep/kept_range.hpp>
#include <stepcast/sweep/sweep.hpp>
#include <stepcast/whatif/whatif.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

using namespace stepcast;

namespace {

using Values = std::vector<double>;

// Gradients take about as long to send over 10 Gb/s as the backward pass takes.
Profile balanced_profile() {
  Profile p;
  p.model = "balanced";
  p.provenance = "made for the test";
  p.batch_samples = 16;
  for (std::uint32_t l = 0; l < 12; ++l) {
    p.layers.push_back({"layer" + std::to_string(l), {}, {}});
    p.layers[l].forward.host = milliseconds(4);
    p.layers[l].backward.host = milliseconds(8);
  }
  for (std::uint32_t l = 12; l-- > 0;) {
    p.backward_order.push_back(l);
    p.tensors.push_back({"w" + std::to_string(l), {2000, 1000}, DataType::f32, Bytes(8e6), l});
  }
  p.optimizer.host = milliseconds(2);
  p.step_times = {milliseconds(146), milliseconds(147)};
  return checked(p, "test");
}

std::vector<Plan> plans_named(std::initializer_list<const char*> texts) {
  std::vector<Plan> plans;
  for (const char* text : texts) plans.push_back(plan_of(text));
  return plans;
}

SweepQuestion question_over(std::initializer_list<const char*> axes, std::vector<Plan> plans,
                            Cluster cluster = cluster_of_flags(16, 4, "10GbE")) {
  SweepQuestion question;
  question.profile = balanced_profile();
  question.cluster = std::move(cluster);
  question.plans = std::move(plans);
  for (const char* axis : axes) question.axes.push_back(sweep_axis_of(axis, question.plans));
  return question;
}

Values values_of(const char* axis, const std::vector<Plan>& plans = {}) { return sweep_axis_of(axis, plans).values; }

std::string refusal_of(const std::function<void()>& wrong) {
  try {
    wrong();
  } catch (const InputError& error) { return error.what(); }
  return "no refusal";
}

std::string csv_of(const SweepQuestion& question, std::span<const SweepRow> rows, bool header = true) {
  std::ostringstream out;
  write_sweep_csv(out, question, rows, header);
  return out.str();
}
std::string json_lines_of(const SweepQuestion& question, std::span<const SweepRow> rows) {
  std::ostringstream out;
  write_sweep_json_lines(out, question, rows);
  return out.str();
}

/// Fields of a line of CSV; quotes are taken off.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    else if (c == ',' && !quoted) fields.emplace_back();
    else fields.back() += c;
  }
  return fields;
}

double time_at(const SweepQuestion& question, const Cluster& cluster, std::size_t plan) {
  return predicted(question.profile, cluster, question.plans[plan].strategy)->iteration.value();
}

}  // namespace

TEST_CASE("sweep: the table has a line for each plan at each point, the best marked, and says why one cannot run") {
  SweepQuestion question = question_over({"bandwidth=1Gb/s,10Gb/s"}, plans_named({"ddp", "wfbp", "ddp@switchml"}));
  const std::vector<SweepRow> rows = swept(question);
  std::ostringstream out;
  set_page(out, {.width = 300, .in_colour = false});
  write_sweep_text(out, question, rows);
  const std::string text = out.str();
  CHECK(text.starts_with("bandwidth  plan"));
  CHECK(text.find("ddp@switchml: not here, ") != std::string::npos);
  std::size_t best = 0, lines = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    best += line.ends_with("  best");
    lines += line.find(" s to ") != std::string::npos || line.find(" ms to ") != std::string::npos;
  }
  CHECK(best == 2);
  CHECK(lines == 4);
  for (const SweepRow& row : rows)
    if (row.best) CHECK(text.find(text_of(row.prediction->interval_high)) != std::string::npos);
}

TEST_CASE("sweep: without names the plans that PyTorch runs, with servers theirs, and all where that is asked") {
  SweepQuestion question = question_over({"bandwidth=1Gb/s,10Gb/s"}, {});
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(plans_of(question), [&](const Plan& p) { return p.strategy.strategy->name == name; });
  };
  CHECK(has("ddp"));
  for (const char* other : {"bytescheduler", "tictac", "byteps", "wfbp_ps"}) CHECK_MESSAGE(!has(other), other);
  question.servers = 2;
  CHECK(has("wfbp_ps"));
  CHECK(!has("tictac"));
  question.all_plans = true;
  CHECK(has("tictac"));
  CHECK(has("bytescheduler"));
}

TEST_CASE("a described model is answered as predict answers it: its device errs, and has to hold it") {
  const Device* device = shipped_device("NVIDIA A100-SXM4-80GB");
  REQUIRE(device != nullptr);
  SweepQuestion question;
  question.shape = model_shape_of("gpt:hidden=1024,layers=12,heads=16,seq=1024,dtype=bf16");
  question.device = *device;
  question.profile = described_profile(*question.shape, *device, 4);
  question.cluster = cluster_of_flags(16, 8, "200 Gb/s");
  question.cluster.device_memory = Bytes(80e9);
  question.plans = plans_named({"ddp"});
  question.axes.push_back(sweep_axis_of("workers=8,16", question.plans));
  const std::vector<SweepRow> rows = swept(question);
  REQUIRE(rows.size() == 2);
  const PreparedQuestion alone(question);
  const Answer<Prediction> known = alone.answer(plan_of("ddp"));
  REQUIRE(known);
  REQUIRE(rows[1].prediction);
  CHECK(rows[1].prediction->iteration == known->iteration);
  CHECK(rows[1].prediction->interval_low == known->interval_low);
  CHECK(rows[1].prediction->interval_high == known->interval_high);
  // At least the error of the device in the compute of a step, at the tenth and the ninetieth percentile.
  const Seconds compute = known->iteration - known->breakdown.exposed_communication;
  CHECK((known->interval_high - known->iteration) / compute >= 1.2815 * device->relative_error);
  question.cluster.device_memory = Bytes(1e9);
  for (const SweepRow& row : swept(question)) {
    CHECK_FALSE(row.prediction);
    CHECK(row.inapplicable.find("of memory, and its device has") != std::string::npos);
  }
}

TEST_CASE("each batch of a described model is described anew, in sweeps and by the what-if") {
  SweepQuestion question;
  question.shape = model_shape_of("gpt:hidden=768,layers=12,heads=12,seq=1024,vocab=50257,attention=flash,dtype=bf16");
  question.device = *shipped_device("NVIDIA A100-SXM4-80GB");
  question.profile = described_profile(*question.shape, *question.device, 1);
  question.cluster = cluster_of_flags(8, 8, "200 Gb/s");
  question.plans = plans_named({"ddp"});
  question.axes.push_back(sweep_axis_of("batch=1,4,16", question.plans));
  const std::vector<SweepRow> rows = swept(question);
  REQUIRE(rows.size() == 3);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double batch = std::pow(4.0, double(i));
    CAPTURE(batch);
    Question there = question;
    there.profile = described_profile(*question.shape, *question.device, batch);
    const Answer<Prediction> known = PreparedQuestion(there).answer(plan_of("ddp"));
    REQUIRE(known);
    REQUIRE(rows[i].prediction);
    CHECK(rows[i].prediction->iteration == known->iteration);
    CHECK(rows[i].prediction->memory == known->memory);
    if (i == 0) continue;
    Question changed = question;
    changed.changes = {whatif_with("batch", "to", batch)};
    const Answer<Prediction> after = PreparedQuestion(changed).answer(plan_of("ddp"));
    REQUIRE(after);
    CHECK(after->iteration.value() == doctest::Approx(known->iteration.value()).epsilon(1e-9));
  }
  // Small kernels do not get longer with the first samples, and later ones add to all.
  CHECK(rows[1].prediction->iteration < 3.8 * rows[0].prediction->iteration);
  CHECK(rows[2].prediction->iteration > 3 * rows[1].prediction->iteration);
}

TEST_CASE("axes are read from text: lists, doublings, points of equal ratio") {
  CHECK(values_of("bandwidth=1Gb/s,40 Gb/s") == Values{1.25e8, 5e9});
  CHECK(values_of("bandwidth=1Gb/s..10Gb/s") == Values{1.25e8, 2.5e8, 5e8, 1e9, 1.25e9});
  const double network = cluster_of_flags(2, 1, "10GbE").network.bandwidth.value();
  CHECK(values_of("bandwidth=10GbE").front() == doctest::Approx(network));  // the same words, the same link
  CHECK(values_of(" workers = 2..16 ") == Values{2, 4, 8, 16});
  CHECK(values_of("workers=8..8") == Values{8});
  CHECK(values_of("workers=1..100:5") == Values{1, 3, 10, 32, 100});
  CHECK(values_of("workers=1..3:9") == Values{1, 2, 3});
  CHECK(values_of("batch=8,16..64") == Values{8, 16, 32, 64});
  CHECK(values_of("compute=0.5,1,3") == Values{0.5, 1, 3});
  CHECK(values_of("bucket=1MiB..4MiB") == Values{0x1p20, 0x1p21, 0x1p22});
  const Values latencies = values_of("latency=1us..1ms:4");
  REQUIRE(latencies.size() == 4);
  CHECK(latencies.front() == 1e-6);
  CHECK(latencies[1] == doctest::Approx(1e-5));
  CHECK(latencies.back() == 1e-3);

  const auto plans = plans_named({"ddp", "dear", "ddp+powersgd(rank=4)"});
  CHECK(values_of("powersgd.rank=1..8", plans) == Values{1, 2, 4, 8});
  CHECK(column_of(sweep_axis_of("dear.bucket=1MiB", plans)) == "dear.bucket_bytes");
  CHECK(column_of(sweep_axis_of("bandwidth=1Gb/s", plans)) == "bandwidth_bytes_per_s");
  CHECK(value_text(sweep_axis_of("bandwidth=1Gb/s", plans), 3.125e9) == "25 Gb/s");
  CHECK(value_text(sweep_axis_of("latency=1us", plans), 5e-6) == "5 us");
  CHECK(value_text(sweep_axis_of("bucket=1MiB", plans), 0x1p20) == "1 MiB");
  CHECK(value_text(sweep_axis_of("workers=2", plans), 1000000) == "1000000");
  const Values two{2, 4};
  CHECK(sweep_axis_of("workers", two, plans).values == two);
}

TEST_CASE("a wrong axis is refused with what was expected") {
  const auto plans = plans_named({"ddp", "dear", "ddp+powersgd(rank=4)"});
  const std::pair<const char*, const char*> wrong[] = {
      {"bandwith=1Gb/s", "did you mean 'bandwidth'?"},
      {"buckets=1MiB", "did you mean 'bucket'?"},
      {"partition=1MiB", "a number of the layout (tp, pp, ...), an option of a plan"},
      {"dear.rank=4", "axis: expected"},
      {"bandwidth", "a quantity and its values"},
      {"bandwidth=", "expected a value or a range"},
      {"bandwidth=1Gb/s,,2Gb/s", "expected a value or a range"},
      {"bandwidth=1..10", "a bare number has no meaning here: add the unit"},
      {"bandwidth=0Gb/s", "nothing ever arrives at zero bandwidth"},
      {"bandwidth=10Gb/s..1Gb/s", "write 1Gb/s..10Gb/s"},
      {"bandwidth=1Gb/s..", "a range with two ends"},
      {"bandwidth=1Gb/s..2Gb/s:1", "a whole number from 2 to 10000000"},
      {"latency=0us..1ms", "a range that starts above zero"},
      {"workers=2.5", "a whole number of workers"},
      {"workers=0", "a whole number of workers"},
      {"workers=2 Gb/s", "it takes no unit"},
      {"batch=0", "a number of samples above 0"},
      {"compute=-1", "a factor above 0"},
      {"bucket=1", "a bare number has no meaning here"},
      {"rank=1000000000", "axis 'rank': expected"}};
  for (const auto& [text, part] : wrong) {
    CAPTURE(text);
    const std::string message = refusal_of([&] { (void)sweep_axis_of(text, plans); });
    CAPTURE(message);
    CHECK(message.find(part) != std::string::npos);
  }
  const Values none, negative{-1};
  CHECK(refusal_of([&] { (void)sweep_axis_of("workers", none, plans); }).find("at least one") != std::string::npos);
  CHECK(refusal_of([&] { (void)sweep_axis_of("bandwidth", negative, plans); }).find("above zero") != std::string::npos);

  const Values between{0.5};  // neither one choice nor the other
  CHECK(refusal_of([&] { (void)sweep_axis_of("dear.padding", between, plans); }).find("whole") != std::string::npos);
  const auto refused = [&](const SweepQuestion& q) { return refusal_of([&] { (void)swept(q); }); };
  CHECK(refused(question_over({}, plans)).find("axes: expected at least one") != std::string::npos);
  CHECK(refused(question_over({"workers=4", "workers=8"}, plans)).find("each axis once") != std::string::npos);
  CHECK(refused(question_over({"bucket=1MiB", "ddp.bucket=2MiB"}, plans)).find("each option once") !=
        std::string::npos);
  const auto large = question_over({"bandwidth=1Gb/s..2Gb/s:10000", "latency=1us..2us:1000"}, plans);
  CHECK(refused(large).find("at most 10000000 rows") != std::string::npos);
  SweepQuestion by_hand = question_over({}, plans);
  by_hand.axes.push_back({SweepQuantity::option, "bucket", {1e6}});
  CHECK(refused(by_hand).find("as sweep_axis_of makes it") != std::string::npos);
  SweepQuestion other = question_over({"bucket=1MiB"}, plans);
  other.plans = plans_named({"wfbp"});
  CHECK(refused(other).find("no plan of the sweep has an option of that name") != std::string::npos);
}

TEST_CASE("the grid is the product of its axes, the first one outermost, and each point answers every plan") {
  const SweepQuestion question =
      question_over({"bandwidth=1Gb/s,10Gb/s", "workers=8,16,64"}, plans_named({"ddp", "wfbp", "dear"}));
  CHECK(question.points() == 6);
  const std::vector<SweepRow> rows = swept(question);
  REQUIRE(rows.size() == 18);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i].point == i / 3);
    CHECK(rows[i].values == Values{question.axes[0].values[i / 9], question.axes[1].values[i / 3 % 3]});
    CHECK(rows[i].plan == text_of(question.plans[i % 3]));
    REQUIRE(rows[i].prediction);
    CHECK(rows[i].prediction->critical_path.empty());
  }
  for (std::size_t point = 0; point < 6; ++point) {
    const auto at = rows.begin() + static_cast<std::ptrdiff_t>(3 * point);
    const auto fastest = std::min_element(at, at + 3, [](const SweepRow& a, const SweepRow& b) {
      return a.prediction->iteration < b.prediction->iteration;
    });
    for (auto row = at; row != at + 3; ++row) CHECK(row->best == (row == fastest));
  }
}

TEST_CASE("of equal plans the first is the best") {
  const SweepQuestion question = question_over({"workers=8"}, plans_named({"wfbp", "ddp", "ddp"}));
  const std::vector<SweepRow> rows = swept(question);
  CHECK(std::count_if(rows.begin(), rows.end(), [](const SweepRow& r) { return r.best; }) == 1);
  CHECK(!rows[2].best);
}

TEST_CASE("ranges of points are parts of the whole, byte for byte, on any number of threads") {
  test::Draw draw(11);
  for (const bool tune : {false, true}) {
    SweepQuestion question = question_over({"bandwidth=1Gb/s..40Gb/s", "workers=4,6,32"},
                                           plans_named({"ddp", "dear", "ddp+powersgd(rank=4)", "byteps"}));
    question.tune = tune;
    const std::vector<SweepRow> whole = swept(question, {.threads = 1});
    const std::string csv = csv_of(question, whole), json = json_lines_of(question, whole);
    for (const unsigned threads : {2u, 5u, 0u}) CHECK(csv_of(question, swept(question, {.threads = threads})) == csv);
    for (int round = 0; round < 3; ++round) {
      const auto cut = static_cast<std::size_t>(draw.whole(0, static_cast<int>(question.points())));
      const auto first = swept(question, {.threads = 3, .last = cut});
      const auto second = swept(question, {.threads = 2, .first = cut});
      CHECK(csv_of(question, first) + csv_of(question, second, false) == csv);
      CHECK(json_lines_of(question, first) + json_lines_of(question, second) == json);
    }
  }
}

namespace {

/// What stands at a point, made by hand from its values.
struct Place {
  Profile profile;
  Cluster cluster;
  PlanSpec plan;
};

/// Rows of the axes against predictions at the places that `change` makes of the question's own.
template <class Change>
void check_against_predictions(const SweepQuestion& question, const Change& change) {
  const std::vector<SweepRow> rows = swept(question);
  std::set<double> times;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Place place{question.profile, question.cluster, question.plans[i % question.plans.size()].strategy};
    change(place, rows[i].values);
    const Answer<Prediction> expected = predicted(place.profile, place.cluster, place.plan);
    CAPTURE(rows[i].plan);
    REQUIRE(bool(expected) == rows[i].prediction.has_value());
    CHECK(rows[i].plan == text_of(place.plan));
    if (!expected) {
      CHECK(rows[i].inapplicable == expected.reason());
      continue;
    }
    const Prediction& found = *rows[i].prediction;
    CHECK(found.iteration == expected->iteration);
    CHECK(found.interval_low == expected->interval_low);
    CHECK(found.breakdown.exposed_communication == expected->breakdown.exposed_communication);
    CHECK(found.throughput_samples_per_s == expected->throughput_samples_per_s);
    CHECK(found.messages == expected->messages);
    if (i % question.plans.size() == 0) times.insert(found.iteration.value());
  }
  CHECK(times.size() == question.points());  // every value matters to the first plan
}

Profile with_batch(const Profile& profile, double batch) {
  return *profile_after(scenario_of("batch(to=" + std::to_string(batch) + ")"), profile);
}

}  // namespace

TEST_CASE("every axis changes what it says: rows are the predictions at places made by hand") {
  const auto plans = plans_named({"ddp", "dear", "ddp+powersgd(rank=4)", "byteps"});
  check_against_predictions(question_over({"bandwidth=1Gb/s,3Gb/s,40Gb/s"}, plans),
                            [](Place& p, const Values& v) { p.cluster.network.bandwidth = BytesPerSecond(v[0]); });
  check_against_predictions(question_over({"latency=1us..1ms:4"}, plans),
                            [](Place& p, const Values& v) { p.cluster.network.latency = Seconds(v[0]); });
  check_against_predictions(question_over({"workers=8..64"}, plans), [](Place& p, const Values& v) {
    p.cluster = *resized(p.cluster, static_cast<std::int64_t>(v[0]));
  });
  check_against_predictions(question_over({"batch=8,16,40"}, plans), [](Place& p, const Values& v) {
    if (v[0] != 16) p.profile = with_batch(p.profile, v[0]);
  });
  check_against_predictions(question_over({"compute=0.5,1,4"}, plans), [](Place& p, const Values& v) {
    if (v[0] != 1) p.profile = with_faster_compute(p.profile, v[0]);
  });
  check_against_predictions(question_over({"bucket=3MiB,12MiB,50MiB"}, plans), [](Place& p, const Values& v) {
    const std::string_view name = p.plan.strategy->name;
    if (name == "ddp" || name == "dear") p.plan.options[0] = v[0];  // their first option
  });
  const auto compressed = plans_named({"ddp+powersgd(rank=4)", "ddp", "dear+powersgd(rank=1)"});
  check_against_predictions(question_over({"rank=2,8"}, compressed), [](Place& p, const Values& v) {
    if (!p.plan.modifiers.empty()) p.plan.modifiers[0].options[0] = v[0];
  });
  check_against_predictions(question_over({"ddp.bucket=3MiB,50MiB"}, plans), [](Place& p, const Values& v) {
    if (p.plan.strategy->name == "ddp") p.plan.options[0] = v[0];
  });
}

TEST_CASE("a row over workers is the prediction with the same flags, and servers that were counted stay as many") {
  const auto plans = plans_named({"ddp", "bytescheduler_ps", "byteps"});
  for (const char* servers : {"0", "1", "3", "8"}) {
    const auto flags = [&](double workers) {
      return cluster_of({.workers = std::to_string(static_cast<int>(workers)),
                         .per_node = "2",
                         .network = "1GbE",
                         .servers = servers});
    };
    SweepQuestion question = question_over({"workers=2..32"}, plans, flags(4));
    question.servers = question.cluster.servers;
    check_against_predictions(question, [&](Place& p, const Values& v) { p.cluster = flags(v[0]); });
  }
  // Machines that bring their servers along go on to do so.
  Cluster whole = cluster_of_flags(8, 4, "10GbE");
  whole.servers = 2;
  check_against_predictions(question_over({"workers=16,64"}, plans, whole), [](Place& p, const Values& v) {
    p.cluster.nodes = static_cast<std::int64_t>(v[0]) / 4;
    p.cluster.servers = p.cluster.nodes;
  });
}

TEST_CASE("axes change one place together") {
  const auto plans = plans_named({"ddp", "dear"});
  check_against_predictions(
      question_over({"batch=8,24", "bucket=10MiB,40MiB", "bandwidth=2Gb/s,8Gb/s", "workers=8,32", "compute=1.5,2"},
                    plans),
      [](Place& p, const Values& v) {
        p.profile = with_faster_compute(with_batch(p.profile, v[0]), v[4]);
        p.plan.options[0] = v[1];
        p.cluster = *resized(p.cluster, static_cast<std::int64_t>(v[3]));
        p.cluster.network.bandwidth = BytesPerSecond(v[2]);
      });
}

TEST_CASE("an input pipeline feeds every point with its own batch and machines") {
  SweepQuestion question = question_over({"batch=8,32"}, plans_named({"ddp"}));
  InputPipeline pipeline;
  pipeline.name = "slow";
  pipeline.data_set = Bytes(1e11), pipeline.samples = 1e6, pipeline.storage = BytesPerSecond(1e8);
  pipeline.prep_samples_per_s = 100, pipeline.workers = 2;
  question.pipeline = checked(pipeline, "test");
  check_against_predictions(question, [&](Place& p, const Values& v) {
    p.profile = with_input_pipeline(with_batch(p.profile, v[0]), pipeline, p.cluster);
  });
}

TEST_CASE("bandwidth and latency are those between machines wherever some point has several, else those inside") {
  const auto plans = plans_named({"ddp", "dear"});
  const Cluster one = cluster_of_flags(4, 4, "10GbE");
  check_against_predictions(question_over({"bandwidth=10Gb/s,100Gb/s", "latency=1us,100us"}, plans, one),
                            [](Place& p, const Values& v) {
                              p.cluster.inside = {Seconds(v[1]), BytesPerSecond(v[0])};
                            });
  // Two and four workers share a machine: the network's bandwidth is nothing to them.
  const SweepQuestion question = question_over({"workers=2,4,8", "bandwidth=1Gb/s,40Gb/s"}, plans, one);
  const std::vector<SweepRow> rows = swept(question);
  const auto time = [&](std::size_t point) { return rows[2 * point].prediction->iteration; };
  CHECK(time(0) == time(1));
  CHECK(time(2) == time(3));
  CHECK(time(4) > time(5));
}

TEST_CASE("points that cannot be say why, and so do options out of range and measured latencies") {
  const SweepQuestion odd = question_over({"workers=4,6,8"}, plans_named({"ddp", "dear"}));
  const std::vector<SweepRow> rows = swept(odd);
  for (const std::size_t i : {2u, 3u}) {
    CHECK(!rows[i].prediction);
    CHECK(rows[i].inapplicable.find("6 workers are no whole number of machines with 4 devices") != std::string::npos);
    CHECK(!rows[i].best);
  }
  CHECK(rows[0].prediction);
  CHECK(rows[4].prediction);

  SweepQuestion unknown = question_over({"batch=8,16"}, plans_named({"ddp"}));
  unknown.profile.batch_samples = 0;
  for (const SweepRow& row : swept(unknown)) CHECK(row.inapplicable.find("batch is unknown") != std::string::npos);

  Cluster measured = cluster_of_flags(16, 4, "10GbE");
  measured.tables.push_back({"all_reduce", 16, {Bytes(1e3), Bytes(1e8)}, {milliseconds(1), milliseconds(100)}, "test"});
  const std::vector<SweepRow> late =
      swept(question_over({"latency=1us,1ms"}, plans_named({"ddp", "ddp@ring"}), measured));
  CHECK(late[0].inapplicable.find("measured times of all_reduce hold one latency") != std::string::npos);
  CHECK(late[1].prediction->iteration < late[3].prediction->iteration);
}

TEST_CASE("tuning at each point never makes a plan slower and leaves the options of axes alone") {
  SweepQuestion question = question_over({"bandwidth=1Gb/s..16Gb/s"}, plans_named({"ddp", "dear", "wfbp"}));
  const std::vector<SweepRow> plain = swept(question);
  question.tune = true;
  const std::vector<SweepRow> tuned_rows = swept(question);
  bool faster = false;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    CHECK(tuned_rows[i].prediction->iteration <= plain[i].prediction->iteration);
    CHECK(tuned_rows[i].plan == text_of(tuned_rows[i].prediction->plan));
    faster |= tuned_rows[i].prediction->iteration < plain[i].prediction->iteration;
  }
  CHECK(faster);
  question.axes = {sweep_axis_of("bucket=3MiB,50MiB", question.plans)};
  const std::vector<SweepRow> fixed = swept(question);
  CHECK(fixed[0].plan == "ddp(bucket=3 MiB)");
  CHECK(fixed[4].plan == "dear(bucket=50 MiB)");
}

TEST_CASE("tables hold every row, numbers exactly, and commas of plans within their field") {
  const SweepQuestion question = question_over({"bandwidth=1Gb/s,7Gb/s", "workers=6,16"},
                                               plans_named({"bytescheduler(partition=1 MiB, credit=4 MiB)", "ddp"}));
  const std::vector<SweepRow> rows = swept(question);
  std::istringstream csv(csv_of(question, rows)), json(json_lines_of(question, rows));
  std::string line;
  std::getline(csv, line);
  const std::vector<std::string> header = fields_of(line);
  CHECK(header.front() == "bandwidth_bytes_per_s");
  const auto column = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
  };
  for (const SweepRow& row : rows) {
    REQUIRE(std::getline(csv, line));
    const std::vector<std::string> fields = fields_of(line);
    REQUIRE(fields.size() == header.size());
    REQUIRE(std::getline(json, line));
    const nlohmann::json object = nlohmann::json::parse(line);
    CHECK(object["schema"] == "stepcast.sweep/1");
    CHECK(object["workers"] == row.values[1]);
    CHECK(fields[column("plan")] == row.plan);
    CHECK(object["plan"] == row.plan);
    if (!row.prediction) {
      CHECK(fields[column("iteration_s")].empty());
      CHECK(object["iteration_s"].is_null());
      CHECK(object["inapplicable"] == row.inapplicable);
      continue;
    }
    CHECK(std::stod(fields[column("iteration_s")]) == row.prediction->iteration.value());
    CHECK(object["iteration_s"].get<double>() == row.prediction->iteration.value());
    double parts = 0;
    for (const char* part : {"compute_s", "exposed_s", "codec_s", "input_stall_s", "idle_s"})
      parts += object[part].get<double>();
    CHECK(parts == doctest::Approx(row.prediction->iteration.value()));
    CHECK(object["best"] == row.best);
    CHECK(fields[column("best")] == (row.best ? "1" : "0"));
  }
  CHECK(!std::getline(csv, line));
}

TEST_CASE("cross-overs are where two plans take the same time, found by predictions") {
  SweepQuestion question =
      question_over({"bandwidth=250Mb/s..64Gb/s"}, plans_named({"ddp+powersgd(rank=4)", "ddp", "dear", "wfbp"}));
  const std::vector<CrossOver> found = cross_overs_of(question, swept(question));
  REQUIRE(!found.empty());
  const auto number = [&](const std::string& name) {
    std::size_t p = 0;
    while (text_of(question.plans[p]) != name) ++p;
    return p;
  };
  const auto time = [&](double bandwidth, std::size_t plan) {
    Cluster cluster = question.cluster;
    cluster.network.bandwidth = BytesPerSecond(bandwidth);
    return time_at(question, cluster, plan);
  };
  for (const CrossOver& c : found) {
    CAPTURE(c.below);
    CAPTURE(c.above);
    CAPTURE(c.value);
    const std::size_t below = number(c.below), above = number(c.above);
    CHECK(time(c.value * 0.998, below) <= time(c.value * 0.998, above));
    CHECK(time(c.value * 1.002, above) <= time(c.value * 1.002, below));
    for (std::size_t p = 0; p < question.plans.size(); ++p)  // no third one is clearly better there
      CHECK(time(c.value, p) * 1.006 > std::min(time(c.value, below), time(c.value, above)));
  }
  for (std::size_t i = 1; i < found.size(); ++i) {
    CHECK(found[i].below == found[i - 1].above);
    CHECK(found[i].value >= found[i - 1].value);
  }
  // Brute force: walking a fine grid, whoever has been told to be best is never beaten by more than the indifference
  // and what may happen between two of the asked points.
  std::size_t next = 0;
  for (double bandwidth = 250e6 / 8; bandwidth < 8e9; bandwidth *= 1.02) {
    while (next < found.size() && found[next].value <= bandwidth) ++next;
    const std::size_t champion = number(next == 0 ? found[0].below : found[next - 1].above);
    double best = HUGE_VAL;
    for (std::size_t p = 0; p < question.plans.size(); ++p) best = std::min(best, time(bandwidth, p));
    CAPTURE(bandwidth);
    CHECK(time(bandwidth, champion) <= best * 1.012);
  }
  // The order in which the values are visited does not matter.
  std::reverse(question.axes[0].values.begin(), question.axes[0].values.end());
  const std::vector<CrossOver> reversed = cross_overs_of(question, swept(question));
  REQUIRE(reversed.size() == found.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(reversed[i].value == found[i].value);
}

TEST_CASE("along an axis that starts at zero a cross-over is found by predictions, too") {
  const SweepQuestion question =
      question_over({"latency=0s,100ms"}, plans_named({"wfbp", "ddp"}), cluster_of_flags(16, 1, "10GbE"));
  const std::vector<SweepRow> rows = swept(question);
  const std::vector<CrossOver> found = cross_overs_of(question, rows);
  REQUIRE(found.size() == 1);
  const CrossOver& c = found.front();
  CAPTURE(c.value);
  CHECK(c.value > 0);
  const auto time = [&](double latency, std::size_t plan) {
    Cluster cluster = question.cluster;
    cluster.network.latency = Seconds(latency);
    return time_at(question, cluster, plan);
  };
  const std::size_t below = c.below == "wfbp" ? 0 : 1;
  CHECK(time(c.value * 0.998, below) <= time(c.value * 0.998, 1 - below));
  CHECK(time(c.value * 1.002, 1 - below) <= time(c.value * 1.002, below));
}

TEST_CASE("along workers a cross-over is a number of machines, one list for each value of the other axes") {
  const SweepQuestion question =
      question_over({"workers=8..512", "bandwidth=2Gb/s,6Gb/s"}, plans_named({"ddp", "wfbp", "dear"}));
  const std::vector<CrossOver> found = cross_overs_of(question, swept(question));
  REQUIRE(!found.empty());
  for (const CrossOver& c : found) {
    REQUIRE(c.others.size() == 1);
    CHECK(std::fmod(c.value, 4) == 0);
    const auto number = [&](const std::string& name) { return name == "ddp" ? 0u : name == "wfbp" ? 1u : 2u; };
    const auto time = [&](double workers, std::size_t plan) {
      Cluster cluster = *resized(question.cluster, static_cast<std::int64_t>(workers));
      cluster.network.bandwidth = BytesPerSecond(c.others[0]);
      return time_at(question, cluster, plan);
    };
    CHECK(time(c.value, number(c.above)) < time(c.value, number(c.below)));
    CHECK(time(c.value - 4, number(c.below)) <= time(c.value - 4, number(c.above)));
  }
}

TEST_CASE("kept range: from which bandwidth on a plan keeps nine tenths, found by predictions") {
  const SweepQuestion question =
      question_over({"bandwidth=250Mb/s..64Gb/s:4"}, plans_named({"ddp", "wfbp", "ddp+powersgd(rank=4)"}));
  const std::vector<KeptRange> ranges = kept_ranges_of(question, swept(question), kept_of("90%", "test"));
  REQUIRE(ranges.size() == question.plans.size());
  for (std::size_t p = 0; p < ranges.size(); ++p) {
    const KeptRange& range = ranges[p];
    CAPTURE(range.plan);
    CHECK(range.plan == text_of(question.plans[p]));
    REQUIRE(range.any);
    CHECK(range.to_last);
    CHECK(range.high == 8e9);
    CHECK(range.best == 8e9);
    const auto time = [&](double bandwidth) {
      Cluster cluster = question.cluster;
      cluster.network.bandwidth = BytesPerSecond(bandwidth);
      return time_at(question, cluster, p);
    };
    CHECK(range.best_step.value() == doctest::Approx(time(8e9)));
    CHECK(range.low_step.value() == doctest::Approx(time(range.low)));
    CHECK(time(range.low) * 0.9 <= time(8e9));
    if (!range.to_first) CHECK(time(range.low * 0.998) * 0.9 > time(8e9));
    // The points of the grid agree.
    for (const double bandwidth : question.axes[0].values)
      CHECK((time(bandwidth) * 0.9 <= time(8e9)) == (bandwidth >= range.low));
  }
  CHECK(std::ranges::any_of(ranges, [](const KeptRange& range) { return !range.to_first; }));
}

TEST_CASE("kept range: a step time, up to how many machines, and around the best bucket") {
  const SweepQuestion sizes = question_over({"workers=4..256", "bandwidth=2Gb/s,20Gb/s"}, plans_named({"ddp"}));
  const std::vector<SweepRow> rows = swept(sizes);
  const std::vector<KeptRange> machines = kept_ranges_of(sizes, rows, kept_of("0.8", "test"));
  REQUIRE(machines.size() == 2);
  for (const KeptRange& range : machines) {
    REQUIRE(range.others.size() == 1);
    CAPTURE(range.others[0]);
    const auto rate = [&](double workers) {  // samples of a worker in a second: its batch stays
      Cluster cluster = *resized(sizes.cluster, static_cast<std::int64_t>(workers));
      cluster.network.bandwidth = BytesPerSecond(range.others[0]);
      return 1 / time_at(sizes, cluster, 0);
    };
    CHECK(range.to_first);
    CHECK(std::fmod(range.high, 4) == 0);
    CHECK(rate(range.high) >= 0.8 * rate(4));
    if (!range.to_last) CHECK(rate(range.high + 4) < 0.8 * rate(4));
  }
  CHECK(!machines[0].to_last);

  // A step that is between the first and the last one of the axis, one that none reaches, and one that all do.
  const auto step_of = [&](double seconds) {
    return kept_ranges_of(sizes, rows, Kept{.step = Seconds(seconds)}).front();
  };
  const double fastest = machines[0].best_step.value();
  const KeptRange some = step_of(fastest * 1.5), none = step_of(fastest * 0.9), all = step_of(fastest * 1000);
  CHECK((some.any && some.to_first && !some.to_last && some.high_step.value() <= fastest * 1.5));
  CHECK((none.runs && !none.any && none.best_step.value() == fastest));
  CHECK((all.to_first && all.to_last));

  const SweepQuestion buckets = question_over({"bucket=64KiB..256MiB"}, plans_named({"ddp"}));
  const KeptRange bucket = kept_ranges_of(buckets, swept(buckets), kept_of("95 %", "test")).front();
  CHECK(bucket.low <= bucket.best);
  CHECK(bucket.high >= bucket.best);
  CHECK(bucket.low == std::round(bucket.low));
  CHECK((!bucket.to_first || !bucket.to_last));
}

TEST_CASE("kept range: values that cannot run are passed over, and a better value than the grid's is taken") {
  SweepQuestion question = question_over({"workers=1,6,64"}, plans_named({"ddp"}), cluster_of_flags(64, 4, "100GbE"));
  // 6 workers are no whole number of machines of 4, and lie behind nothing.
  const KeptRange all = kept_ranges_of(question, swept(question), kept_of("1%", "test")).front();
  CHECK((all.to_first && all.to_last && all.high == 64));
  // Within a machine there are as many workers as one likes, and any share between those of 1 and 4 is kept by some.
  question.axes[0].values = {1, 4};
  const std::vector<SweepRow> rows = swept(question);
  const auto step = [&](std::int64_t workers) { return time_at(question, *resized(question.cluster, workers), 0); };
  const double between = (step(2) + step(3)) / 2;
  if (step(3) > between) {
    const KeptRange two = kept_ranges_of(question, rows, Kept{.step = Seconds(between)}).front();
    CHECK(two.high == 2);
    CHECK_FALSE(two.to_last);
  }
  // 5 workers cannot run, and nothing behind them does: what is kept ends before, at 4.
  question.axes[0].values = {1, 5};
  const KeptRange ends = kept_ranges_of(question, swept(question), kept_of("1%", "test")).front();
  CHECK(ends.high == 4);
  CHECK_FALSE(ends.to_last);

  // Both ends of the axis are poor buckets, and what lies between them is better than either.
  const SweepQuestion buckets = question_over({"bucket=4KiB,4GiB"}, plans_named({"ddp"}));
  const KeptRange bucket = kept_ranges_of(buckets, swept(buckets), kept_of("99%", "test")).front();
  CHECK(bucket.best_step <= bucket.low_step);
  CHECK(bucket.best_step <= bucket.high_step);
  CHECK((bucket.low <= bucket.best && bucket.best <= bucket.high));
  CHECK(bucket.low_step.value() * 0.99 <= bucket.best_step.value() * (1 + 1e-9));
  CHECK(bucket.high_step.value() * 0.99 <= bucket.best_step.value() * (1 + 1e-9));
}

TEST_CASE("kept range: what it says for people and programs, and what is refused") {
  const SweepQuestion question = question_over({"bandwidth=1Gb/s,10Gb/s"}, plans_named({"ddp", "ddp@switchml"}));
  const Kept kept = kept_of("100%", "test");
  const std::vector<KeptRange> ranges = kept_ranges_of(question, swept(question), kept);
  REQUIRE(ranges.size() == 2);
  CHECK((ranges[0].any && !ranges[1].runs));
  std::ostringstream text, csv, json;
  set_page(text, {.width = 300, .in_colour = false});
  write_kept_text(text, question, kept, ranges);
  CHECK(text.str().find("from 10 Gb/s on") != std::string::npos);
  CHECK(text.str().find("cannot run: ") != std::string::npos);
  write_kept_csv(csv, question, ranges);
  CHECK(csv.str().starts_with(
      "plan,axis,low,high,low_is_end,high_is_end,low_step_s,high_step_s,best,best_step_s,inapplicable\n"
      "ddp,bandwidth_bytes_per_s,"));
  CHECK(csv.str().find("\nddp@switchml,bandwidth_bytes_per_s,,,,,,,,,") != std::string::npos);
  CHECK(!ranges[1].inapplicable.empty());
  write_kept_json_lines(json, question, ranges);
  std::istringstream lines(json.str());
  std::string line;
  REQUIRE(std::getline(lines, line));
  const nlohmann::json first = nlohmann::json::parse(line);
  CHECK(first.at("high") == 1.25e9);
  CHECK(first.at("high_is_end") == true);
  CHECK(first.at("low_is_end") == false);
  CHECK(first.at("best_step_s") == ranges[0].best_step.value());
  REQUIRE(std::getline(lines, line));
  CHECK(nlohmann::json::parse(line).at("low").is_null());

  for (const char* wrong : {"0", "0%", "101%", "2", "-1", "nine", "90 Gb/s", "0 ms", "-3 ms", ""})
    CHECK_THROWS_AS((void)kept_of(wrong, "test"), InputError);
  const SweepQuestion choices = question_over({"padding=off,on"}, plans_named({"dear"}));
  CHECK_THROWS_AS((void)kept_ranges_of(choices, swept(choices), kept), InputError);
}

TEST_CASE("a sweep of all plans answers those that a recommendation would rank") {
  SweepQuestion question = question_over({"bandwidth=10Gb/s"}, {});
  question.all_plans = true;
  const std::vector<SweepRow> rows = swept(question);
  const std::vector<PlanSpec> plans = preset_plans_on(question.cluster);
  REQUIRE(rows.size() == plans.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i].plan == text_of(plans[i]));
    CHECK(fidelity_of(plans[i]) == Fidelity::exact);
  }
}

TEST_CASE("a plot has a panel for each value of the other axes, up to a dozen") {
  const SweepQuestion question =
      question_over({"bandwidth=1Gb/s..16Gb/s", "workers=8,16,32"}, plans_named({"ddp", "dear"}));
  std::ostringstream svg;
  write_sweep_svg(svg, question, swept(question));
  std::size_t panels = 0;
  for (std::size_t at = 0; (at = svg.str().find("class=\"title\"", at)) != std::string::npos; ++at) ++panels;
  CHECK(panels == 3);
  const SweepQuestion many = question_over({"bandwidth=1Gb/s", "workers=4..52:13"}, plans_named({"ddp"}));
  CHECK(refusal_of([&] { check_panels(many); }).find("at most 12 panels") != std::string::npos);
}
