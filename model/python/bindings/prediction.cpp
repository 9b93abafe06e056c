// Predictions: one plan, its parts, and its timeline.
#include "bindings.hpp"
#include "packed.hpp"
#include "properties.hpp"

#include <stepcast/cluster/device_match.hpp>
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/report/report.hpp>

#include <cmath>

namespace stepcast::python {

PredictionPtr result_of(Answer<Prediction> answer, const ProfilePtr& profile, const ClusterPtr& cluster) {
  auto out = std::make_shared<PredictionResult>(PredictionResult{answered(std::move(answer)), profile, cluster});
  if (const std::string caution = profile->check.caution(); !caution.empty())
    out->prediction.warnings.push_back(caution + ": this prediction is doubtful");
  return out;
}

PredictionPtr prediction_of(const ProfilePtr& profile, const ClusterPtr& cluster, const AskedPlan& asked) {
  const Plan plan = plan_of(asked.plan);
  Question question{.profile = profile->profile, .cluster = *cluster};
  if (!asked.whatif.empty()) question.changes = scenario_of(asked.whatif);
  if (!(asked.global_batch >= 0) || !std::isfinite(asked.global_batch))
    throw InputError("global_batch", "samples a step on all devices", std::to_string(asked.global_batch));
  question.global_batch = asked.global_batch;
  refuse_other_device(*profile, *cluster);
  question.device = shipped_device_like(profile->profile.device);
  const bool divides = plan.layout || asked.global_batch > 0;
  if (divides) question.cluster = with_device(*cluster, question.device);
  const bool changed = !question.changes.empty();
  const PreparedQuestion prepared(std::move(question));
  Answer<Prediction> answer = prepared.answer(plan);
  if (!answer || (!divides && !changed)) return result_of(std::move(answer), profile, cluster);
  const ProfilePtr after = changed ? std::make_shared<TracedProfile>(*profile) : profile;
  if (changed) after->profile = *prepared.profile();
  const PredictionPtr out = result_of(std::move(answer), after, cluster);
  if (divides) out->question = std::make_shared<const PreparedQuestion>(prepared);
  out->asked = asked;
  return out;
}

namespace {

/// The document of `stepcast predict --json`.
void write_json(std::ostream& out, const PredictionResult& r) {
  if (!r.question) {
    report_named("json")->prediction(out, {r.profile->profile, *r.cluster, r.profile->check, r.prediction});
    return;
  }
  const LayoutOptions options = r.question->layout_options();
  const Workload& workload = *r.question->workload();
  report_named("json")->layout(
      out, {{workload, r.question->cluster(), r.profile->check, options.global_batch, options.memory_cap},
            *r.prediction.layout,
            launch_settings(workload, *r.prediction.layout)});
}

PredictionPtr predict(const ProfilePtr& profile, const ClusterPtr& cluster, const std::string& plan,
                      const std::string& whatif, double global_batch) {
  return prediction_of(profile, cluster, {plan, whatif, global_batch});
}
PredictionPtr predict_own(const ProfilePtr& profile, const ClusterPtr& cluster, const OwnPlan& own) {
  refuse_other_device(*profile, *cluster);
  return result_of(predicted(profile->profile, *cluster, own.plan, own.name), profile, cluster);
}

std::string timeline_text(const Profile& profile, const DetailedTimeline& detail, const PlanSpec& plan) {
  return written([&](std::ostream& out) { report_named("perfetto")->timeline(out, {profile, detail, plan}); });
}
std::string timeline(const ProfilePtr& profile, const ClusterPtr& cluster, const std::string& plan) {
  const PlanSpec spec = plan_spec_of(plan);
  refuse_other_device(*profile, *cluster);
  // The prediction tells the plan with its automatic options tuned.
  const Prediction prediction = answered(predicted(profile->profile, *cluster, spec));
  return timeline_text(profile->profile, answered(detailed_timeline(profile->profile, *cluster, prediction.plan)),
                       prediction.plan);
}
std::string timeline_own(const ProfilePtr& profile, const ClusterPtr& cluster, const OwnPlan& own) {
  refuse_other_device(*profile, *cluster);
  return timeline_text(profile->profile, answered(detailed_timeline(profile->profile, *cluster, own.plan)),
                       spec_named(own.name, {}));
}

/// A plan with a layout is asked again, of the same values; all else is kept as it is.
py::tuple state_of(const PredictionResult& r) {
  if (r.question) return py::make_tuple(r.profile, r.cluster, r.asked.plan, r.asked.global_batch);
  return py::make_tuple(r.profile, r.cluster, packed(r.prediction));
}
PredictionPtr result_of_state(const py::tuple& state) {
  const auto profile = state[0].cast<ProfilePtr>();
  const auto cluster = state[1].cast<ClusterPtr>();
  if (state.size() == 4)  // the profile is that after the what-ifs
    return prediction_of(profile, cluster, {state[2].cast<std::string>(), "", state[3].cast<double>()});
  return std::make_shared<PredictionResult>(
      PredictionResult{unpacked<Prediction>(py::object(state[2])), profile, cluster});
}

}  // namespace

void bind_prediction(py::module_& module) {
  module.attr("breakdown_names") = names_of<Breakdown>();
  py::class_<StragglerEffect> effect(module, "StragglerEffect", "What slow and irregular workers cost.");
  def_fields<StragglerEffect>(effect, [](const StragglerEffect& e) -> const StragglerEffect& { return e; });
  effect.def(py::pickle([](const StragglerEffect& e) { return py::dict(packed(e)); },
                        [](const py::dict& state) { return unpacked<StragglerEffect>(state); }));
  py::class_<PredictionResult, PredictionPtr> prediction(module, "Prediction",
                                                         "The step time of one plan on one cluster, and why it is so.");
  def_fields<Prediction>(prediction, [](const PredictionResult& r) -> const Prediction& { return r.prediction; });
  prediction.def_property_readonly("profile", [](const PredictionResult& r) { return r.profile; })
      .def_property_readonly("cluster", [](const PredictionResult& r) { return r.cluster; })
      .def_property_readonly(
          "plan", [](const PredictionResult& r) { return text_of(plan_of(r.prediction)); },
          "The plan as it was predicted: options that were tuned, and the layout spelled out.")
      .def("to_json", [](const PredictionResult& r) { return written([&](std::ostream& out) { write_json(out, r); }); })
      .def("to_dict", in_python("dict_of"))
      .def("__repr__", in_python("prediction_repr"))
      .def("_repr_html_", in_python("prediction_html"))
      .def(py::pickle(&state_of, &result_of_state));
  using Free = py::call_guard<py::gil_scoped_release>;
  module.def("predict", &predict, Free());
  module.def("predict", &predict_own, Free());
  module.def("timeline", &timeline, Free());
  module.def("timeline", &timeline_own, Free());
}

}  // namespace stepcast::python
