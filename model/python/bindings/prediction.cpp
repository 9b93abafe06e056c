// Predictions: one plan, its parts, and its timeline.
#include "bindings.hpp"
#include "packed.hpp"
#include "properties.hpp"

#include <stepcast/base/words.hpp>
#include <stepcast/baseline/recorded_refusals.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/cluster/links_of_trace.hpp>
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/question/measured.hpp>
#include <stepcast/report/report.hpp>
#include <stepcast/roofline/model_shape.hpp>
#include <stepcast/roofline/usual_batch.hpp>
#include <stepcast/simulators/planned_job.hpp>
#include <stepcast/simulators/planned_layout.hpp>

#include <cmath>

namespace stepcast::python {

Question question_of(const TracedProfile& traced, const Cluster& cluster, double global_batch,
                     const std::vector<std::string>& measured) {
  refuse_other_device(traced, cluster);
  Question question{.profile = traced.profile, .cluster = cluster};
  if (!traced.described.empty()) {
    question.shape = model_shape_of(traced.described);
    question.device = device_named(traced.profile.device);
    if (traced.usual_batch) question.usual_batch = usual_global_batch(*question.shape, cluster.workers());
  }
  question.global_batch = global_batch;
  std::vector<MeasuredStep> steps;
  const StepDefaults defaults = step_defaults_of(question, traced.described, !traced.usual_batch);
  for (const std::string& text : measured) steps.push_back(measured_step_of(text, "measured", defaults));
  return with_measured_steps(std::move(question), std::move(steps));
}

ClusterPtr with_links(const TracedProfile& traced, const ClusterPtr& cluster) {
  Cluster linked = with_links_of(*cluster, traced.profile, "");
  if (linked.device.empty()) linked = with_device(std::move(linked), shipped_device_like(traced.profile.device));
  const bool same = linked.provenance == cluster->provenance && linked.library.size() == cluster->library.size() &&
                    linked.device == cluster->device;
  return same ? cluster : std::make_shared<Cluster>(std::move(linked));
}

void refuse_own_plan(const TracedProfile& traced) {
  if (!traced.check.by_request.empty()) throw recorded_refusal::of_own_plan(traced.check.by_request);
}

double run_iterations(double iterations) {
  if (iterations >= 0 && iterations <= 1e12 && iterations == std::floor(iterations)) return iterations;
  throw InputError("iterations", "a whole number of iterations", std::to_string(iterations));
}

ProfilePtr changed_profile(const ProfilePtr& profile, const Cluster& cluster, const std::string& whatif,
                           const std::vector<std::string>& measured) {
  if (whatif.empty() && measured.empty()) return profile;
  Question question = question_of(*profile, cluster, 0, measured);
  if (!whatif.empty()) question.changes = scenario_of(whatif);
  if (!plan_after(question.changes, PlanSpec{}).collective.empty())
    throw InputError("whatif", "changes of the step", "one of the collective",
                     "name the collective behind each plan: 'ddp@ring'");
  const PreparedQuestion prepared(std::move(question));
  if (!prepared.profile()) throw NoAnswer{prepared.profile().reason()};
  const ProfilePtr after = std::make_shared<TracedProfile>(*profile);
  after->profile = *prepared.profile();
  return after;
}

namespace {

PredictionPtr as_it_is(Answer<Prediction> answer, const ProfilePtr& profile, const ClusterPtr& cluster) {
  return std::make_shared<PredictionResult>(PredictionResult{answered(std::move(answer)), profile, cluster});
}

}  // namespace

PredictionPtr result_of(Answer<Prediction> answer, const ProfilePtr& profile, const ClusterPtr& cluster) {
  const PredictionPtr out = as_it_is(std::move(answer), profile, cluster);
  if (const std::string caution = profile->check.caution(); !caution.empty())
    out->prediction.warnings.push_back(caution + ": this prediction is doubtful");
  return out;
}

ProfilePtr run_by(const ProfilePtr& profile, const std::string& framework) {
  if (framework.empty() || profile->described.empty()) return profile;
  const auto run = std::make_shared<TracedProfile>(*profile);
  run->described = model_run_by(run->described, framework);
  return run;
}

PredictionPtr prediction_of(const ProfilePtr& profile, const ClusterPtr& given, const AskedPlan& asked) {
  const ClusterPtr cluster = with_links(*profile, given);
  const Plan plan = plan_of(asked.plan);
  const std::string framework = launch_framework_of(asked.framework, "framework");
  Question question = question_of(*run_by(profile, framework), *cluster, asked.global_batch, asked.measured);
  question.memory = memory_options_of(framework);
  if (!asked.whatif.empty()) question.changes = scenario_of(asked.whatif);
  question.iterations = run_iterations(asked.iterations);
  const bool changed = !question.changes.empty() || !asked.measured.empty();
  const PreparedQuestion prepared(std::move(question));
  if (!framework.empty() && !prepared.divides(plan))
    throw InputError("framework", "a plan with a layout, which frameworks run", in_quotes(asked.plan),
                     "such as 'layout(zero=3)/ddp'; global_batch makes one of every plan");
  Answer<Prediction> answer = checked_answer(profile->check, prepared, plan);
  const bool divides = prepared.divides(plan) && !(answer && answer->of_recorded_step);
  if (!answer || (!divides && !changed)) return as_it_is(std::move(answer), profile, cluster);
  const ProfilePtr after = changed ? std::make_shared<TracedProfile>(*profile) : profile;
  if (changed) after->profile = *prepared.profile();
  const PredictionPtr out = as_it_is(std::move(answer), after, cluster);
  if (divides) out->question = std::make_shared<const PreparedQuestion>(prepared), out->before = profile;
  out->asked = asked;
  return out;
}

namespace {

/// The document of `stepcast predict --json`.
void write_json(std::ostream& out, const PredictionResult& r) {
  if (!r.question) {
    const Profile& profile = r.profile->profile;
    report_named("json")->prediction(
        out, {profile, *r.cluster, r.profile->check, r.prediction,
              r.prediction.of_recorded_step ? std::nullopt : pacing_cycle_of(profile, *r.cluster, r.prediction.plan)});
    return;
  }
  report_named("json")->layout(
      out, layout_report_of(*r.question, r.profile->check, *r.prediction.layout, r.asked.framework));
}

PredictionPtr predict(const ProfilePtr& profile, const ClusterPtr& cluster, const std::string& plan,
                      const std::string& whatif, double global_batch, double iterations,
                      const std::vector<std::string>& measured, const std::string& framework) {
  return prediction_of(profile, cluster, {plan, whatif, global_batch, iterations, measured, framework});
}
PredictionPtr predict_own(const ProfilePtr& profile, const ClusterPtr& given, const OwnPlan& own) {
  refuse_other_device(*profile, *given);
  const ClusterPtr cluster = with_links(*profile, given);
  refuse_own_plan(*profile);
  return of_copy(own, [&](const OwnPlan& plan) {
    return result_of(predicted(profile->profile, *cluster, plan.plan, plan.name), profile, cluster);
  });
}

std::string timeline_text(const Profile& profile, const DetailedTimeline& detail, const PlanSpec& plan) {
  return written([&](std::ostream& out) { report_named("perfetto")->timeline(out, {profile, detail, plan}); });
}
std::string timeline(const ProfilePtr& profile, const ClusterPtr& given, const std::string& plan) {
  const ClusterPtr cluster = with_links(*profile, given);
  const PlanSpec spec = plan_spec_of(plan);
  const PreparedQuestion question(question_of(*profile, *cluster, 0));
  if (profile->check.exchanges(question)) throw recorded_refusal::of_timeline("timeline");
  // The prediction tells the plan with its automatic options tuned.
  const Prediction prediction = answered(predicted(profile->profile, *cluster, spec));
  return timeline_text(profile->profile, answered(detailed_timeline(profile->profile, *cluster, prediction.plan)),
                       prediction.plan);
}
std::string timeline_own(const ProfilePtr& profile, const ClusterPtr& given, const OwnPlan& own) {
  refuse_other_device(*profile, *given);
  const ClusterPtr cluster = with_links(*profile, given);
  refuse_own_plan(*profile);
  return of_copy(own, [&](const OwnPlan& plan) {
    return timeline_text(profile->profile, answered(detailed_timeline(profile->profile, *cluster, plan.plan)),
                         spec_named(plan.name, {}));
  });
}

/// Of a planned job or layout: the cluster beside the traces.
template <class Job>
void add_network(py::dict& out, const Job& job) {
  out["network"] = job.network;
  out["system"] = job.system;
  out["memory"] = job.memory;
}

py::dict export_layout(const ProfilePtr& profile, const Cluster& cluster, const Plan& plan, double global_batch) {
  const PreparedQuestion question(question_of(*profile, cluster, global_batch, {}));
  const LayoutPlan layout{*plan.layout, plan.strategy};
  const PlannedLayout job =
      answered(planned_layout(answered(question.workload()), question.cluster(), layout, question.layout_options()));
  py::list traces;
  for (std::int64_t rank = 0; rank < job.traces.ranks(); ++rank) traces.append(py::bytes(job.traces.of(rank)));
  py::dict out;
  out["execution_traces"] = py::tuple(traces);
  out["groups"] = job.groups;
  add_network(out, job);
  out["iteration_s"] = job.iteration.value();
  out["nodes_s"] = job.end.value();
  out["remarks"] = tuple_of(job.remarks);
  return out;
}

/// The files of a planned job for ASTRA-sim: the traces of its ranks, and the network beside them.
py::dict export_job(const ProfilePtr& profile, const ClusterPtr& given, const std::string& text, double global_batch) {
  const ClusterPtr cluster = with_links(*profile, given);
  const Plan plan = plan_of(text);
  if (!plan.layout && global_batch != 0)
    throw InputError("global_batch", "a plan with a layout, whose pipelines share it out", in_quotes(text));
  if (profile->check.models_another_job())
    throw NoAnswer{profile->check.caution() + "; the planned job would be another one"};
  refuse_other_device(*profile, *given);
  if (plan.layout) return export_layout(profile, *cluster, plan, global_batch);
  const PlannedJob job = answered(planned_job(profile->profile, *cluster, plan.strategy));
  py::dict out;
  out["execution_trace"] = py::bytes(job.execution_trace);
  add_network(out, job);
  out["compute_s"] = job.compute.value();
  out["communication_s"] = job.communication.value();
  out["remarks"] = tuple_of(job.remarks);
  return out;
}

/// A class of values that are only looked at.
template <HasFields T>
void def_result(py::module_& module, const char* name, const char* summary) {
  py::class_<T> result(module, name, summary);
  def_fields<T>(result, [](const T& value) -> const T& { return value; });
  result.def(py::pickle([](const T& value) { return py::dict(packed(value)); },
                        [](const py::dict& state) { return unpacked<T>(state); }));
}

/// A plan with a layout is asked again, of the same values; all else is kept as it is.
py::tuple state_of(const PredictionResult& r) {
  if (r.question)
    return py::make_tuple(r.before, r.cluster, r.asked.plan, r.asked.whatif, r.asked.global_batch, r.asked.iterations,
                          r.asked.measured, r.asked.framework);
  return py::make_tuple(r.profile, r.cluster, packed(r.prediction));
}
/// The same text for the same answer to the same question.
std::string identity_of(const PredictionResult& r) {
  return json_of(r.profile->profile) + json_of(*r.cluster) + r.asked.plan + std::string(py::repr(packed(r.prediction)));
}
PredictionPtr result_of_state(const py::tuple& state) {
  if (state.size() != 3 && state.size() != 8) refuse_pickle();
  const auto profile = state[0].cast<ProfilePtr>();
  const auto cluster = state[1].cast<ClusterPtr>();
  if (state.size() == 8)
    return prediction_of(
        profile, cluster,
        {state[2].cast<std::string>(), state[3].cast<std::string>(), state[4].cast<double>(), state[5].cast<double>(),
         state[6].cast<std::vector<std::string>>(), state[7].cast<std::string>()});
  return std::make_shared<PredictionResult>(
      PredictionResult{unpacked<Prediction>(py::object(state[2])), profile, cluster});
}

}  // namespace

void bind_prediction(py::module_& module) {
  module.attr("breakdown_names") = names_of<Breakdown>();
  def_result<StragglerEffect>(module, "StragglerEffect", "What slow and irregular workers cost.");
  def_result<InputDiagnosis>(module, "InputDiagnosis", "What feeds the step, and how long the step waits for it.");
  def_result<TrainingRun>(module, "TrainingRun", "A whole training run, its warm-up included.");
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
      .def("__eq__",
           [](const PredictionResult& a, const py::object& b) {
             return py::isinstance<PredictionResult>(b) && identity_of(a) == identity_of(b.cast<PredictionResult&>());
           })
      .def("__hash__", [](const PredictionResult& r) { return py::hash(py::str(identity_of(r))); })
      .def(py::pickle(&state_of, &result_of_state));
  module.def("predict", &predict, Free());
  module.def("predict", &predict_own);
  module.def("timeline", &timeline, Free());
  module.def("timeline", &timeline_own);
  module.def("export_job", &export_job);
}

}  // namespace stepcast::python
