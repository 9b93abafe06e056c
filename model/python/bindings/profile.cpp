// Profiles: read from traces, described, written and replaced; and how well their trace is reproduced.
#include "bindings.hpp"
#include "packed.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/baseline/explanation.hpp>
#include <stepcast/baseline/recorded_refusals.hpp>
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/baseline/step_difference.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/report/report.hpp>
#include <stepcast/roofline/model_shape.hpp>
#include <stepcast/roofline/operator_list.hpp>

#include <cmath>
#include <span>
#include <utility>

namespace stepcast::python {

void refuse_other_device(const TracedProfile& traced, const Cluster& cluster) {
  // Compute that was divided for one device is no longer that of the traced one.
  const bool assumed = !traced.assumed_device.empty();
  const std::string& device = assumed ? traced.assumed_device : traced.profile.device;
  if (cluster.device.empty() || cluster.device == device || same_device(cluster.device, device)) return;
  throw InputError("cluster",
                   (assumed ? "the device that was assumed (" : "the traced device (") +
                       (device.empty() ? "the host" : device) + ")",
                   in_quotes(cluster.device),
                   "say what to assume: profile.on(cluster, same_device=True), or faster_compute=2.5");
}

namespace {

/// Files as Python has them, held for as long as C++ reads them without the GIL.
struct Buffers {
  std::vector<py::buffer_info> held;
  std::vector<Source> sources;

  explicit Buffers(const std::vector<std::pair<std::string, py::buffer>>& files) {
    held.reserve(files.size());
    for (const auto& [name, buffer] : files) {
      const py::buffer_info& info = held.emplace_back(buffer.request());
      const std::size_t size = static_cast<std::size_t>(info.size * info.itemsize);
      sources.push_back({name, {static_cast<const std::byte*>(info.ptr), size}, {}});
    }
  }
};
using Files = std::vector<std::pair<std::string, py::buffer>>;

ProfilePtr read(const Files& files, const std::string& model, double batch, double parameters, const std::string& step,
                const Files& kernels, bool strict, bool check, bool recorded) {
  const Buffers buffers(files), rules(kernels);
  WithoutGil released;
  if (buffers.sources.empty()) throw InputError("read", "a trace or more, or a profile", "none");
  if (recorded && !step.empty()) throw recorded_refusal::beside_step("recorded", "step");
  if (recorded && !check) throw recorded_refusal::without_check("recorded");
  const ProfileOptions options = profile_options_of(model, batch, parameters, "model");
  if (!step.empty()) (void)seconds_of(step, "step");  // told before a large file is read
  const Documents documents =
      documents_of(buffers.sources, {.strict = strict, .progress = [&](double) { released.heed_signals(); }},
                   rules.sources.empty() ? Source{} : rules.sources.front());
  auto out = std::make_shared<TracedProfile>();
  out->profile = profile_of(documents, options);
  if (!step.empty()) out->profile = without_profiler(std::move(out->profile), seconds_of(step, "step"));
  out->check =
      recorded ? recorded_check_of(documents, out->profile, "recorded")
      : check  ? self_check_of(documents, out->profile)
               : SelfCheck{.ranks = {}, .missing = "the self-check was left out", .cautions = out->profile.cautions};
  out->notes = documents.notes;
  return out;
}

SelfCheck replay(const Files& files, bool strict) {
  const Buffers buffers(files);
  WithoutGil released;
  if (buffers.sources.empty()) throw InputError("replay", "a trace or more", "none");
  const Documents documents =
      documents_of(buffers.sources, {.strict = strict, .progress = [&](double) { released.heed_signals(); }});
  if (is_pipelined(documents.traces))
    throw InputError(documents.traces.front().source, "a trace of a framework", "the passes of a pipelined job",
                     "'stepcast replay' on the command line rebuilds them");
  return self_check_of(documents);
}

std::string explain(const Files& files, double parameters, bool strict) {
  const Buffers buffers(files);
  WithoutGil released;
  if (buffers.sources.empty()) throw InputError("explain", "a trace or more", "none");
  if (!(parameters >= 0 && parameters <= 1e14))
    throw InputError("parameters", "from 0 (as traced) to 1e14 of them", std::to_string(parameters));
  const Documents documents =
      documents_of(buffers.sources, {.strict = strict, .progress = [&](double) { released.heed_signals(); }});
  const Explanation explanation = explanation_of(documents, profile_options_of("", 0, parameters));
  return written([&](std::ostream& out) { report_named("json")->explanation(out, explanation); });
}

std::string why(const Files& files, bool strict) {
  const Buffers buffers(files);
  WithoutGil released;
  if (buffers.sources.empty()) throw InputError("why", "the traces of two ranks or more", "none");
  const Documents documents =
      documents_of(buffers.sources, {.strict = strict, .progress = [&](double) { released.heed_signals(); }});
  const SelfCheck check = lateness_of(documents);
  return written([&](std::ostream& out) { report_named("json")->lateness(out, check); });
}

/// The one trace of a file.
Trace trace_in(const Buffers& buffers, bool strict, const char* name, WithoutGil& released) {
  Documents documents =
      documents_of(buffers.sources, {.strict = strict, .progress = [&](double) { released.heed_signals(); }});
  if (documents.traces.size() != 1)
    throw InputError(name, "one trace", documents.profile ? "a profile" : "several", "give one rank of each run");
  return std::move(documents.traces.front());
}

std::string diff(const Files& before, const Files& after, bool strict) {
  const Buffers first(before), second(after);
  WithoutGil released;
  const StepDifference difference =
      difference_of(trace_in(first, strict, "before", released), trace_in(second, strict, "after", released));
  return written([&](std::ostream& out) { report_named("json")->difference(out, difference); });
}

ProfilePtr describe(const std::string& model, const std::string& device, std::optional<double> batch) {
  const double samples = batch.value_or(1);
  if (!(samples > 0) || !(samples <= 1e12))
    throw InputError("batch", "a number of samples above 0", std::to_string(samples));
  return std::make_shared<TracedProfile>(
      TracedProfile{described_profile(model_shape_of(model), device_named(device), samples),
                    {.ranks = {}, .missing = "the model is described, not traced"},
                    {},
                    {},
                    model,
                    !batch});
}

/// `device`: a shipped name, or what a file of that name holds.
ProfilePtr listed(const std::string& operators, const std::string& device, const std::optional<std::string>& file) {
  const OperatorList list = operator_list_of_json(operators, "operators");
  return std::make_shared<TracedProfile>(
      TracedProfile{listed_profile(list, file ? device_of_json(*file, device) : device_named(device)),
                    {.ranks = {}, .missing = "the model is described, not traced"}});
}

ProfilePtr replaced(const TracedProfile& from, std::optional<double> batch, std::optional<std::string> model) {
  auto out = std::make_shared<TracedProfile>(from);
  if (batch) {
    if (!(*batch >= 0) || !std::isfinite(*batch))
      throw InputError("batch_samples", "a number of samples", std::to_string(*batch));
    out->profile.batch_samples = *batch;
    out->usual_batch = false;
  }
  if (model) out->profile.model = *model;
  return out;
}

/// The profile as it would be on the cluster's device.
ProfilePtr on_device(const TracedProfile& from, const ClusterPtr& cluster, bool same, double faster) {
  auto out = std::make_shared<TracedProfile>(from);
  out->profile = profile_on(*cluster, from.profile, {same, faster}, "");
  out->assumed_device = cluster->device;
  if (faster != 0) out->described.clear();  // its device would give other times
  return out;
}

void bind_parts(py::module_& module) {
  py::class_<Tensor>(module, "Tensor", "A parameter tensor; its gradient has the same shape.")
      .def_readonly("name", &Tensor::name)
      .def_property_readonly("shape", [](const Tensor& t) { return tuple_of(t.shape); })
      .def_property_readonly("dtype", [](const Tensor& t) { return std::string(name_of(t.dtype)); })
      .def_property_readonly("bytes", [](const Tensor& t) { return t.size.value(); })
      .def_readonly("layer", &Tensor::layer)
      .def("__repr__", in_python("tensor_repr"))
      .def(py::pickle([](const Tensor& t) { return py::tuple(packed(t)); },
                      [](const py::tuple& state) { return unpacked<Tensor>(state); }));
  py::class_<Layer>(module, "Layer", "What one layer costs in a step.")
      .def_readonly("name", &Layer::name)
      .def_property_readonly("forward_host_s", [](const Layer& l) { return l.forward.host.value(); })
      .def_property_readonly("forward_device_s", [](const Layer& l) { return l.forward.device.value(); })
      .def_property_readonly("backward_host_s", [](const Layer& l) { return l.backward.host.value(); })
      .def_property_readonly("backward_device_s", [](const Layer& l) { return l.backward.device.value(); })
      .def("__repr__", in_python("layer_repr"))
      .def(py::pickle([](const Layer& l) { return py::tuple(packed(l)); },
                      [](const py::tuple& state) { return unpacked<Layer>(state); }));
}

/// Each step has its times, and a recorded job all of its parts.
SelfCheck whole(SelfCheck check) {
  for (const std::optional<RecordedJob>* job : {&check.recorded, &check.beside})
    if (*job && !is_whole(**job)) refuse_pickle();
  for (const Replay& r : check.ranks)
    if (r.step_times.size() != r.steps.size() || r.rebuilt.size() != r.steps.size()) refuse_pickle();
  return check;
}

void bind_check(py::module_& module) {
  py::class_<Replay>(module, "RankReplay", "One rank's step, rebuilt and measured.")
      .def_readonly("source", &Replay::source)
      .def_property_readonly("measured_s", [](const Replay& r) { return r.measured.value(); })
      .def_property_readonly("replayed_s", [](const Replay& r) { return r.replayed.value(); })
      .def_readonly("relative_error", &Replay::relative_error)
      .def_readonly("scored", &Replay::scored)
      .def_readonly("doubtful", &Replay::doubtful)
      .def_readonly("note", &Replay::note)
      .def_property_readonly("step_times_s", [](const Replay& r) { return numbers_of(r.step_times); })
      .def_property_readonly("rebuilt_s", [](const Replay& r) { return numbers_of(r.rebuilt); })
      .def("__repr__", in_python("rank_replay_repr"))
      .def(py::pickle(
          [](const Replay& r) { return py::tuple(packed(r)); },
          [](const py::tuple& state) { return whole({.ranks = {unpacked<Replay>(state)}, .missing = {}}).ranks[0]; }));
  py::class_<AsTraced>(module, "AsTraced", "The traced job by the model that gives advice, beside what was measured.")
      .def_readonly("plan", &AsTraced::plan)
      .def_property_readonly("predicted_s", [](const AsTraced& t) { return t.predicted.value(); })
      .def_property_readonly("measured_s", [](const AsTraced& t) { return t.measured.value(); })
      .def_property_readonly("relative_error", &AsTraced::relative_error)
      .def_property_readonly("on_links_s", [](const AsTraced& t) { return t.on_links.value(); })
      .def_readonly("missing", &AsTraced::missing)
      .def_readonly("left_out", &AsTraced::left_out)
      .def_property_readonly("caution", &AsTraced::caution)
      .def("__repr__", in_python("as_traced_repr"))
      .def(py::pickle([](const AsTraced& t) { return py::tuple(packed(t)); },
                      [](const py::tuple& state) { return unpacked<AsTraced>(state); }));
  py::class_<SelfCheck, std::shared_ptr<SelfCheck>>(module, "SelfCheck", "How well the trace itself is reproduced.")
      .def_property_readonly("ranks", [](const SelfCheck& c) { return tuple_of(c.ranks); })
      .def_readonly("missing", &SelfCheck::missing)
      .def_property_readonly("trusted", &SelfCheck::trusted)
      .def_property_readonly("caution", &SelfCheck::caution)
      .def_readonly("lateness", &SelfCheck::lateness)
      .def_readonly("as_traced", &SelfCheck::as_traced)
      .def("to_json",
           [](const SelfCheck& c) { return written([&](std::ostream& out) { report_named("json")->replay(out, c); }); })
      .def("to_pandas", in_python("check_frame"))
      .def("__repr__", in_python("check_repr"))
      .def(py::pickle([](const SelfCheck& c) { return py::tuple(packed(c)); },
                      [](const py::tuple& state) { return whole(unpacked<SelfCheck>(state)); }));
}

py::tuple state_of(const TracedProfile& t) {
  return py::make_tuple(json_of(t.profile), packed(t.check), packed(t.notes), t.assumed_device, t.described,
                        t.usual_batch);
}
/// The same text for the same profile.
std::string identity_of(const TracedProfile& t) {
  const auto text = [](const py::object& part) { return std::string(py::repr(part)); };
  return json_of(t.profile) + text(packed(t.check)) + text(packed(t.notes)) + t.assumed_device + t.described +
         (t.usual_batch ? " usual" : "");
}
ProfilePtr profile_of_state(const py::tuple& given) {
  const py::tuple& state = parts_of(given, 6);
  return std::make_shared<TracedProfile>(TracedProfile{
      profile_of_json(state[0].cast<std::string>(), "pickle"), whole(unpacked<SelfCheck>(py::object(state[1]))),
      unpacked<std::vector<std::string>>(py::object(state[2])), state[3].cast<std::string>(),
      state[4].cast<std::string>(), state[5].cast<bool>()});
}

}  // namespace

void bind_profile(py::module_& module) {
  bind_parts(module);
  bind_check(module);
  const auto number = [](auto value) { return [value](const TracedProfile& t) { return value(t.profile).value(); }; };
  py::class_<TracedProfile, ProfilePtr>(module, "Profile",
                                        "The costs of one training step, layer by layer, and what had to be assumed.")
      .def_property_readonly("model", [](const TracedProfile& t) { return t.profile.model; })
      .def_property_readonly("device", [](const TracedProfile& t) { return t.profile.device; })
      .def_property_readonly("batch_samples", [](const TracedProfile& t) { return t.profile.batch_samples; })
      .def_property_readonly("step_s", number([](const Profile& p) { return p.measured_step(); }))
      .def_property_readonly("lone_step_s", number([](const Profile& p) { return lone_step_time(p); }))
      .def_property_readonly("gradient_bytes", number([](const Profile& p) { return p.gradient_size(); }))
      .def_property_readonly("activation_bytes", number([](const Profile& p) { return p.activation_memory; }))
      .def_property_readonly("layers", [](const TracedProfile& t) { return tuple_of(t.profile.layers); })
      .def_property_readonly("tensors", [](const TracedProfile& t) { return tuple_of(t.profile.tensors); })
      .def_property_readonly("ready_s",
                             [](const TracedProfile& t) { return numbers_of(gradient_ready_times(t.profile)); })
      .def_property_readonly("backward_order",
                             [](const TracedProfile& t) { return tuple_of(t.profile.backward_order); })
      .def_property_readonly("step_times_s", [](const TracedProfile& t) { return numbers_of(t.profile.step_times); })
      .def_property_readonly("assumed", [](const TracedProfile& t) { return tuple_of(t.profile.assumed); })
      .def_property_readonly("missing", [](const TracedProfile& t) { return tuple_of(t.profile.missing); })
      .def_property_readonly("notes", [](const TracedProfile& t) { return tuple_of(t.notes); })
      .def_property_readonly("check", [](const ProfilePtr& t) { return std::shared_ptr<SelfCheck>(t, &t->check); })
      .def_static(
          "from_json",
          [](const py::object& text, const std::string& source) {
            return std::make_shared<TracedProfile>(
                TracedProfile{profile_of_json(text_of_python(text), source),
                              {.ranks = {}, .missing = "the input is a profile, which has no events to replay"}});
          },
          py::arg("text"), py::arg("source") = "profile")
      .def("to_json",
           [](const TracedProfile& t) {
             return written([&](std::ostream& out) { report_named("json")->profile(out, t.profile); });
           })
      .def("to_pandas", in_python("profile_frame"))
      .def("_replaced", &replaced)
      .def("replace", in_python("replaced_profile"),
           "replace(*, batch_samples=None, model=None): the same costs under another name, or of another batch.")
      .def("_on", &on_device)
      .def("on", in_python("profile_on"),
           "on(cluster, *, same_device=False, faster_compute=0): the profile as it would be on the cluster's device.")
      .def("__repr__", in_python("profile_repr"))
      .def("_repr_html_", in_python("profile_html"))
      .def("__eq__",
           [](const TracedProfile& a, const py::object& b) {
             return py::isinstance<TracedProfile>(b) && identity_of(a) == identity_of(b.cast<TracedProfile&>());
           })
      .def("__hash__", [](const TracedProfile& t) { return py::hash(py::str(identity_of(t))); })
      .def(py::pickle(&state_of, &profile_of_state));
  module.def("read", &read);
  module.def("explain", &explain);
  module.def("why", &why);
  module.def("diff", &diff);
  module.def("replay", &replay);
  module.def("describe", &describe);
  module.def("listed_profile", &listed);
}

}  // namespace stepcast::python
