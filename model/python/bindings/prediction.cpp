// Predictions: one plan, its parts, and its timeline.
#include "bindings.hpp"
#include "packed.hpp"

#include <stepcast/report/report.hpp>

namespace stepcast::python {

PredictionPtr result_of(Answer<Prediction> answer, const ProfilePtr& profile, const ClusterPtr& cluster) {
  auto out = std::make_shared<PredictionResult>(PredictionResult{answered(std::move(answer)), profile, cluster});
  if (const std::string caution = profile->check.caution(); !caution.empty())
    out->prediction.warnings.push_back(caution + ": this prediction is doubtful");
  return out;
}

namespace {

PredictionPtr predict(const ProfilePtr& profile, const ClusterPtr& cluster, const std::string& plan) {
  const PlanSpec spec = plan_spec_of(plan);
  refuse_other_device(*profile, *cluster);
  return result_of(predicted(profile->profile, *cluster, spec), profile, cluster);
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

py::tuple state_of(const PredictionResult& r) { return py::make_tuple(r.profile, r.cluster, packed(r.prediction)); }

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
      .def_property_readonly("plan", [](const PredictionResult& r) { return text_of(r.prediction.plan); })
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
      .def("to_json",
           [](const PredictionResult& r) {
             return written([&](std::ostream& out) {
               report_named("json")->prediction(out, {r.profile->profile, *r.cluster, r.profile->check, r.prediction});
             });
           })
      .def("to_dict", in_python("dict_of"))
      .def("__repr__", in_python("prediction_repr"))
      .def("_repr_html_", in_python("prediction_html"))
      .def(py::pickle(&state_of, [](const py::tuple& state) {
        return std::make_shared<PredictionResult>(PredictionResult{
            unpacked<Prediction>(py::object(state[2])), state[0].cast<ProfilePtr>(), state[1].cast<ClusterPtr>()});
      }));
  using Free = py::call_guard<py::gil_scoped_release>;
  module.def("predict", &predict, Free());
  module.def("predict", &predict_own, Free());
  module.def("timeline", &timeline, Free());
  module.def("timeline", &timeline_own, Free());
}

}  // namespace stepcast::python
