#pragma once
// Bindings: what stands behind the Python objects, and how C++ values become Python's.
//
// Every object is a shared, immutable C++ value (a CommPlan grows; who computes with one takes a copy); the parts of a
// result point to the profile and the cluster that they were asked of, so that each can write the same record as the
// command line. Calls that compute release the GIL and touch no Python object meanwhile. Tables, pictures and files are
// made in Python (results.py, files.py).
#include "interpreter.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/plan/comm_plan.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/prediction/recommend.hpp>
#include <stepcast/question/question.hpp>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace stepcast::python {

namespace py = pybind11;

/// A question without an answer, on its way to Python.
struct NoAnswer {
  std::string reason;
};
template <class T>
T answered(Answer<T> answer) {
  if (!answer) throw NoAnswer{answer.reason()};
  return std::move(*answer);
}

struct TracedProfile {
  Profile profile;
  SelfCheck check;
  std::vector<std::string> notes{};
  std::string assumed_device{};  ///< the caller said what to assume on a cluster with this device
  std::string described{};       ///< the description of the model, which layouts divide; empty: a trace
  bool usual_batch = false;      ///< nobody said a described model's batch: layouts share out what is usual
};
using ProfilePtr = std::shared_ptr<TracedProfile>;
using ClusterPtr = std::shared_ptr<Cluster>;
/// Throws InputError where compute times would be carried over to another device in silence.
void refuse_other_device(const TracedProfile&, const Cluster&);
/// The cluster with the links that its trace tells, where nobody said which these are (links_of_trace.hpp).
[[nodiscard]] ClusterPtr with_links(const TracedProfile&, const ClusterPtr&);
/// Throws InputError where the profile's recorded step was asked for, which plans of one's own are not of.
void refuse_own_plan(const TracedProfile&);
/// The question that all functions ask. Throws InputError as above.
[[nodiscard]] Question question_of(const TracedProfile&, const Cluster&, double global_batch,
                                   const std::vector<std::string>& measured = {});
/// The profile after what-ifs of the step ("": none), by a device that measured steps correct. Throws InputError where
/// they cannot be made, or change the plan.
[[nodiscard]] ProfilePtr changed_profile(const ProfilePtr&, const Cluster&, const std::string& whatif,
                                         const std::vector<std::string>& measured = {});
/// A ranking over what runs today (self_check.hpp).
void rank_over_what_runs(RecommendOptions&, const TracedProfile&, const Cluster&, bool all);
/// `iterations` of a run, 0 for none. Throws InputError for what is no such number.
[[nodiscard]] double run_iterations(double iterations);

/// What was asked beside profile and cluster, as it was written: enough to ask again.
struct AskedPlan {
  std::string plan, whatif;
  double global_batch = 0, iterations = 0;
  std::vector<std::string> measured{};  ///< "plan=12.3 s" each
  std::string framework{};              ///< that runs the layout; empty: any
};
struct PredictionResult {
  Prediction prediction;
  ProfilePtr profile;  ///< after the what-ifs
  ClusterPtr cluster;
  /// Where the plan divides the model: the question and its words.
  std::shared_ptr<const PreparedQuestion> question{};
  AskedPlan asked{};
  ProfilePtr before{};  ///< before the what-ifs; of `question`
};
using PredictionPtr = std::shared_ptr<PredictionResult>;
/// With the caution of the profile's self-check among its warnings, as the command line has it.
PredictionPtr result_of(Answer<Prediction>, const ProfilePtr&, const ClusterPtr&);
/// A described model with the kernels of the framework that runs it.
[[nodiscard]] ProfilePtr run_by(const ProfilePtr&, const std::string& framework);
/// A plan with or without a layout, of the step after what-ifs.
PredictionPtr prediction_of(const ProfilePtr&, const ClusterPtr&, const AskedPlan&);

/// A plan that was written in Python, and the profile whose layers and tensors it names.
struct OwnPlan {
  std::string name;
  ProfilePtr profile;
  CommPlan plan;
  /// What the channels of the plan are called, for as long as a copy of it lives.
  std::vector<std::shared_ptr<const std::string>> channel_names{};
};
using OwnPlanPtr = std::shared_ptr<OwnPlan>;
/// `compute(own)` without the interpreter: of a copy, since other threads may add to the plan meanwhile.
template <class Compute>
auto of_copy(const OwnPlan& own, const Compute& compute) {
  const OwnPlan copy = own;
  const WithoutGil release;
  return compute(copy);
}

struct RankedResult {
  RankedPlan plan;
  PredictionPtr prediction, standard;
};
struct RankingResult {
  ProfilePtr profile;
  ClusterPtr cluster;
  Ranking ranking;
  bool advice = true;
  PredictionPtr baseline;
  std::vector<std::shared_ptr<RankedResult>> exact, others;
  std::shared_ptr<RankedResult> other_collective{};  ///< may be null
  std::shared_ptr<RankedResult> halves{};            ///< may be null
};
using RankingPtr = std::shared_ptr<RankingResult>;
RankingPtr result_of(Ranking, const ProfilePtr&, const ClusterPtr&, bool advice);
/// allow: "lossy", "stale", "periodic".
RecommendOptions recommend_options(const std::vector<std::string>& allow, const std::vector<std::string>& plans,
                                   bool tune, const std::string& search, bool sensitivity, bool by_step,
                                   double iterations);

/// What `write` writes.
template <class Write>
std::string written(const Write& write) {
  std::ostringstream out;
  write(static_cast<std::ostream&>(out));
  return std::move(out).str();
}

/// A read-only array of SI numbers.
template <class T>
py::array_t<double> numbers_of(const std::vector<T>& values) {
  py::array_t<double> out(static_cast<py::ssize_t>(values.size()));
  double* to = out.mutable_data();
  for (const T& value : values)
    if constexpr (std::is_arithmetic_v<T>) *to++ = value;
    else *to++ = value.value();
  out.attr("flags").attr("writeable") = false;
  return out;
}
template <class T>
py::tuple tuple_of(const std::vector<T>& values) {
  py::tuple out(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = py::cast(values[i]);
  return out;
}
/// A text that UTF-8 can write; throws InputError for all else.
inline std::string text_of_python(const py::object& value, const char* where = "text") {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_Check(value.ptr()) ? PyUnicode_AsUTF8AndSize(value.ptr(), &size) : nullptr;
  if (text) return {text, static_cast<std::size_t>(size)};
  PyErr_Clear();
  return py::module_::import("stepcast.files").attr("text_of")(value, where).cast<std::string>();  // which throws
}
/// A method that is written in Python: `name` of stepcast.results, called with the same arguments.
inline auto in_python(const char* name) {
  return [name](py::object self, py::args args, py::kwargs kwargs) -> py::object {
    return py::module_::import("stepcast.results").attr(name)(self, *args, **kwargs);
  };
}

void bind_profile(py::module_&);
void bind_cluster(py::module_&);
void bind_prediction(py::module_&);
void bind_ranking(py::module_&);
void bind_sweep(py::module_&);
void bind_whatif(py::module_&);
void bind_model(py::module_&);
void bind_comm_plan(py::module_&);
void bind_reports(py::module_&);
void bind_page(py::module_&);
void bind_search(py::module_&);

}  // namespace stepcast::python

namespace pybind11::detail {

/// A profile or a cluster that has to be given: of pybind11's, None would become a null pointer, and anything else an
/// error that prints all arguments. Where None has a meaning, parameters are a std::optional of these.
template <class T>
struct Given : copyable_holder_caster<T, std::shared_ptr<T>> {
  bool load(handle source, bool convert) {
    using Caster = copyable_holder_caster<T, std::shared_ptr<T>>;
    if (!source.is_none() && Caster::load(source, convert)) return true;
    throw type_error("expected a stepcast." + std::string(str(type::of<T>().attr("__name__"))) + ", found " +
                     std::string(str(type::of(source).attr("__name__"))));
  }
};
template <>
struct type_caster<stepcast::python::ProfilePtr> : Given<stepcast::python::TracedProfile> {};
template <>
struct type_caster<stepcast::python::ClusterPtr> : Given<stepcast::Cluster> {};

}  // namespace pybind11::detail
