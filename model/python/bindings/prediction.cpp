// Predictions: one plan, its parts, and its timeline.
#include "bindings.hpp"
#include "packed.hpp"
#include "properties.hpp"

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
