// Sweeps: plans over a grid, as columns.
#include "bindings.hpp"
#include "packed.hpp"

#include <stepcast/base/words.hpp>
#include <stepcast/baseline/recorded_refusals.hpp>
#include <stepcast/page/sweep_svg.hpp>
#include <stepcast/report/sweep_report.hpp>
#include <stepcast/sweep/cross_overs.hpp>
#include <stepcast/sweep/kept_range.hpp>
#include <stepcast/sweep/sweep.hpp>

#include <cstdint>
#include <limits>
#include <mutex>
#include <span>

namespace stepcast::python {

template <class A>
void fields(A& a, SweepRow& r) {
  a(r.point, r.values, r.plan, r.prediction, r.inapplicable, r.best);
}

namespace {

struct SweepResult {
  ProfilePtr profile;
  ClusterPtr cluster;
  SweepQuestion question;
  std::vector<std::string> measured;  ///< as they were asked with
  std::vector<Plan> plans;
  std::vector<SweepRow> rows;
  mutable std::once_flag crossed{};
  mutable std::vector<CrossOver> cross_overs{};

  SweepResult(ProfilePtr p, ClusterPtr c, SweepQuestion q, std::vector<std::string> steps)
      : profile(std::move(p)),
        cluster(std::move(c)),
        question(std::move(q)),
        measured(std::move(steps)),
        plans(plans_of(question)) {}
  [[nodiscard]] bool whole() const { return rows.size() == question.points() * plans.size(); }
};
using SweepPtr = std::shared_ptr<SweepResult>;

/// An axis as text ("bandwidth=1Gb/s..10Gb/s"), or as a name and values.
struct AskedAxis {
  std::string name, text;
  std::vector<double> values;
};
std::vector<AskedAxis> asked_axes(const py::list& over) {
  std::vector<AskedAxis> axes;
  for (const py::handle item : over) {
    const auto [key, values] = item.cast<std::pair<py::object, py::object>>();
    const std::string name = py::str(key);
    try {
      if (py::isinstance<py::str>(values)) axes.push_back({name, values.cast<std::string>(), {}});
      else axes.push_back({name, {}, values.cast<std::vector<double>>()});
    } catch (const py::cast_error&) {
      throw InputError("axis '" + name + "'", "a text, or numbers in SI units", py::repr(values).cast<std::string>());
    }
  }
  return axes;
}

SweepQuestion question_of(const ProfilePtr& profile, const ClusterPtr& cluster,
                          const std::optional<std::vector<std::string>>& plans, const std::vector<AskedAxis>& axes,
                          bool tune, const std::string& whatif, double global_batch,
                          const std::vector<std::string>& measured) {
  SweepQuestion question;
  static_cast<Question&>(question) = question_of(*profile, *cluster, global_batch, measured);
  question.tune = tune;
  if (!whatif.empty()) question.changes = scenario_of(whatif);
  if (plans)
    for (const std::string& plan : *plans) question.plans.push_back(plan_of(plan));
  for (const AskedAxis& axis : axes)
    question.axes.push_back(axis.text.empty() ? sweep_axis_of(axis.name, axis.values, question.plans)
                                              : sweep_axis_of(axis.name + "=" + axis.text, question.plans));
  const SelfCheck& check = profile->check;
  if (!check.by_request.empty()) {
    if (asks_for_layouts(question)) throw recorded_refusal::of_layouts(check.by_request);
    if (std::ranges::any_of(question.axes, [](const SweepAxis& a) { return a.quantity == SweepQuantity::change; }))
      throw recorded_refusal::of_changed_job(check.by_request);
  }
  question.model = check.recorded_model(PreparedQuestion(static_cast<const Question&>(question)));
  question.second_opinion = check.second_opinion();
  return question;
}

SweepPtr sweep(const ProfilePtr& profile, const ClusterPtr& given, const std::optional<std::vector<std::string>>& plans,
               const py::list& over, bool tune, unsigned threads, std::size_t first, std::optional<std::size_t> last,
               const std::string& whatif, double global_batch, const std::vector<std::string>& measured) {
  const std::vector<AskedAxis> axes = asked_axes(over);
  WithoutGil released;
  if (plans && plans->empty()) throw InputError("plans", "a plan or more", "none");
  const ClusterPtr cluster = with_links(*profile, given);
  auto out = std::make_shared<SweepResult>(
      profile, cluster, question_of(profile, cluster, plans, axes, tune, whatif, global_batch, measured), measured);
  out->rows = swept(out->question,
                    {.threads = threads, .first = first, .last = last.value_or(SIZE_MAX), .progress = [&](double) {
                       released.heed_signals();
                     }});
  return out;
}

py::tuple crossings(const SweepResult& s) {
  {
    const WithoutGil release;
    std::call_once(s.crossed, [&] {
      if (s.whole()) s.cross_overs = cross_overs_of(s.question, s.rows);
    });
  }
  py::tuple out(s.cross_overs.size());
  for (std::size_t i = 0; i < s.cross_overs.size(); ++i)
    out[i] = py::make_tuple(s.cross_overs[i].value, s.cross_overs[i].below, s.cross_overs[i].above);
  return out;
}

py::array_t<double> step_times(const SweepResult& s) {
  std::vector<py::ssize_t> shape;
  for (const SweepAxis& axis : s.question.axes) shape.push_back(static_cast<py::ssize_t>(axis.values.size()));
  shape.push_back(static_cast<py::ssize_t>(s.plans.size()));
  py::array_t<double> out(shape);
  const std::span<double> seconds(out.mutable_data(), static_cast<std::size_t>(out.size()));
  std::fill(seconds.begin(), seconds.end(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t r = 0; r < s.rows.size(); ++r)
    if (s.rows[r].prediction)
      seconds[s.rows[r].point * s.plans.size() + r % s.plans.size()] = s.rows[r].prediction->iteration.value();
  return out;
}

py::tuple texts_of(const std::vector<Plan>& plans) {
  py::tuple out(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) out[i] = text_of(plans[i]);
  return out;
}

py::tuple state_of(const SweepResult& s) {
  py::list axes;
  for (const SweepAxis& axis : s.question.axes) axes.append(py::make_tuple(axis.name, axis.values));
  const std::string whatif = s.question.changes.empty() ? std::string() : text_of(s.question.changes);
  return py::make_tuple(s.profile, s.cluster, texts_of(s.question.plans), axes, s.question.tune, packed(s.rows), whatif,
                        s.question.global_batch, s.measured);
}
/// Rows of consecutive points of the grid, all plans of each.
bool are_of(const SweepResult& s) {
  const std::size_t plans = s.plans.size();
  bool whole = plans > 0 && s.rows.size() % plans == 0;
  for (std::size_t r = 0; r < s.rows.size() && whole; ++r)
    whole = s.rows[r].point == s.rows[0].point + r / plans && s.rows[r].point < s.question.points() &&
            s.rows[r].values.size() == s.question.axes.size();
  return whole;
}
SweepPtr sweep_of_state(const py::tuple& state) {
  const py::tuple& s = parts_of(state, 9);
  const auto measured = s[8].cast<std::vector<std::string>>();
  const auto profile = s[0].cast<ProfilePtr>();
  const auto cluster = s[1].cast<ClusterPtr>();
  SweepQuestion question =
      question_of(profile, cluster, s[2].cast<std::vector<std::string>>(), asked_axes(s[3].cast<py::list>()),
                  s[4].cast<bool>(), s[6].cast<std::string>(), s[7].cast<double>(), measured);
  auto out = std::make_shared<SweepResult>(profile, cluster, std::move(question), measured);
  out->rows = unpacked<std::vector<SweepRow>>(py::object(s[5]));
  if (!are_of(*out)) refuse_pickle();
  return out;
}

}  // namespace

void bind_sweep(py::module_& module) {
  py::class_<SweepResult, SweepPtr>(module, "Sweep", "Rows of a sweep, as columns.")
      .def_readonly("profile", &SweepResult::profile)
      .def_readonly("cluster", &SweepResult::cluster)
      .def_property_readonly("axes",
                             [](const SweepResult& s) {
                               py::tuple out(s.question.axes.size());
                               for (std::size_t i = 0; i < s.question.axes.size(); ++i)
                                 out[i] = s.question.axes[i].name;
                               return out;
                             })
      .def(
          "values",
          [](const SweepResult& s, const std::string& name) {
            for (const SweepAxis& axis : s.question.axes)
              if (axis.name == name) return numbers_of(axis.values);
            throw InputError("values", "an axis of the sweep", in_quotes(name));
          },
          py::arg("axis"))
      .def_property_readonly("plans", [](const SweepResult& s) { return texts_of(s.plans); })
      .def_property_readonly("points", [](const SweepResult& s) { return s.question.points(); })
      .def_property_readonly("cross_overs", &crossings)
      .def(
          "_kept_json_lines",
          [](const SweepResult& s, const std::string& what) {
            if (!s.whole()) throw InputError("kept", "the whole grid", "a range of its points");
            return written([&](std::ostream& out) {
              write_kept_json_lines(out, s.question, kept_ranges_of(s.question, s.rows, kept_of(what, "what")));
            });
          },
          Free())
      .def("kept", in_python("sweep_kept"))
      .def(
          "to_csv",
          [](const SweepResult& s, bool header) {
            return written([&](std::ostream& out) { write_sweep_csv(out, s.question, s.rows, header); });
          },
          py::kw_only(), py::arg("header") = true, Free())
      .def(
          "to_json_lines",
          [](const SweepResult& s) {
            return written([&](std::ostream& out) { write_sweep_json_lines(out, s.question, s.rows); });
          },
          Free())
      .def(
          "to_svg",
          [](const SweepResult& s) {
            if (!s.whole()) throw InputError("to_svg", "the whole grid", "a range of its points");
            return written([&](std::ostream& out) { write_sweep_svg(out, s.question, s.rows); });
          },
          Free())
      .def("to_pandas", in_python("sweep_frame"))
      .def("to_numpy", &step_times)
      .def("__len__", [](const SweepResult& s) { return s.rows.size(); })
      .def("__repr__", in_python("sweep_repr"))
      .def("_repr_html_", in_python("sweep_html"))
      .def(py::pickle(&state_of, &sweep_of_state));
  module.def("sweep", &sweep);
}

}  // namespace stepcast::python
