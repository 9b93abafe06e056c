// Predictions: one plan, its parts, and its timeline.
#include "bindings.hpp"
#include "packed.hpp"

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
  const auto seconds = [](Seconds Prediction::*part) {
    return [part](const PredictionResult& r) { return (r.prediction.*part).value(); };
  };
  const auto part = [](Seconds Breakdown::*member) {
    return [member](const PredictionResult& r) { return (r.prediction.breakdown.*member).value(); };
  };
  py::class_<PredictionResult, PredictionPtr>(module, "Prediction",
                                              "The step time of one plan on one cluster, and why it is so.")
      .def_property_readonly("profile", [](const PredictionResult& r) { return r.profile; })
      .def_property_readonly("cluster", [](const PredictionResult& r) { return r.cluster; })
      .def_property_readonly("plan", [](const PredictionResult& r) { return text_of(plan_of(r.prediction)); })
      .def_property_readonly("iteration_s", seconds(&Prediction::iteration))
      .def_property_readonly("interval_low_s", seconds(&Prediction::interval_low))
      .def_property_readonly("interval_high_s", seconds(&Prediction::interval_high))
      .def_property_readonly("step_spread_s", seconds(&Prediction::step_spread))
      .def_property_readonly("compute_s", part(&Breakdown::compute))
      .def_property_readonly("exposed_communication_s", part(&Breakdown::exposed_communication))
      .def_property_readonly("hidden_communication_s", part(&Breakdown::hidden_communication))
      .def_property_readonly("codec_s", part(&Breakdown::codec))
      .def_property_readonly("input_stall_s", part(&Breakdown::input_stall))
      .def_property_readonly("bubble_s", part(&Breakdown::bubble))
      .def_property_readonly("idle_s", part(&Breakdown::idle))
      .def_property_readonly("throughput_samples_per_s",
                             [](const PredictionResult& r) { return r.prediction.throughput_samples_per_s; })
      .def_property_readonly("memory_bytes", [](const PredictionResult& r) { return r.prediction.memory.value(); })
      .def_property_readonly("messages", [](const PredictionResult& r) { return r.prediction.messages; })
      .def_property_readonly("bound", [](const PredictionResult& r) { return r.prediction.bound; })
      .def_property_readonly("critical_path",
                             [](const PredictionResult& r) { return tuple_of(r.prediction.critical_path); })
      .def_property_readonly("warnings", [](const PredictionResult& r) { return tuple_of(r.prediction.warnings); })
      .def_property_readonly("steady", [](const PredictionResult& r) { return r.prediction.steady; })
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
