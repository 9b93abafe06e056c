// The lab's measurements (real multi-process DDP over shaped links) against predictions from the all-reduce calibration
// plus the solo trace (real rows) or the recorded durations (emulated rows). Skips where the measurements are absent.
#include "helpers/shared_data.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/prediction/prediction.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

using namespace stepcast;

namespace {

// The emulated accelerator sleeps for recorded durations: gradients that become ready within 0.3 ms form one stage, and
// the forward time is spread over the stages in proportion to their backward time.
Profile emulated_profile(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  struct Stage {
    double first, last;
    std::vector<nlohmann::json> gradients;
  };
  auto gradients = json["gradients"].get<std::vector<nlohmann::json>>();
  std::sort(gradients.begin(), gradients.end(),
            [](const auto& a, const auto& b) { return a["ready_index"] < b["ready_index"]; });
  std::vector<Stage> stages;
  for (const auto& g : gradients) {
    const double ready = g["ready_ms"];
    if (stages.empty() || ready - stages.back().first >= 0.3) stages.push_back({ready, ready, {}});
    stages.back().last = std::max(stages.back().last, ready);
    stages.back().gradients.push_back(g);
  }
  Profile p;
  p.model = json["model"];
  p.provenance = "recorded durations of the lab";
  const double total = stages.back().last, forward = json["forward_ms"];
  const auto n = static_cast<std::uint32_t>(stages.size());
  double before = 0;
  p.layers.resize(n);
  for (std::uint32_t s = 0; s < n; ++s) {
    const std::uint32_t layer = n - 1 - s;
    const double backward = stages[s].last - before;
    before = stages[s].last;
    p.layers[layer].name = "stage" + std::to_string(layer);
    p.layers[layer].backward.host = milliseconds(backward);
    p.layers[layer].forward.host = milliseconds(forward * backward / total);
    p.backward_order.push_back(layer);
    for (const auto& g : stages[s].gradients)
      p.tensors.push_back({g["name"], g["shape"].get<std::vector<std::int64_t>>(), DataType::f32,
                           Bytes(g["bytes"].get<double>()), layer});
  }
  p.optimizer.host = milliseconds(json["optimizer_ms"]);
  p.step_times = {compute_time(p)};
  return checked(p, "lab");
}

Profile scaled_to(Profile p, Seconds step) {
  const double k = step / compute_time(p);
  for (Layer& l : p.layers) l.forward.host *= k, l.backward.host *= k;
  p.optimizer.host *= k, p.other.host *= k, p.input *= k;
  return p;
}

// The lab's names of strategies in stepcast's plan syntax; empty for compression, periods and other parallel layouts.
std::string plan_of(const std::string& lab) {
  const auto colon = lab.find(':');
  const std::string kind = lab.substr(0, colon),
                    size = colon == std::string::npos ? "" : lab.substr(colon + 1) + " MiB";
  if (kind == "ddp") return "ddp(bucket=" + size + ")";
  if (kind == "noov") return "bsp(bucket=" + size + ")";
  if (kind == "dear") return "dear(bucket=" + size + ")";
  return kind == "wfbp" ? "wfbp" : "";
}

// Median over the quiet rows of one configuration with two real workers.
Seconds quiet_step(const std::vector<std::map<std::string, std::string>>& rows, const std::string& model,
                   const std::string& strategy, const std::string& link) {
  std::vector<double> times;
  for (const auto& row : rows)
    if (row.at("model") == model && row.at("strategy") == strategy && row.at("link_mbit") == link &&
        row.at("quiet") == "yes")
      times.push_back(std::stod(row.at("iter_ms_median")));
  REQUIRE(!times.empty());
  std::sort(times.begin(), times.end());
  return milliseconds(times[times.size() / 2]);
}

double percentile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[static_cast<std::size_t>(q * static_cast<double>(v.size() - 1) + 0.5)];
}

}  // namespace

TEST_CASE("lab: predictions against measured steps") {
  const auto lab = test::shared_folder("lab");
  if (!lab) return;
  std::map<std::string, Profile> profiles;
  std::map<std::string, Seconds> solo;
  auto rows = test::csv_rows(test::text_of_file(*lab / "measured.csv"));
  for (auto& row : test::csv_rows(test::text_of_file(*lab / "measured_emulated_world4.csv"))) {
    row["quiet"] = "yes";
    rows.push_back(row);
  }
  for (const auto& row : rows)
    if (row.at("strategy") == "solo" && row.at("quiet") == "yes")
      solo[row.at("model")] = milliseconds(std::stod(row.at("iter_ms_median")));
  for (const std::string model : {"resnet18", "tfm4x256"}) {
    profiles["emu-" + model] = emulated_profile(test::text_of_file(*lab / ("gradients_" + model + ".json")));
    const test::File trace(*lab / "traces" / (model + "_w1_solo_rank0.json.gz"));
    profiles[model] = profile_of(trace_of(trace.source()));
  }
  std::vector<double> emulated, crowded, real, overlapped_fast;
  struct Pair {
    double measured, predicted;
    std::string strategy;
  };
  std::vector<Pair> order;
  std::printf("%-13s w link  plan        measured  predicted   error   rescaled\n", "lab: model");
  for (const auto& row : rows) {
    const std::string plan = plan_of(row.at("strategy"));
    if (row.at("quiet") != "yes" || plan.empty() || row.at("link_mbit") == "none") continue;
    const Cluster* base = shipped_cluster("lab-" + row.at("link_mbit") + "mbit");
    if (!base) continue;
    const Answer<Cluster> cluster = resized(*base, std::stoll(row.at("world")));
    REQUIRE(cluster);
    const double measured = std::stod(row.at("iter_ms_median"));
    const auto error_of = [&](const Profile& profile) {
      const Answer<Prediction> p = predicted(profile, *cluster, plan_spec_of(plan));
      REQUIRE(p);
      return p->iteration.value() * 1e3 / measured - 1;
    };
    const std::string& model = row.at("model");
    const double error = error_of(profiles.at(model));
    const bool emu = model.starts_with("emu-");
    const double rescaled = emu ? error : error_of(scaled_to(profiles.at(model), solo.at(model)));
    std::printf("%-13s %s %4s  %-10s %8.1f   %8.1f  %+5.1f %%  %+5.1f %%\n", model.c_str(), row.at("world").c_str(),
                row.at("link_mbit").c_str(), row.at("strategy").c_str(), measured, measured * (1 + error), 100 * error,
                100 * rescaled);
    // At 3 Gb/s two things outside the model show: four emulated workers keep the one core that carries all of them
    // busy, and real workers' communication threads wait for the core that computes. Both are printed, not judged.
    const bool fast = row.at("link_mbit") == "3000";
    auto& errors = emu ? (fast && row.at("world") == "4" ? crowded : emulated) : (fast ? overlapped_fast : real);
    errors.push_back(std::abs(rescaled));
    if (model == "resnet18" && row.at("link_mbit") == "1000")
      order.push_back({measured, measured * (1 + rescaled), row.at("strategy")});
  }
  const auto mean = [](const std::vector<double>& v) {
    double sum = 0;
    for (const double x : v) sum += x;
    return v.empty() ? 0 : sum / static_cast<double>(v.size());
  };
  const auto summary = [&](const char* name, const std::vector<double>& errors) {
    std::printf("%-44s %2zu rows, |error| mean %.1f %%, worst %.1f %%\n", name, errors.size(), 100 * mean(errors),
                100 * percentile(errors, 1));
  };
  summary("emulated", emulated);
  summary("emulated, 4 workers on one core at 3 Gb/s", crowded);
  summary("real compute, up to 1 Gb/s", real);
  summary("real compute, 3 Gb/s", overlapped_fast);
  CHECK(emulated.size() >= 10);
  CHECK(mean(emulated) <= 0.03);
  CHECK(percentile(emulated, 1) <= 0.08);
  CHECK(mean(real) <= 0.05);
  // Plans that are more than 5 % apart in the measurement are predicted in that order.
  for (const Pair& a : order)
    for (const Pair& b : order)
      if (a.measured * 1.05 < b.measured) {
        CAPTURE(a.strategy);
        CAPTURE(b.strategy);
        CHECK(a.predicted < b.predicted);
      }
}

TEST_CASE("lab: a DDP trace at one link rate predicts the step at another") {
  const auto lab = test::shared_folder("lab");
  if (!lab) return;
  const auto rows = test::csv_rows(test::text_of_file(*lab / "measured.csv"));
  const auto traced = [&](const std::string& rate) {
    std::vector<Trace> ranks;
    for (const char* rank : {"0", "1"}) {
      const test::File file(*lab / "traces" / ("resnet18_w2_ddp25_" + rate + "mbit_rank" + rank + ".json.gz"));
      ranks.push_back(trace_of(file.source()));
    }
    return profile_of(ranks);
  };
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"1000", "3000"}, {"3000", "1000"}}) {
    const Profile source = traced(from);
    const Seconds measured = quiet_step(rows, "resnet18", "ddp:25", to);
    const Cluster* cluster = shipped_cluster("lab-" + to + "mbit");
    REQUIRE(cluster);
    const Answer<Prediction> p = predicted(source, *cluster, plan_spec_of("ddp"));
    REQUIRE(p);
    const double error = p->iteration / measured - 1;
    std::printf("ddp25 trace at %s Mb/s predicts %.1f ms at %s Mb/s, measured %.1f ms: %+.1f %%\n", from.c_str(),
                p->iteration.value() * 1e3, to.c_str(), measured.value() * 1e3, 100 * error);
    CHECK(std::abs(error) < 0.25);
  }
}
