// Models: a profile on a cluster, prepared once and asked for thousands of plans.
#include "bindings.hpp"
#include "packed.hpp"

#include <stepcast/base/helping_threads.hpp>
#include <stepcast/base/spec_reader.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/prediction/model.hpp>
#include <stepcast/sweep/axis_rules.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <span>
#include <thread>

namespace stepcast::python {
namespace {

struct PreparedModel {
  ProfilePtr profile;
  ClusterPtr cluster;
  Model model;
  SelfCheck::Model recorded;  ///< answers in its place where answers are of the recorded step

  [[nodiscard]] Answer<Seconds> iteration(const PlanSpec& plan, Model::Scratch& scratch) const {
    if (!recorded) return model.iteration(plan, scratch);
    const Answer<Prediction> answer = recorded(profile->profile, *cluster, plan);
    if (!answer) return Inapplicable{answer.reason()};
    return answer->iteration;
  }
};
using ModelPtr = std::shared_ptr<PreparedModel>;
constexpr double none = std::numeric_limits<double>::quiet_NaN();

ModelPtr prepared(const ProfilePtr& profile, const ClusterPtr& given) {
  const ClusterPtr cluster = with_links(*profile, given);
  const PreparedQuestion question(question_of(*profile, *cluster, 0));
  return std::make_shared<PreparedModel>(
      PreparedModel{profile, cluster, Model(profile->profile, *cluster), profile->check.recorded_model(question)});
}
ModelPtr prepared_on(const PreparedModel& model, const ClusterPtr& given) {
  refuse_other_device(*model.profile, *given);
  const ClusterPtr cluster = with_links(*model.profile, given);
  return std::make_shared<PreparedModel>(
      PreparedModel{model.profile, cluster, model.model.on(*cluster), model.recorded});
}

/// Plans of the hot loop are computed as they stand.
void refuse_open_options(const PlanSpec& plan, const std::string& where) {
  const auto refuse = [&](std::span<const OptionSpec> specs, const OptionValues& values) {
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (std::isnan(values[i]))
        throw InputError(where, "a value of option '" + std::string(specs[i].name) + "'", "'auto'",
                         "Model.predict tunes it");
  };
  refuse(plan.strategy->options, plan.options);
  for (const ModifierSpec& modifier : plan.modifiers) refuse(modifier.modifier->options, modifier.options);
}

/// Calls `run(first, last)` for consecutive blocks of [0, count) on so many threads (0: one a core), unless Python is
/// interrupted. Of several failures the one of the first block is thrown, whoever came first.
template <class Run>
void in_blocks(WithoutGil& released, std::size_t count, unsigned threads, const Run& run) {
  constexpr std::size_t block = 64;
  const std::size_t blocks = (count + block - 1) / block;
  std::atomic<std::size_t> next{0};
  std::mutex change;
  std::exception_ptr failure;
  std::size_t failed = blocks;
  const auto work = [&](std::size_t) {
    for (std::size_t b = next++; b < blocks; b = next++) {
      try {
        run(b * block, std::min(count, (b + 1) * block));
        released.heed_signals();
      } catch (...) {
        const std::lock_guard lock(change);
        if (b < failed) failed = b, failure = std::current_exception();
        next = blocks;
      }
    }
  };
  {
    const std::vector<std::jthread> helpers =
        helping_threads(std::min<std::size_t>(threads_or_all(threads), blocks), work);
    work(0);
  }
  if (failure) std::rethrow_exception(failure);
}

/// The plan of one text among many; errors name its position.
PlanSpec plan_at(std::string_view text, std::size_t position) {
  const auto where = [&] { return "plans[" + std::to_string(position) + "]"; };
  try {
    PlanSpec plan = plan_spec_of(text);
    refuse_open_options(plan, "");
    return plan;
  } catch (const InputError& e) {
    throw InputError(where() + (e.where.empty() ? "" : ": " + e.where), e.expected, e.found, e.hint);
  }
}

/// The texts of a sequence, held for as long as they are looked at without the GIL.
struct Texts {
  py::tuple held;
  std::vector<std::string_view> views;

  explicit Texts(const py::object& sequence) : held(py::tuple(sequence)) {
    views.reserve(held.size());
    for (const py::handle item : held) {
      Py_ssize_t size = 0;
      const char* text = PyUnicode_Check(item.ptr()) ? PyUnicode_AsUTF8AndSize(item.ptr(), &size) : nullptr;
      if (!text) {
        PyErr_Clear();
        throw InputError("plans[" + std::to_string(views.size()) + "]", "the text of a plan",
                         std::string(py::str(py::type::of(item).attr("__name__"))));
      }
      views.emplace_back(text, static_cast<std::size_t>(size));
    }
  }
};

py::array_t<double> of_texts(const PreparedModel& model, const py::object& plans, unsigned threads) {
  const Texts texts(plans);
  py::array_t<double> out(static_cast<py::ssize_t>(texts.views.size()));
  double* seconds = out.mutable_data();
  WithoutGil released;
  in_blocks(released, texts.views.size(), threads, [&](std::size_t first, std::size_t last) {
    thread_local Model::Scratch scratch;
    for (std::size_t i = first; i < last; ++i) {
      const Answer<Seconds> answer = model.iteration(plan_at(texts.views[i], i), scratch);
      seconds[i] = answer ? answer->value() : none;
    }
  });
  return out;
}

/// An option that takes each value of an array.
struct VariedOption {
  std::string name;
  std::span<const double> values;
};

/// Where the plan keeps the option; throws InputError where it has none of that name.
double* place_of(PlanSpec& plan, const std::string& name, const OptionSpec** spec) {
  if (double* place = option_of(plan, name, spec)) return place;
  std::vector<std::string> names;
  for (const OptionSpec& option : plan.strategy->options) names.emplace_back(option.name);
  for (const ModifierSpec& modifier : plan.modifiers)
    for (const OptionSpec& option : modifier.modifier->options) names.emplace_back(option.name);
  throw InputError(name, "an option of '" + text_of(plan) + "'", in_quotes(name), did_you_mean(name, names));
}

void evaluate(WithoutGil& released, const PreparedModel& model, const PlanSpec& plan,
              std::span<const VariedOption> options, std::span<double> seconds, unsigned threads) {
  PlanSpec probe = plan;
  for (const VariedOption& option : options) *place_of(probe, option.name, nullptr) = 0;
  refuse_open_options(probe, "plan");
  in_blocks(released, seconds.size(), threads, [&](std::size_t first, std::size_t last) {
    thread_local Model::Scratch scratch;
    PlanSpec here = plan;
    std::vector<std::pair<double*, const OptionSpec*>> places;
    for (const VariedOption& option : options) {
      const OptionSpec* spec = nullptr;
      double* place = place_of(here, option.name, &spec);
      places.emplace_back(place, spec);
    }
    for (std::size_t i = first; i < last; ++i) {
      bool all_are_values = true;
      for (std::size_t o = 0; o < options.size(); ++o) {
        const auto [place, spec] = places[o];
        *place = options[o].values[i];
        all_are_values = all_are_values && is_value_of(*spec, *place);
      }
      seconds[i] = none;
      if (!all_are_values) continue;
      if (const Answer<Seconds> answer = model.iteration(here, scratch)) seconds[i] = answer->value();
    }
  });
}

using Numbers = py::array_t<double, py::array::c_style | py::array::forcecast>;

/// Options as pairs of a name and an array; all arrays have one shape, which is that of the result.
py::array_t<double> of_template(const PreparedModel& model, const std::string& plan,
                                const std::vector<std::pair<std::string, Numbers>>& options, unsigned threads) {
  const PlanSpec spec = plan_spec_of(plan);
  std::vector<VariedOption> varied;
  for (const auto& [name, values] : options)
    varied.push_back({name, {values.data(), static_cast<std::size_t>(values.size())}});
  const Numbers& shaped = options.front().second;
  py::array_t<double> out(std::vector<py::ssize_t>(shaped.shape(), shaped.shape() + shaped.ndim()));
  const std::span<double> seconds(out.mutable_data(), static_cast<std::size_t>(out.size()));
  WithoutGil released;
  evaluate(released, model, spec, varied, seconds, threads);
  return out;
}

double iteration(const PreparedModel& model, const py::object& text) {
  const std::string asked = text_of_python(text, "plan");
  const WithoutGil released;
  const PlanSpec plan = plan_spec_of(asked);
  refuse_open_options(plan, "plan");
  thread_local Model::Scratch scratch;
  return answered(model.iteration(plan, scratch)).value();
}

PredictionPtr prediction(const PreparedModel& model, const std::string& plan, const std::string& whatif,
                         double global_batch, double iterations) {
  if (model.recorded || has_layout(plan) || !whatif.empty() || global_batch != 0 || iterations != 0)
    return prediction_of(model.profile, model.cluster, {plan, whatif, global_batch, iterations});
  return result_of(model.model.prediction(plan_spec_of(plan)), model.profile, model.cluster);
}
PredictionPtr own_prediction(const PreparedModel& model, const OwnPlan& own) {
  refuse_own_plan(*model.profile);
  return of_copy(own, [&](const OwnPlan& plan) {
    return result_of(predicted(model.profile->profile, *model.cluster, plan.plan, plan.name), model.profile,
                     model.cluster);
  });
}

RankingPtr recommendation(const PreparedModel& model, const std::vector<std::string>& allow,
                          const std::optional<std::vector<std::string>>& plans, bool tune, const std::string& search,
                          bool sensitivity, bool by_step, double iterations) {
  WithoutGil released;
  RecommendOptions options = recommend_options(allow, plans.value_or(std::vector<std::string>()), tune, search,
                                               sensitivity, by_step, iterations);
  options.heed = [&] { released.heed_signals(); };
  rank_over_what_runs(options, *model.profile, *model.cluster, by_step);
  if (plans && plans->empty()) throw InputError("plans", "a plan or more", "none");
  return result_of(model.model.recommendation(options), model.profile, model.cluster, true);
}

}  // namespace

void bind_model(py::module_& module) {
  py::class_<PreparedModel, ModelPtr>(module, "Model", "A profile on a cluster, prepared once.")
      .def(py::init([](const py::object& profile, const ClusterPtr& cluster) {
             const ProfilePtr traced =
                 py::module_::import("stepcast.files").attr("profile_of")(profile).cast<ProfilePtr>();
             const WithoutGil release;
             return prepared(traced, cluster);
           }),
           py::arg("profile"), py::arg("cluster"),
           "Model(profile, cluster): a profile, or the trace that has it, on a cluster.")
      .def_readonly("profile", &PreparedModel::profile)
      .def_readonly("cluster", &PreparedModel::cluster)
      .def("iteration_s", &iteration, py::arg("plan"), "Seconds of a step under a plan, and nothing else.")
      .def("_of_texts", &of_texts)
      .def("_of_template", &of_template)
      .def("predict_many", in_python("predict_many"),
           "predict_many(plans, *, threads=1, **option): seconds of a step, NaN where a plan cannot run (predict says "
           "why): of a list of plans, or of one plan with options set to the values of arrays.")
      .def("_predict", &prediction, Free())
      .def("_predict_own", &own_prediction)
      .def("predict", in_python("predict_by"),
           "predict(plan, *, whatif='', global_batch=0, iterations=0): all that is known of a step under a plan; "
           "raises Inapplicable, "
           "with the reason, where it cannot run.")
      .def("_recommend", &recommendation)
      .def("recommend", in_python("recommend_by"),
           "recommend(**options): every plan that the cluster can run, tuned, best first; options as of recommend.")
      .def("on", &prepared_on, py::arg("cluster"), Free(),
           "The same profile on another cluster; what the cluster does not change is not computed again.")
      .def("__repr__", in_python("model_repr"))
      .def(py::pickle([](const PreparedModel& m) { return py::make_tuple(m.profile, m.cluster); },
                      [](const py::tuple& state) {
                        const py::tuple& s = parts_of(state, 2);
                        return prepared(s[0].cast<ProfilePtr>(), s[1].cast<ClusterPtr>());
                      }));
}

}  // namespace stepcast::python
