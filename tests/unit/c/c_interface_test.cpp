// The C interface against the C++ interface that it stands on: the same numbers, and for whatever callers do wrong a
// status with a reason.
#include <stepcast/stepcast.h>
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/cluster/cluster_description.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/prediction/model.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/question/question.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace {

/// Frees what a function of the interface made.
struct Free {
  void operator()(stepcast_error* p) const { stepcast_error_free(p); }
  void operator()(stepcast_text* p) const { stepcast_text_free(p); }
  void operator()(stepcast_profile* p) const { stepcast_profile_free(p); }
  void operator()(stepcast_cluster* p) const { stepcast_cluster_free(p); }
  void operator()(stepcast_model* p) const { stepcast_model_free(p); }
  void operator()(stepcast_scratch* p) const { stepcast_scratch_free(p); }
};
template <class T>
using Held = std::unique_ptr<T, Free>;

/// An error that is looked at as text.
struct Reason {
  Held<stepcast_error> held{stepcast_error_new()};
  operator stepcast_error*() const { return held.get(); }
  [[nodiscard]] std::string text() const { return stepcast_error_message(held.get()); }
  [[nodiscard]] bool says(std::string_view part) const { return text().find(part) != std::string::npos; }
};

std::string example_trace(const char* name = "resnet18-cpu-1-worker") {
  const auto path =
      std::filesystem::path(STEPCAST_SOURCE_DIR) / "profiles/examples" / (std::string(name) + ".pt.trace.json.gz");
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const char* const sixteen_workers[] = {"workers=16", "per-node=4", "network=1GbE", nullptr};
const char* const no_check[] = {"check=no", nullptr};

Held<stepcast_profile> profile_of(const std::string& bytes, const char* const* settings = no_check) {
  const Reason why;
  stepcast_profile* profile = nullptr;
  const stepcast_source source{"example", bytes.data(), bytes.size()};
  const stepcast_status status = stepcast_profile_of_sources(&source, 1, settings, &profile, why);
  INFO(why.text());
  REQUIRE(status == STEPCAST_ANSWERED);
  return Held<stepcast_profile>(profile);
}

Held<stepcast_cluster> cluster_of(const char* const* settings = sixteen_workers) {
  const Reason why;
  stepcast_cluster* cluster = nullptr;
  const stepcast_status status = stepcast_cluster_of_settings(settings, &cluster, why);
  INFO(why.text());
  REQUIRE(status == STEPCAST_ANSWERED);
  return Held<stepcast_cluster>(cluster);
}

Held<stepcast_model> example_model() {
  static const std::string bytes = example_trace();
  const auto profile = profile_of(bytes);
  const auto cluster = cluster_of();
  stepcast_model* model = nullptr;
  REQUIRE(stepcast_model_of(profile.get(), cluster.get(), nullptr, &model, nullptr) == STEPCAST_ANSWERED);
  return Held<stepcast_model>(model);  // outlives its profile and its cluster
}

/// The same by the C++ interface.
stepcast::Model example_model_of_library() {
  const std::string bytes = example_trace();
  const stepcast::Source source{"example", std::as_bytes(std::span(bytes)), {}};
  return stepcast::Model(stepcast::profile_of(stepcast::documents_of({&source, 1}), {}),
                         stepcast::cluster_of_flags(16, 4, "1GbE"));
}

nlohmann::json json_of(stepcast_text* text) {
  const Held<stepcast_text> held(text);
  CHECK(std::strlen(stepcast_text_data(text)) == stepcast_text_size(text));
  return nlohmann::json::parse(stepcast_text_data(text));
}

}  // namespace

TEST_CASE("C: one plan, several plans and one option over many values give the numbers of the C++ interface") {
  const auto model = example_model();
  const stepcast::Model library = example_model_of_library();
  const Reason why;
  const Held<stepcast_scratch> scratch(stepcast_scratch_new());
  const std::array<const char*, 5> plans = {"ddp", "dear(bucket=4 MiB)", "wfbp@hierarchical", "bytescheduler_ps",
                                            "ddp+powersgd(rank=4)"};
  std::vector<double> many(plans.size(), -1);
  REQUIRE(stepcast_model_iterations(model.get(), plans.data(), plans.size(), many.data(), 2, why) == STEPCAST_ANSWERED);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    CAPTURE(plans[i]);
    const auto expected = library.prediction(stepcast::plan_spec_of(plans[i]));
    double with_scratch = -1, without = -1;
    const auto status = stepcast_model_iteration(model.get(), plans[i], scratch.get(), &with_scratch, why);
    REQUIRE(status == (expected ? STEPCAST_ANSWERED : STEPCAST_INAPPLICABLE));
    CHECK(stepcast_model_iteration(model.get(), plans[i], nullptr, &without, why) == status);
    if (!expected) {
      CHECK(std::isnan(many[i]));
      CHECK(why.text() == expected.reason());
      continue;
    }
    CHECK(with_scratch == expected->iteration.value());
    CHECK(without == with_scratch);
    CHECK(many[i] == with_scratch);
  }
  const std::array<double, 4> buckets = {1e6, 4e6, -1, 25e6};
  std::array<double, 4> over{};
  REQUIRE(stepcast_model_iterations_over(model.get(), "dear", "bucket", buckets.data(), buckets.size(), over.data(), 1,
                                         why) == STEPCAST_ANSWERED);
  CHECK(std::isnan(over[2]));  // out of range
  for (const std::size_t i : {0, 1, 3}) {
    double one = 0;
    const std::string plan = "dear(bucket=" + std::to_string(static_cast<long>(buckets[i])) + " B)";
    REQUIRE(stepcast_model_iteration(model.get(), plan.c_str(), scratch.get(), &one, why) == STEPCAST_ANSWERED);
    CHECK(over[i] == one);
  }
  CHECK(stepcast_model_iterations(model.get(), nullptr, 0, nullptr, 1, why) == STEPCAST_ANSWERED);
}

TEST_CASE("C: a prediction as a structure, as JSON and in C++ is the same") {
  const auto model = example_model();
  const Reason why;
  stepcast_prediction out;
  out.struct_size = sizeof out;
  REQUIRE(stepcast_model_predict(model.get(), "dear(bucket=4 MiB)", &out, why) == STEPCAST_ANSWERED);
  const auto expected = example_model_of_library().prediction(stepcast::plan_spec_of("dear(bucket=4 MiB)"));
  REQUIRE(expected);
  CHECK(out.struct_size == sizeof out);
  CHECK(out.iteration_s == expected->iteration.value());
  CHECK(out.interval_low_s == expected->interval_low.value());
  CHECK(out.interval_high_s == expected->interval_high.value());
  CHECK(out.step_spread_s == expected->step_spread.value());
  CHECK(out.messages == static_cast<std::int64_t>(expected->messages));
  CHECK(out.steady == 1);
  CHECK(out.throughput_samples_per_s == doctest::Approx(16 * 16 / out.iteration_s));
  CHECK(out.iteration_s == doctest::Approx(out.compute_s + out.exposed_communication_s + out.codec_s +
                                           out.input_stall_s + out.bubble_s + out.idle_s));
  stepcast_text* text = nullptr;
  REQUIRE(stepcast_model_prediction_json(model.get(), "dear(bucket=4 MiB)", &text, why) == STEPCAST_ANSWERED);
  const nlohmann::json json = json_of(text);
  CHECK(json["schema"] == "stepcast.prediction/1");
  CHECK(json["iteration_s"] == out.iteration_s);
  CHECK(json["breakdown_s"]["exposed_communication"] == out.exposed_communication_s);
  CHECK(json["breakdown_s"]["hidden_communication"] == out.hidden_communication_s);
}

TEST_CASE("C: a program with an older or a newer structure gets what it has room for and no more") {
  const auto model = example_model();
  const Reason why;
  stepcast_prediction exact;
  exact.struct_size = sizeof exact;
  REQUIRE(stepcast_model_predict(model.get(), "ddp", &exact, why) == STEPCAST_ANSWERED);

  alignas(stepcast_prediction) std::array<unsigned char, sizeof(stepcast_prediction) + 32> room;
  room.fill(0xA5);
  auto* newer = new (room.data()) stepcast_prediction;
  newer->struct_size = sizeof(stepcast_prediction) + 16;
  REQUIRE(stepcast_model_predict(model.get(), "ddp", newer, why) == STEPCAST_ANSWERED);
  CHECK(newer->iteration_s == exact.iteration_s);
  CHECK(newer->steady == exact.steady);
  for (std::size_t i = sizeof(stepcast_prediction); i < room.size(); ++i)
    CHECK(int{room[i]} == (i < newer->struct_size ? 0 : 0xA5));

  for (const std::size_t wrong : {std::size_t{0}, std::size_t{8}, offsetof(stepcast_prediction, steady),
                                  std::numeric_limits<std::size_t>::max()}) {
    stepcast_prediction out;
    out.struct_size = wrong;
    out.iteration_s = -1;
    CHECK(stepcast_model_predict(model.get(), "ddp", &out, why) == STEPCAST_INPUT_ERROR);
    CHECK(why.says("sizeof(stepcast_prediction)"));
    CHECK(out.iteration_s == -1);
  }
}

TEST_CASE("C: profiles and clusters read back from their JSON, and other clusters share a model's profile") {
  const auto profile = profile_of(example_trace());
  CHECK(std::string(stepcast_profile_notes(profile.get())).empty());
  stepcast_text* text = nullptr;
  REQUIRE(stepcast_profile_json(profile.get(), &text, nullptr) == STEPCAST_ANSWERED);
  const Held<stepcast_text> profile_text(text);
  const auto again = profile_of(stepcast_text_data(text), nullptr);
  REQUIRE(stepcast_profile_json(again.get(), &text, nullptr) == STEPCAST_ANSWERED);
  CHECK(std::string(stepcast_text_data(text)) == stepcast_text_data(profile_text.get()));
  stepcast_text_free(text);

  const auto cluster = cluster_of();
  REQUIRE(stepcast_cluster_json(cluster.get(), &text, nullptr) == STEPCAST_ANSWERED);
  const Held<stepcast_text> cluster_text(text);
  const Reason why;
  const char* const more[] = {"workers=32", nullptr};
  stepcast_cluster* larger = nullptr;
  REQUIRE(stepcast_cluster_of_json("mine", stepcast_text_data(text), stepcast_text_size(text), more, &larger, why) ==
          STEPCAST_ANSWERED);
  const Held<stepcast_cluster> held(larger);

  const auto model = example_model();
  stepcast_model* other = nullptr;
  REQUIRE(stepcast_model_on(model.get(), larger, &other, why) == STEPCAST_ANSWERED);
  const Held<stepcast_model> held_other(other);
  double seconds = 0, here = 0;
  REQUIRE(stepcast_model_iteration(other, "ddp", nullptr, &seconds, why) == STEPCAST_ANSWERED);
  REQUIRE(stepcast_model_iteration(model.get(), "ddp", nullptr, &here, why) == STEPCAST_ANSWERED);
  CHECK(seconds > here);
  const auto expected = example_model_of_library().on(stepcast::cluster_of_flags(32, 4, "1GbE"));
  CHECK(seconds == expected.prediction(stepcast::plan_spec_of("ddp"))->iteration.value());
}

TEST_CASE("C: what is asked of recordings alone is the record of the program") {
  const std::string ranks[] = {example_trace("gpt-cpu-ddp-rank0"), example_trace("gpt-cpu-ddp-rank1")};
  const stepcast_source sources[] = {{"rank0", ranks[0].data(), ranks[0].size()},
                                     {"rank1", ranks[1].data(), ranks[1].size()}};
  const Reason why;
  stepcast_text* text = nullptr;
  REQUIRE(stepcast_explanation_json(sources, 2, nullptr, &text, why) == STEPCAST_ANSWERED);
  const nlohmann::json explanation = json_of(text);
  CHECK(explanation["schema"] == "stepcast.explanation/1");
  CHECK(explanation["verdict"] == "change this");
  REQUIRE(stepcast_lateness_json(sources, 2, nullptr, &text, why) == STEPCAST_ANSWERED);
  const nlohmann::json lateness = json_of(text);
  CHECK(lateness["schema"] == "stepcast.lateness/1");
  CHECK(lateness["ranks"].size() == 2);
  REQUIRE(stepcast_difference_json(&sources[0], &sources[1], nullptr, &text, why) == STEPCAST_ANSWERED);
  CHECK(json_of(text)["schema"] == "stepcast.difference/1");

  text = nullptr;
  CHECK(stepcast_lateness_json(sources, 1, nullptr, &text, why) == STEPCAST_INPUT_ERROR);
  CHECK(why.says("the traces of several ranks"));
  CHECK(stepcast_explanation_json(sources, 0, nullptr, &text, why) == STEPCAST_INPUT_ERROR);
  CHECK(stepcast_difference_json(nullptr, &sources[1], nullptr, &text, why) == STEPCAST_INPUT_ERROR);
  CHECK(why.says("before"));
  const char* const unknown[] = {"parameters=5M", nullptr};
  CHECK(stepcast_difference_json(&sources[0], &sources[1], unknown, &text, why) == STEPCAST_INPUT_ERROR);
  const stepcast_source other{"table", "{}", 2};
  CHECK(stepcast_explanation_json(&other, 1, nullptr, &text, why) == STEPCAST_INPUT_ERROR);
  CHECK(text == nullptr);
}

TEST_CASE("C: the self-check and the recommendation are the records of the program") {
  const auto profile = profile_of(example_trace(), nullptr);
  CHECK(std::string(stepcast_profile_caution(profile.get())).empty());
  stepcast_text* text = nullptr;
  REQUIRE(stepcast_profile_check_json(profile.get(), &text, nullptr) == STEPCAST_ANSWERED);
  CHECK(json_of(text)["schema"] == "stepcast.replay/1");

  const auto model = example_model();
  const Reason why;
  const char* const settings[] = {"plan=ddp", "plan=dear", "tune=no", "sensitivity=no", nullptr};
  REQUIRE(stepcast_model_recommendation_json(model.get(), settings, &text, why) == STEPCAST_ANSWERED);
  const nlohmann::json ranking = json_of(text);
  CHECK(ranking["predictions"].size() == 2);
  CHECK(ranking["baseline"]["plan"] == "ddp");

  const char* const impossible[] = {"plan=dear@switchml", "plan=ddp@switchml", nullptr};
  const stepcast_status status = stepcast_model_recommendation_json(model.get(), impossible, &text, why);
  CHECK(status == STEPCAST_INAPPLICABLE);
  REQUIRE(text);
  CHECK(json_of(text)["inapplicable"].size() == 2);
}

TEST_CASE("C: a profile of the recorded step answers as the library does, and refuses what is of the model of layers") {
  const std::string bytes = example_trace("gpt-cpu-ddp-rank0");
  const char* const settings[] = {"recorded=yes", nullptr};
  const char* const two_workers[] = {"workers=2", "network=1Gb/s", nullptr};
  const auto profile = profile_of(bytes, settings);
  const auto cluster = cluster_of(two_workers);
  const Reason why;
  stepcast_model* made = nullptr;
  REQUIRE(stepcast_model_of(profile.get(), cluster.get(), nullptr, &made, why) == STEPCAST_ANSWERED);
  const Held<stepcast_model> model(made);

  const stepcast::Source source{"example", std::as_bytes(std::span(bytes)), {}};
  const stepcast::Documents documents = stepcast::documents_of({&source, 1});
  const stepcast::PreparedQuestion question(
      {.profile = stepcast::profile_of(documents, {}), .cluster = stepcast::cluster_of_flags(2, 1, "1Gb/s")});
  const stepcast::SelfCheck check = stepcast::recorded_check_of(documents, *question.profile(), "--recorded");
  const auto expected = [&](const char* plan) {
    return stepcast::checked_answer(check, question, stepcast::plan_of(plan))->iteration.value();
  };
  double step = 0;
  REQUIRE(stepcast_model_iteration(model.get(), "wfbp", nullptr, &step, why) == STEPCAST_ANSWERED);
  CHECK(step == expected("wfbp"));
  const char* const plans[] = {"wfbp", "dear"};
  std::array<double, 2> steps{};
  REQUIRE(stepcast_model_iterations(model.get(), plans, 2, steps.data(), 1, why) == STEPCAST_ANSWERED);
  CHECK(steps[0] == step);
  CHECK(std::isnan(steps[1]));
  const std::array<double, 2> buckets{1 << 20, -1};
  REQUIRE(stepcast_model_iterations_over(model.get(), "ddp", "bucket", buckets.data(), 2, steps.data(), 1, why) ==
          STEPCAST_ANSWERED);
  CHECK(steps[0] == expected("ddp(bucket=1 MiB)"));
  CHECK(std::isnan(steps[1]));
  stepcast_text* text = nullptr;
  REQUIRE(stepcast_model_prediction_json(model.get(), "wfbp", &text, why) == STEPCAST_ANSWERED);
  CHECK(json_of(text)["iteration_s"] == step);
  stepcast_prediction prediction{.struct_size = sizeof(stepcast_prediction)};
  REQUIRE(stepcast_model_predict(model.get(), "wfbp", &prediction, why) == STEPCAST_ANSWERED);
  CHECK(prediction.iteration_s == step);

  CHECK(stepcast_model_iteration(model.get(), "dear", nullptr, &step, why) == STEPCAST_INAPPLICABLE);
  CHECK(why.says("in the recorded step"));
  const char* const divided[] = {"wfbp", "layout(tp=2)/ddp"};
  steps = {7, 7};
  CHECK(stepcast_model_iterations(model.get(), divided, 2, steps.data(), 1, why) == STEPCAST_INPUT_ERROR);
  CHECK(why.says("plans that divide the batch only"));
  CHECK(steps[0] == 7);
  const char* const changed[] = {"what=batch(to=8)", nullptr};
  stepcast_model* other = nullptr;
  CHECK(stepcast_model_of(profile.get(), cluster.get(), changed, &other, why) == STEPCAST_INPUT_ERROR);
  CHECK(why.says("the job as it was recorded"));
  const char* const slower[] = {"recorded=yes", "step=400ms", nullptr};
  const char* const unchecked[] = {"recorded=yes", "check=no", nullptr};
  stepcast_profile* none = nullptr;
  const stepcast_source given{"example", bytes.data(), bytes.size()};
  CHECK(stepcast_profile_of_sources(&given, 1, slower, &none, why) == STEPCAST_INPUT_ERROR);
  CHECK(why.says("the step as it was recorded"));
  CHECK(stepcast_profile_of_sources(&given, 1, unchecked, &none, why) == STEPCAST_INPUT_ERROR);
  CHECK(why.says("the self-check"));
}

TEST_CASE("C: what feeds the steps, whole runs and a ranking by step are settings") {
  const auto profile = profile_of(example_trace(), nullptr);
  const char* const words[] = {"workers=4", "network=10GbE", "servers=4", nullptr};
  stepcast_cluster* cluster = nullptr;
  const Reason why;
  REQUIRE(stepcast_cluster_of_settings(words, &cluster, why) == STEPCAST_ANSWERED);
  const Held<stepcast_cluster> held_cluster(cluster);
  const char* const asked[] = {
      "what=input(dataset=146GB, samples=1281167, storage=5MB/s, prep=199, workers=8, cache=0.4)", "iterations=100000",
      nullptr};
  stepcast_model* model = nullptr;
  REQUIRE(stepcast_model_of(profile.get(), cluster, asked, &model, why) == STEPCAST_ANSWERED);
  const Held<stepcast_model> held_model(model);
  stepcast_prediction delayed{}, plain{};
  delayed.struct_size = plain.struct_size = sizeof(stepcast_prediction);
  REQUIRE(stepcast_model_predict(model, "cd_sgd", &delayed, why) == STEPCAST_ANSWERED);
  REQUIRE(stepcast_model_predict(model, "dist_sync", &plain, why) == STEPCAST_ANSWERED);
  CHECK(delayed.warm_up_s == doctest::Approx(1000 * plain.iteration_s));
  CHECK(delayed.run_s == doctest::Approx(1000 * plain.iteration_s + 99000 * delayed.iteration_s));
  CHECK(plain.fetch_stall_s > 0);
  CHECK(plain.prep_stall_s >= 0);
  CHECK(plain.sufficient_cache > 0.4);
  CHECK(plain.sufficient_workers >= 1);

  const char* const by_step[] = {"plan=cd_sgd",   "plan=od_sgd", "tune=no", "sensitivity=no",
                                 "iterations=10", "by-step=yes", nullptr};
  stepcast_text* text = nullptr;
  REQUIRE(stepcast_model_recommendation_json(model, by_step, &text, why) == STEPCAST_ANSWERED);
  const nlohmann::json ranking = json_of(text);
  CHECK(ranking["others"][0]["run"]["iterations"] == 10);
  // Without names, `by-step` puts what needs servers among the rest.
  const auto steps_of = [&](const char* const* settings) {
    REQUIRE(stepcast_model_recommendation_json(model, settings, &text, why) == STEPCAST_ANSWERED);
    const nlohmann::json all = json_of(text);
    std::vector<double> steps;
    for (const auto& plan : all["predictions"]) steps.push_back(plan["iteration_s"]);
    return steps;
  };
  const char* const quick[] = {"tune=no", "sensitivity=no", "by-step=yes", nullptr};
  const std::vector<double> ranked = steps_of(quick);
  CHECK(std::is_sorted(ranked.begin() + 1, ranked.end()));
  const char* const wrong[] = {"by-step=perhaps", nullptr};
  CHECK(stepcast_model_recommendation_json(model, wrong, &text, why) == STEPCAST_INPUT_ERROR);
}

TEST_CASE("C: null pointers are input errors, and freeing nothing is nothing") {
  stepcast_error_free(nullptr), stepcast_text_free(nullptr), stepcast_profile_free(nullptr);
  stepcast_cluster_free(nullptr), stepcast_model_free(nullptr), stepcast_scratch_free(nullptr);
  CHECK(std::string(stepcast_error_message(nullptr)).empty());
  CHECK(std::string(stepcast_text_data(nullptr)).empty());
  CHECK(stepcast_text_size(nullptr) == 0);
  CHECK(std::string(stepcast_profile_caution(nullptr)).empty());

  const auto model = example_model();
  const auto cluster = cluster_of();
  const auto profile = profile_of(example_trace());
  const Reason why;
  const auto refused = [&](stepcast_status status) {
    CHECK(status == STEPCAST_INPUT_ERROR);
    CHECK(why.says("null pointer"));
  };
  stepcast_profile* p = nullptr;
  stepcast_cluster* c = nullptr;
  stepcast_model* m = nullptr;
  stepcast_text* t = nullptr;
  double seconds = 7;
  const char* const plans[] = {"ddp", nullptr};
  const stepcast_source nowhere{"nowhere", nullptr, 10};
  stepcast_prediction prediction;
  prediction.struct_size = sizeof prediction;
  refused(stepcast_profile_of_sources(nullptr, 1, nullptr, &p, why));
  refused(stepcast_profile_of_sources(&nowhere, 1, nullptr, &p, why));
  refused(stepcast_profile_of_sources(&nowhere, 1, nullptr, nullptr, why));
  refused(stepcast_profile_json(nullptr, &t, why));
  refused(stepcast_profile_check_json(nullptr, &t, why));
  refused(stepcast_profile_json(profile.get(), nullptr, why));
  refused(stepcast_cluster_of_settings(sixteen_workers, nullptr, why));
  refused(stepcast_cluster_of_json("x", nullptr, 5, nullptr, &c, why));
  refused(stepcast_cluster_json(nullptr, &t, why));
  refused(stepcast_model_of(nullptr, cluster.get(), nullptr, &m, why));
  refused(stepcast_model_of(profile.get(), nullptr, nullptr, &m, why));
  refused(stepcast_model_of(profile.get(), cluster.get(), nullptr, nullptr, why));
  refused(stepcast_model_on(nullptr, cluster.get(), &m, why));
  refused(stepcast_model_iteration(nullptr, "ddp", nullptr, &seconds, why));
  refused(stepcast_model_iteration(model.get(), nullptr, nullptr, &seconds, why));
  refused(stepcast_model_iteration(model.get(), "ddp", nullptr, nullptr, why));
  refused(stepcast_model_iterations(model.get(), nullptr, 1, &seconds, 1, why));
  refused(stepcast_model_iterations(model.get(), plans, 2, &seconds, 1, why));
  refused(stepcast_model_iterations(model.get(), plans, 1, nullptr, 1, why));
  refused(stepcast_model_iterations_over(model.get(), "ddp", nullptr, &seconds, 1, &seconds, 1, why));
  refused(stepcast_model_iterations_over(model.get(), "ddp", "bucket", nullptr, 1, &seconds, 1, why));
  refused(stepcast_model_predict(model.get(), nullptr, &prediction, why));
  refused(stepcast_model_predict(model.get(), "ddp", nullptr, why));
  refused(stepcast_model_prediction_json(nullptr, "ddp", &t, why));
  refused(stepcast_model_recommendation_json(nullptr, nullptr, &t, why));
  refused(stepcast_model_recommendation_json(model.get(), nullptr, nullptr, why));
  CHECK(seconds == 7);
  CHECK((p == nullptr && c == nullptr && m == nullptr && t == nullptr));
  CHECK(stepcast_model_iteration(model.get(), nullptr, nullptr, &seconds, nullptr) == STEPCAST_INPUT_ERROR);
}

TEST_CASE("C: wrong texts are input errors that say where") {
  const auto model = example_model();
  const Reason why;
  double seconds[2] = {7, 7};
  const auto part = [&](auto* of) { return std::string(of(why)); };

  CHECK(stepcast_model_iteration(model.get(), "deer", nullptr, seconds, why) == STEPCAST_INPUT_ERROR);
  CHECK(why.says("did you mean 'dear'?"));
  CHECK(part(stepcast_error_hint) == "did you mean 'dear'?");
  CHECK(!part(stepcast_error_where).empty());
  CHECK(!part(stepcast_error_expected).empty());
  CHECK(!part(stepcast_error_found).empty());
  const char* const plans[] = {"ddp", "dear(bucket=)"};
  CHECK(stepcast_model_iterations(model.get(), plans, 2, seconds, 1, why) == STEPCAST_INPUT_ERROR);
  CHECK(part(stepcast_error_where).starts_with("plans[1]"));
  CHECK(stepcast_model_iteration(model.get(), "ddp(bucket=auto)", nullptr, seconds, why) == STEPCAST_INPUT_ERROR);
  CHECK(why.says("'auto'"));
  CHECK(stepcast_model_iterations_over(model.get(), "dear", "buckets", seconds, 1, seconds, 1, why) ==
        STEPCAST_INPUT_ERROR);
  CHECK(why.says("did you mean 'bucket'?"));
  CHECK(seconds[0] == 7);
  CHECK(stepcast_model_iteration(model.get(), "ddp", nullptr, seconds, why) == STEPCAST_ANSWERED);
  CHECK(why.text().empty());  // of the last call only
  CHECK(part(stepcast_error_where).empty());

  const auto cluster_error = [&](std::vector<const char*> settings) {
    settings.push_back(nullptr);
    stepcast_cluster* cluster = nullptr;
    CHECK(stepcast_cluster_of_settings(settings.data(), &cluster, why) == STEPCAST_INPUT_ERROR);
    CHECK(!cluster);
    return why.text();
  };
  CHECK(cluster_error({"worker=16"}).find("did you mean 'workers'?") != std::string::npos);
  CHECK(cluster_error({"workers"}).find("key=value") != std::string::npos);
  CHECK(cluster_error({"workers=4", "workers=8"}).find("two") != std::string::npos);
  CHECK(cluster_error({"workers=4", "network=10"}).starts_with("network"));
  CHECK(cluster_error({"workers=six", "network=10GbE"}).starts_with("workers"));
  CHECK(cluster_error({}).find("cluster") != std::string::npos);

  const auto source_error = [&](std::string_view bytes, std::vector<const char*> settings) {
    settings.push_back(nullptr);
    const stepcast_source source{"run.json", bytes.data(), bytes.size()};
    stepcast_profile* profile = nullptr;
    CHECK(stepcast_profile_of_sources(&source, 1, settings.data(), &profile, why) == STEPCAST_INPUT_ERROR);
    CHECK(!profile);
    return why.text();
  };
  CHECK(source_error("", {}).starts_with("run.json"));
  CHECK(source_error("nonsense", {}).starts_with("run.json"));
  CHECK(source_error("x", {"strict=maybe"}).starts_with("strict"));
  CHECK(source_error("x", {"batch=0"}).starts_with("batch"));
  CHECK(source_error("x", {"batch=many"}).starts_with("batch"));
  CHECK(source_error("x", {"model=nobody"}).starts_with("model"));
  stepcast_profile* profile = nullptr;
  CHECK(stepcast_profile_of_sources(nullptr, 0, nullptr, &profile, why) == STEPCAST_INPUT_ERROR);

  stepcast_text* text = nullptr;
  const char* const bad[][2] = {
      {"allow=loud", nullptr}, {"tune=perhaps", nullptr}, {"search=deep", nullptr}, {"plan=deer", nullptr}};
  for (const auto& settings : bad) {
    CHECK(stepcast_model_recommendation_json(model.get(), settings, &text, why) == STEPCAST_INPUT_ERROR);
    CHECK(!text);
  }
}

TEST_CASE("C: another device than the traced one needs an assumption") {
  const auto profile = profile_of(example_trace());
  const char* const gpus[] = {"cluster=32x8-a100-800gbib", nullptr};
  const auto cluster = cluster_of(gpus);
  const Reason why;
  stepcast_model* model = nullptr;
  CHECK(stepcast_model_of(profile.get(), cluster.get(), nullptr, &model, why) == STEPCAST_INPUT_ERROR);
  CHECK(!model);
  CHECK(why.says("faster-compute"));
  const char* const same[] = {"same-device=yes", nullptr};
  const char* const faster[] = {"faster-compute=4", nullptr};
  double seconds[2] = {};
  for (const auto& [settings, out] : {std::pair(same, &seconds[0]), std::pair(faster, &seconds[1])}) {
    REQUIRE(stepcast_model_of(profile.get(), cluster.get(), settings, &model, why) == STEPCAST_ANSWERED);
    const Held<stepcast_model> held(model);
    CHECK(stepcast_model_iteration(model, "ddp", nullptr, out, why) == STEPCAST_ANSWERED);
  }
  CHECK(seconds[1] < seconds[0]);
  const char* const wrong[] = {"faster-compute=-1", nullptr};
  CHECK(stepcast_model_of(profile.get(), cluster.get(), wrong, &model, why) == STEPCAST_INPUT_ERROR);
  const auto here = example_model();
  CHECK(stepcast_model_on(here.get(), cluster.get(), &model, why) == STEPCAST_INPUT_ERROR);

  // A model that assumes faster devices does not go back to the traced ones, which are slower.
  const std::string json = stepcast::json_of(stepcast::cluster_of_flags(8, 1, "10GbE"));
  const auto on = [&](const char* device) {
    stepcast::Cluster named = stepcast::cluster_of_json(json, "test");
    named.device = device;
    const std::string text_of_named = stepcast::json_of(named);
    stepcast_cluster* made = nullptr;
    REQUIRE(stepcast_cluster_of_json("test", text_of_named.data(), text_of_named.size(), nullptr, &made, why) ==
            STEPCAST_ANSWERED);
    return Held<stepcast_cluster>(made);
  };
  const auto traced = on(example_model_of_library().profile().device.c_str());
  REQUIRE(stepcast_model_of(profile.get(), cluster.get(), faster, &model, why) == STEPCAST_ANSWERED);
  const Held<stepcast_model> assumed(model);
  CHECK(stepcast_model_on(assumed.get(), on("another device").get(), &model, why) == STEPCAST_INPUT_ERROR);
  CHECK(why.says("A100"));
  if (!example_model_of_library().profile().device.empty())
    CHECK(stepcast_model_on(assumed.get(), traced.get(), &model, why) == STEPCAST_INPUT_ERROR);
  REQUIRE(stepcast_model_on(assumed.get(), on("").get(), &model, why) == STEPCAST_ANSWERED);
  stepcast_model_free(model);
}

TEST_CASE("C: layouts, what-ifs and a shared batch are answered as PreparedQuestion answers them") {
  static const std::string bytes = example_trace();
  const char* const settings[] = {"what=scale(layers=*, host=0.5)", "global-batch=256", nullptr};
  const auto profile = profile_of(bytes);
  const auto cluster = cluster_of();
  const Reason why;
  stepcast_model* made = nullptr;
  REQUIRE(stepcast_model_of(profile.get(), cluster.get(), settings, &made, why) == STEPCAST_ANSWERED);
  const Held<stepcast_model> model(made);
  const stepcast::Source source{"example", std::as_bytes(std::span(bytes)), {}};
  const stepcast::PreparedQuestion question(
      {.profile = stepcast::profile_of(stepcast::documents_of({&source, 1}), {}),
       .cluster = stepcast::cluster_of({.workers = "16", .per_node = "4", .network = "1GbE"}),
       .changes = stepcast::scenario_of("scale(layers=*, host=0.5)"),
       .global_batch = 256});
  const char* const plans[] = {"layout(zero=1)/dear(bucket=5 MiB)", "ddp(bucket=2 MiB)", "layout(tp=3)/ddp"};
  std::array<double, 3> many{};
  REQUIRE(stepcast_model_iterations(model.get(), plans, 3, many.data(), 1, why) == STEPCAST_ANSWERED);
  for (std::size_t i = 0; i < 2; ++i) {
    CAPTURE(plans[i]);
    const auto asked = question.answer(stepcast::plan_of(plans[i]));
    REQUIRE(asked);
    stepcast_prediction prediction{.struct_size = sizeof(stepcast_prediction)};
    REQUIRE(stepcast_model_predict(model.get(), plans[i], &prediction, why) == STEPCAST_ANSWERED);
    CHECK(prediction.iteration_s == asked->iteration.value());
    double alone = 0;
    REQUIRE(stepcast_model_iteration(model.get(), plans[i], nullptr, &alone, why) == STEPCAST_ANSWERED);
    CHECK(alone == asked->iteration.value());
    CHECK(many[i] == asked->iteration.value());
  }
  CHECK(std::isnan(many[2]));
  const double buckets[] = {1048576, -1};
  std::array<double, 2> over{};
  REQUIRE(stepcast_model_iterations_over(model.get(), "layout(zero=1)/ddp", "bucket", buckets, 2, over.data(), 1,
                                         why) == STEPCAST_ANSWERED);
  CHECK(over[0] == question.answer(stepcast::plan_of("layout(zero=1)/ddp(bucket=1 MiB)"))->iteration.value());
  CHECK(std::isnan(over[1]));
  stepcast_text* json = nullptr;
  CHECK(stepcast_model_recommendation_json(model.get(), nullptr, &json, why) == STEPCAST_INPUT_ERROR);
  CHECK(why.says("global-batch"));
}

TEST_CASE("C: one model is shared by threads, each with its own scratch and error") {
  const auto model = example_model();
  constexpr std::size_t count = 40;
  std::array<std::array<double, count>, 4> seconds{};
  {
    std::vector<std::jthread> threads;
    for (auto& own : seconds)
      threads.emplace_back([&model, &own] {
        const Reason why;
        const Held<stepcast_scratch> scratch(stepcast_scratch_new());
        for (std::size_t i = 0; i < count; ++i) {
          const std::string plan = (i % 2 ? "dear(bucket=" : "ddp(bucket=") + std::to_string(1 + i / 2) + " MiB)";
          (void)stepcast_model_iteration(model.get(), plan.c_str(), scratch.get(), &own[i], why);
        }
      });
  }
  for (const auto& own : seconds) {
    CHECK(own == seconds[0]);
    CHECK(own[0] > 0);
  }
  CHECK(std::string(stepcast_version()).find('.') != std::string::npos);
}
