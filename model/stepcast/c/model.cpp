// The C interface (stepcast.h): models.
#include <stepcast/base/spec_reader.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/baseline/recorded_refusals.hpp>
#include <stepcast/c/handles.hpp>
#include <stepcast/c/settings.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/report/report.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <sstream>
#include <string_view>
#include <vector>

namespace stepcast {
namespace {

constexpr std::string_view model_keys[] = {"same-device", "faster-compute", "what", "global-batch", "iterations"};
constexpr std::string_view recommendation_keys[] = {"allow",       "plan",    "tune",      "search",
                                                    "sensitivity", "by-step", "iterations"};

const char* needed_text(const char* text, const char* name) { return &c_needed(text, name); }

/// The span behind a pointer and a count, both from a caller.
template <class T>
std::span<T> needed_span(T* first, std::size_t count, const char* name) {
  return count == 0 ? std::span<T>() : std::span<T>(&c_needed(first, name), count);
}

Plan plan_at(const char* text, const std::string& name) {
  try {
    return plan_of(needed_text(text, "plan"));
  } catch (const InputError& error) {
    if (name.empty()) throw;
    throw InputError(name + (error.where.empty() ? "" : ": " + error.where), error.expected, error.found, error.hint);
  }
}

/// The position of an option among those of the plan's strategy. Throws InputError.
std::size_t option_of(const PlanSpec& plan, std::string_view name) {
  std::vector<std::string> names;
  for (const OptionSpec& option : plan.strategy->options) names.emplace_back(option.name);
  const auto at = std::ranges::find(names, name);
  if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
  throw InputError("option", "an option of '" + std::string(plan.strategy->name) + "'", in_quotes(name),
                   did_you_mean(name, names));
}

/// Plans of the hot loop are computed as they stand. Throws InputError when an option, `but` for one, is to be tuned.
const PlanSpec& refuse_open_options(const PlanSpec& plan, const std::string& where, std::size_t but = most_options) {
  const auto refuse = [&](std::span<const OptionSpec> specs, const OptionValues& values, std::size_t spared) {
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (i != spared && std::isnan(values[i]))
        throw InputError(where, "a value of option '" + std::string(specs[i].name) + "'", "'auto'",
                         "stepcast_model_predict tunes it");
  };
  refuse(plan.strategy->options, plan.options, but);
  for (const ModifierSpec& modifier : plan.modifiers)
    refuse(modifier.modifier->options, modifier.options, most_options);
  return plan;
}

/// What was assumed of the compute holds for the devices of the model's own cluster, and for no others.
void refuse_other_devices(const Model& model, const Cluster& other) {
  const std::string& here = model.cluster().device;
  if (here.empty()) {
    (void)profile_on(other, model.profile(), {}, "");
  } else if (!other.device.empty() && !same_device(other.device, here)) {
    throw InputError("cluster", "the devices of the model (" + here + ")", in_quotes(other.device),
                     "make a new model for them");
  }
}

/// A ranking is of plans that divide the batch only, each over the collective that it names.
void refuse_ranking(const PreparedQuestion& question) {
  if (question.divides(plan_of("ddp")))
    throw InputError("model", "one without global-batch, which layouts share out", "one with it",
                     "ask stepcast_model_iterations for layouts by name");
  if (!question.after_changes(PlanSpec{}).collective.empty())
    throw InputError("model", "what-ifs of the step", "one of the collective",
                     "name the collective behind each plan: 'ddp@ring'");
}

double step_or_nan(const Answer<Prediction>& answer) { return answer ? answer->iteration.value() : std::nan(""); }

/// The name of a field, for templates.
template <std::size_t size>
struct Name {
  char text[size];
  constexpr Name(const char (&name)[size]) { std::copy_n(name, size, text); }
};

/// The value that a result lists under this name, as C has it. A name that it does not list does not compile.
template <Name name, HasFields T>
auto value_of(const T& result) {
  constexpr std::size_t place = [] {
    std::size_t at = 0, found = std::size_t(-1);
    for_each_field<T>([&](const auto& field) {
      if (std::string_view(field.name) == name.text) found = at;
      ++at;
    });
    return found;
  }();
  const auto value = std::invoke(std::get<place>(result_fields<T>).get, result);
  if constexpr (requires { value.value(); }) return value.value();
  else if constexpr (std::is_integral_v<decltype(value)>) return static_cast<std::int64_t>(value);
  else return value;
}

stepcast_prediction plain(const Prediction& p) {
  const Breakdown& b = p.breakdown;
  const TrainingRun run = p.run.value_or(TrainingRun{});
  const InputDiagnosis input = p.input.value_or(InputDiagnosis{});
  return {.struct_size = sizeof(stepcast_prediction),
          .iteration_s = value_of<"iteration_s">(p),
          .interval_low_s = value_of<"interval_low_s">(p),
          .interval_high_s = value_of<"interval_high_s">(p),
          .step_spread_s = value_of<"step_spread_s">(p),
          .step_p50_s = value_of<"step_p50_s">(p),
          .step_p99_s = value_of<"step_p99_s">(p),
          .compute_s = value_of<"compute_s">(b),
          .exposed_communication_s = value_of<"exposed_communication_s">(b),
          .hidden_communication_s = value_of<"hidden_communication_s">(b),
          .codec_s = value_of<"codec_s">(b),
          .input_stall_s = value_of<"input_stall_s">(b),
          .bubble_s = value_of<"bubble_s">(b),
          .idle_s = value_of<"idle_s">(b),
          .throughput_samples_per_s = value_of<"throughput_samples_per_s">(p),
          .memory_bytes = value_of<"memory_bytes">(p),
          .messages = value_of<"messages">(p),
          .steady = value_of<"steady">(p),
          .run_s = value_of<"duration_s">(run),
          .warm_up_s = value_of<"warm_up_s">(run),
          .prep_stall_s = value_of<"prep_stall_s">(input),
          .fetch_stall_s = value_of<"fetch_stall_s">(input),
          .sufficient_cache = value_of<"sufficient_cache">(input),
          .sufficient_workers = value_of<"sufficient_workers">(input)};
}

/// Sizes of the structure that a caller may have: from that of the first version to what no version will reach.
constexpr std::size_t first_prediction_size = offsetof(stepcast_prediction, steady) + sizeof(std::int64_t);
constexpr std::size_t most_prediction_size = 4096;

/// Writes as much as the caller has room for; what this library does not know is 0.
void write_prediction(const Prediction& prediction, stepcast_prediction& out) {
  const stepcast_prediction mine = plain(prediction);
  const std::size_t size = out.struct_size, offset = sizeof(out.struct_size);
  const std::size_t shared = std::min(size, sizeof mine);
  std::byte* to = reinterpret_cast<std::byte*>(&out);
  std::memcpy(to + offset, reinterpret_cast<const std::byte*>(&mine) + offset, shared - offset);
  std::memset(to + shared, 0, size - shared);
}

void check_size(const stepcast_prediction& prediction) {
  if (prediction.struct_size < first_prediction_size || prediction.struct_size > most_prediction_size)
    throw InputError("prediction", "struct_size = sizeof(stepcast_prediction)", std::to_string(prediction.struct_size));
}

DeviceAssumption assumption_of(const CSettings& said) {
  const std::string factor = said.text("faster-compute");
  DeviceAssumption assumption{.same_device = said.yes("same-device", false)};
  if (factor.empty()) return assumption;
  assumption.faster_compute = number_of(factor, "faster-compute");
  if (assumption.faster_compute <= 0) throw InputError("faster-compute", "a positive factor", in_quotes(factor));
  return assumption;
}

double iterations_of(const CSettings& said) {
  const std::string text = said.text("iterations");
  return text.empty() ? 0 : static_cast<double>(integer_of(text, "iterations", 1, 1'000'000'000'000));
}

RecommendOptions recommend_options_of(const CSettings& said) {
  RecommendOptions options;
  std::istringstream allowed(said.text("allow"));
  for (std::string word; std::getline(allowed, word, ',');) {
    if (word == name_of(Fidelity::lossy)) options.allow_lossy = true;
    else if (word == name_of(Fidelity::stale)) options.allow_stale = true;
    else if (word == name_of(Fidelity::periodic)) options.allow_periodic = true;
    else throw InputError("allow", "lossy, stale or periodic", in_quotes(word));
  }
  for (const std::string& plan : said.texts("plan")) options.plans.push_back(plan_spec_of(plan));
  options.tune = said.yes("tune", true);
  options.sensitivity = said.yes("sensitivity", true);
  options.by_step = said.yes("by-step", false);
  options.iterations = iterations_of(said);
  const std::string search = said.text("search");
  if (search == "bayesian") options.search = Search::bayesian;
  else if (!search.empty() && search != "grid") throw InputError("search", "grid or bayesian", in_quotes(search));
  return options;
}

/// Throws InputError for plans that divide the model where the recorded step was asked for.
void refuse_division(const stepcast_model& model, const Plan& plan) {
  const std::string& asked = model.check->by_request;
  if (!asked.empty() && model.question.divides(plan)) throw recorded_refusal::of_layouts(asked);
}

/// What the hot loop over a model of layers does not know: plans that divide the model, and the recorded step.
Answer<Prediction> answer_of_other_model(const stepcast_model& model, const Plan& plan) {
  if (model.question.divides(plan)) return model.question.answer(plan);
  return model.recorded(model.model.profile(), model.model.cluster(), model.question.after_changes(plan.strategy));
}

}  // namespace
}  // namespace stepcast

using namespace stepcast;

stepcast_status stepcast_model_of(const stepcast_profile* profile, const stepcast_cluster* cluster,
                                  const char* const* settings, stepcast_model** model, stepcast_error* error) {
  return c_made(model, "model", error, [&]() -> Answer<stepcast_model> {
    const stepcast_profile& traced = c_needed(profile, "profile");
    const Cluster& machines = c_needed(cluster, "cluster").cluster;
    const CSettings said(settings, model_keys);
    Question question{.profile = profile_on(machines, traced.profile, assumption_of(said), ""), .cluster = machines};
    if (const std::string what = said.text("what"); !what.empty()) question.changes = scenario_of(what);
    if (const std::string batch = said.text("global-batch"); !batch.empty())
      question.global_batch = static_cast<double>(integer_of(batch, "global-batch", 1, 1'000'000'000));
    question.iterations = iterations_of(said);
    const PreparedQuestion asked = with_recorded_rest(*traced.check, PreparedQuestion(std::move(question)));
    if (!asked.profile()) return Inapplicable{asked.profile().reason()};
    return stepcast_model{asked, Model(*asked.profile(), asked.cluster()), traced.check,
                          traced.check->recorded_model(asked)};
  });
}
stepcast_status stepcast_model_on(const stepcast_model* model, const stepcast_cluster* cluster, stepcast_model** other,
                                  stepcast_error* error) {
  return c_made(other, "other", error, [&]() -> Answer<stepcast_model> {
    const stepcast_model& here = c_needed(model, "model");
    const Cluster& machines = c_needed(cluster, "cluster").cluster;
    refuse_other_devices(here.model, machines);
    const PreparedQuestion there = with_recorded_rest(*here.check, here.question.on(machines));
    return stepcast_model{there, here.model.on(there.cluster()), here.check, here.recorded};
  });
}
void stepcast_model_free(stepcast_model* model) { delete model; }

stepcast_scratch* stepcast_scratch_new(void) {
  try {
    return new stepcast_scratch;
  } catch (...) { return nullptr; }
}
void stepcast_scratch_free(stepcast_scratch* scratch) { delete scratch; }

stepcast_status stepcast_model_iteration(const stepcast_model* model, const char* plan, stepcast_scratch* scratch,
                                         double* iteration_s, stepcast_error* error) {
  return c_status_of(error, [&]() -> CRefusal {
    const stepcast_model& asked = c_needed(model, "model");
    double& out = c_needed(iteration_s, "iteration_s");
    const Plan read = plan_at(plan, {});
    refuse_division(asked, read);
    if (!asked.question.divides(read)) refuse_open_options(read.strategy, "plan");
    if (asked.recorded || asked.question.divides(read)) {
      const Answer<Prediction> answer = answer_of_other_model(asked, read);
      if (!answer) return Inapplicable{answer.reason()};
      out = answer->iteration.value();
      return std::nullopt;
    }
    const PlanSpec spec = asked.question.after_changes(read.strategy);
    const auto answer_with = [&](Model::Scratch& own) -> CRefusal {
      const Answer<Seconds> answer = asked.model.iteration(spec, own);
      if (!answer) return Inapplicable{answer.reason()};
      out = answer->value();
      return std::nullopt;
    };
    if (scratch) return answer_with(scratch->scratch);
    Model::Scratch own;
    return answer_with(own);
  });
}

stepcast_status stepcast_model_iterations(const stepcast_model* model, const char* const* plans, size_t count,
                                          double* iteration_s, unsigned threads, stepcast_error* error) {
  return c_status_of(error, [&]() -> CRefusal {
    const stepcast_model& asked = c_needed(model, "model");
    const std::span<double> out = needed_span(iteration_s, count, "iteration_s");
    std::vector<Plan> read;
    std::vector<PlanSpec> specs;  // the hot loop takes those of plans that divide the model as if they did not
    read.reserve(count), specs.reserve(count);
    for (const char* plan : needed_span(plans, count, "plans")) {
      const std::string where = "plans[" + std::to_string(read.size()) + "]";
      read.push_back(plan_at(plan, where));
      refuse_division(asked, read.back());
      specs.push_back(asked.question.after_changes(refuse_open_options(read.back().strategy, where)));
    }
    if (!asked.recorded) asked.model.iterations(specs, out, threads);
    for (std::size_t i = 0; i < count; ++i)
      if (asked.recorded || asked.question.divides(read[i]))
        out[i] = step_or_nan(answer_of_other_model(asked, read[i]));
    return std::nullopt;
  });
}

stepcast_status stepcast_model_iterations_over(const stepcast_model* model, const char* plan, const char* option,
                                               const double* values, size_t count, double* iteration_s,
                                               unsigned threads, stepcast_error* error) {
  return c_status_of(error, [&]() -> CRefusal {
    const stepcast_model& asked = c_needed(model, "model");
    const std::span<double> out = needed_span(iteration_s, count, "iteration_s");
    Plan read = plan_at(plan, {});
    const std::size_t varied = option_of(read.strategy, needed_text(option, "option"));
    refuse_open_options(read.strategy, "plan", varied);
    const std::span<const double> settings = needed_span(values, count, "values");
    refuse_division(asked, read);
    if (!asked.recorded && !asked.question.divides(read)) {
      asked.model.iterations(asked.question.after_changes(read.strategy), varied, settings, out, threads);
      return std::nullopt;
    }
    const OptionSpec& range = read.strategy.strategy->options[varied];
    for (std::size_t i = 0; i < count; ++i) {
      read.strategy.options[varied] = settings[i];
      out[i] = is_value_of(range, settings[i]) ? step_or_nan(answer_of_other_model(asked, read)) : std::nan("");
    }
    return std::nullopt;
  });
}

stepcast_status stepcast_model_predict(const stepcast_model* model, const char* plan, stepcast_prediction* prediction,
                                       stepcast_error* error) {
  return c_status_of(error, [&]() -> CRefusal {
    const stepcast_model& asked = c_needed(model, "model");
    stepcast_prediction& out = c_needed(prediction, "prediction");
    check_size(out);
    const Answer<Prediction> answer = checked_answer(*asked.check, asked.question, plan_at(plan, {}));
    if (!answer) return Inapplicable{answer.reason()};
    write_prediction(*answer, out);
    return std::nullopt;
  });
}

stepcast_status stepcast_model_prediction_json(const stepcast_model* model, const char* plan, stepcast_text** json,
                                               stepcast_error* error) {
  return c_made(json, "json", error, [&]() -> Answer<stepcast_text> {
    const stepcast_model& asked = c_needed(model, "model");
    const Answer<Prediction> answer = checked_answer(*asked.check, asked.question, plan_at(plan, {}));
    if (!answer) return Inapplicable{answer.reason()};
    if (answer->layout) {
      const LayoutReport report = layout_report_of(asked.question, *asked.check, *answer->layout);
      return c_text_of([&](std::ostream& out) { report_named("json")->layout(out, report); });
    }
    const PredictionReport report{asked.model.profile(), asked.model.cluster(), *asked.check, *answer,
                                  answer->of_recorded_step
                                      ? std::nullopt
                                      : pacing_cycle_of(asked.model.profile(), asked.model.cluster(), answer->plan)};
    return c_text_of([&](std::ostream& out) { report_named("json")->prediction(out, report); });
  });
}

stepcast_status stepcast_model_recommendation_json(const stepcast_model* model, const char* const* settings,
                                                   stepcast_text** json, stepcast_error* error) {
  if (json) *json = nullptr;
  return c_status_of(error, [&]() -> CRefusal {
    const stepcast_model& asked = c_needed(model, "model");
    stepcast_text*& place = c_needed(json, "json");
    RecommendOptions options = recommend_options_of(CSettings(settings, recommendation_keys, "plan"));
    rank_over_what_runs(options, *asked.check, asked.question,
                        options.by_step ? PlansOfAnotherJob::ranked : PlansOfAnotherJob::left_out);
    refuse_ranking(asked.question);
    const Ranking ranking = asked.model.recommendation(options);
    const RankingReport report{asked.model.profile(), asked.model.cluster(), *asked.check, ranking};
    place = new stepcast_text(c_text_of([&](std::ostream& out) { report_named("json")->ranking(out, report); }));
    if (ranking.exact.empty() && ranking.others.empty()) return Inapplicable{"no plan can run on this cluster"};
    return std::nullopt;
  });
}
