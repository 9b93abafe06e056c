// What-ifs: the step after changes that somebody considers making.
#include "bindings.hpp"
#include "packed.hpp"

#include <stepcast/baseline/recorded_refusals.hpp>
#include <stepcast/report/report.hpp>
#include <stepcast/report/whatif_report.hpp>

#include <optional>
#include <utility>

namespace stepcast::python {
namespace {

struct WhatIfResult {
  ProfilePtr profile;
  ClusterPtr cluster;  ///< null: alone only
  Plan plan;
  std::vector<std::string> scenarios;
  std::vector<WhatIfRow> rows;
  double global_batch = 0;

  [[nodiscard]] WhatIfReport report() const { return {profile->profile, cluster.get(), profile->check, plan, rows}; }
};
using WhatIfPtr = std::shared_ptr<WhatIfResult>;

WhatIfPtr whatif(const ProfilePtr& profile, const std::vector<std::string>& scenarios,
                 const std::optional<ClusterPtr>& given, const std::string& plan, double global_batch) {
  if (scenarios.empty()) throw InputError("scenarios", "a scenario or more", "none");
  const std::string& recorded = profile->check.by_request;
  if (!recorded.empty()) throw recorded_refusal::of_changed_job(recorded);
  std::vector<Scenario> read;
  for (const std::string& text : scenarios) read.push_back(scenario_of(text));
  const ClusterPtr cluster = given && *given ? with_links(*profile, *given) : nullptr;
  const Question question = question_of(*profile, cluster ? *cluster : Cluster{}, global_batch);
  Plan asked = plan.empty() ? profile->check.plan_in_use() : plan_of(plan);
  auto out =
      std::make_shared<WhatIfResult>(WhatIfResult{profile, cluster, std::move(asked), scenarios, {}, global_batch});
  out->rows = whatif_rows(question, read, cluster ? std::optional<Plan>(out->plan) : std::nullopt);
  return out;
}

py::dict profiles_after(const WhatIfResult& w) {
  py::dict out;
  for (const WhatIfRow& row : w.rows) {
    if (row.scenario.empty() || !row.profile) continue;
    const SelfCheck check{.ranks = {}, .missing = "the step after a what-if was not traced"};
    out[py::str(text_of(row.scenario))] = std::make_shared<TracedProfile>(
        TracedProfile{*row.profile, check, w.profile->notes, w.profile->assumed_device});
  }
  return out;
}

}  // namespace

void bind_whatif(py::module_& module) {
  py::class_<WhatIfResult, WhatIfPtr>(module, "WhatIf", "The step as traced, and after each scenario.")
      .def("to_json",
           [](const WhatIfResult& w) {
             return written([&](std::ostream& out) { report_named("json")->whatif(out, w.report()); });
           })
      .def("to_text",
           [](const WhatIfResult& w) {
             return written([&](std::ostream& out) { report_named("text")->whatif(out, w.report()); });
           })
      .def("to_pandas", in_python("whatif_frame"))
      .def_property_readonly("profiles", &profiles_after)
      .def("__repr__", in_python("text_repr"))
      // Computed again from the same values, to the same values.
      .def(py::pickle(
          [](const WhatIfResult& w) {
            return py::make_tuple(w.profile, w.cluster, text_of(w.plan), w.scenarios, w.global_batch);
          },
          [](const py::tuple& state) {
            const py::tuple& s = parts_of(state, 5);
            return whatif(s[0].cast<ProfilePtr>(), s[3].cast<std::vector<std::string>>(),
                          s[1].cast<std::optional<ClusterPtr>>(), s[2].cast<std::string>(), s[4].cast<double>());
          }));
  module.def("whatif", &whatif, Free());
}

}  // namespace stepcast::python
