// What the program knows (strategies, modifiers, clusters, ...), how it does against measurements, and calibration.
#include "bindings.hpp"
#include "packed.hpp"

#include <stepcast/calibration/benchmark_logs.hpp>
#include <stepcast/calibration/calibration.hpp>
#include <stepcast/roofline/device.hpp>
#include <stepcast/roofline/model_shape.hpp>
#include <stepcast/roofline/shipped_models.hpp>
#include <stepcast/validation/validation.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

namespace stepcast::python {
namespace {

std::string kind_of(OptionKind kind) {
  constexpr const char* names[] = {"size", "duration", "count", "number", "choice", "rate", "layers"};
  return names[static_cast<std::size_t>(kind)];
}

struct Listed {
  std::string name, title, summary, reference, fidelity, usual_base;
  std::vector<OptionSpec> options;
};

Listed listed_of(const auto& record, Fidelity fidelity, std::string usual_base) {
  return {std::string(record.name),
          std::string(record.title),
          std::string(record.summary),
          std::string(record.reference),
          std::string(name_of(fidelity)),
          std::move(usual_base),
          std::vector<OptionSpec>(record.options.begin(), record.options.end())};
}

std::vector<Listed> listed_strategies() {
  std::vector<Listed> out;
  for (const Strategy& s : strategies()) out.push_back(listed_of(s, s.fidelity, ""));
  return out;
}
std::vector<Listed> listed_modifiers() {
  std::vector<Listed> out;
  for (const Modifier& m : modifiers()) out.push_back(listed_of(m, m.fidelity, std::string(m.usual_base)));
  return out;
}
std::vector<Listed> listed_collectives() {
  std::vector<Listed> out;
  for (const CollectiveAlgorithm& a : collective_algorithms())
    out.push_back(
        {std::string(a.name), std::string(a.name), std::string(a.summary), std::string(a.reference), "exact", "", {}});
  return out;
}

/// The record that a pickle names; its texts are the program's.
Listed listed_of_state(const std::string& name, const std::string& summary) {
  for (const std::vector<Listed>& family : {listed_strategies(), listed_modifiers(), listed_collectives()})
    for (const Listed& record : family)
      if (record.name == name && record.summary == summary) return record;
  refuse_pickle();
}
py::tuple state_of(const OptionSpec& o) {
  return py::make_tuple(std::string(o.name), std::string(o.summary), o.standard, o.low, o.high);
}
OptionSpec option_of_state(const py::tuple& state) {
  for (const std::vector<Listed>& family : {listed_strategies(), listed_modifiers()})
    for (const Listed& record : family)
      for (const OptionSpec& option : record.options)
        if (state.equal(state_of(option))) return option;
  refuse_pickle();
}
template <class Records>
py::tuple names_of(const Records& records) {
  std::vector<std::string> out;
  for (const auto& record : records) out.emplace_back(record.name);
  return tuple_of(out);
}

std::vector<SuiteResult> validated_suites(std::vector<std::string> names, const std::string& root) {
  WithoutGil released;
  if (names.empty()) names = shipped_suite_names();
  std::vector<ValidationSuite> suites;
  for (const std::string& name : names) suites.push_back(shipped_suite(name));
  ValidationOptions options;
  options.file = [&](const std::string& path) -> std::optional<std::string> {
    std::ifstream file(std::filesystem::path(root) / path, std::ios::binary);
    if (!file) return std::nullopt;
    return std::move(std::ostringstream() << file.rdbuf()).str();
  };
  options.progress = [&](double) { released.heed_signals(); };
  return validated(std::move(suites), options);
}

/// One row a case: suite, case, source, split, plan, outcome, predicted, measured, relative error, low, high, reason.
py::list validation_rows(const std::vector<std::string>& names, const std::string& root) {
  const std::vector<SuiteResult> suites = validated_suites(names, root);
  const auto known = [](bool is, double value) -> py::object {
    return is ? py::object(py::float_(value)) : py::none();
  };
  py::list rows;
  for (const SuiteResult& s : suites)
    for (std::size_t i = 0; i < s.results.size(); ++i) {
      const ValidationCase& c = s.suite.cases[i];
      const CaseResult& r = s.results[i];
      const bool any = r.predicted_any;
      rows.append(py::make_tuple(
          s.suite.name, c.id, c.source, std::string(name_of(c.split)),
          c.inputs.plan.strategy ? text_of(c.inputs.plan) : c.method, std::string(name_of(r.outcome)),
          known(any, r.predicted), known(any || c.measured > 0, any ? r.measured : c.measured), known(any, r.error),
          known(any && r.has_interval(), r.low), known(any && r.has_interval(), r.high), r.reason));
    }
  return rows;
}

bool is_csv(std::string_view text) {
  const std::string_view head = text.substr(0, text.find('\n'));
  return head.find(',') != std::string_view::npos && head.find('#') == std::string_view::npos;
}

/// `base`: the machines to fit; its number of workers may be 0: as many as the largest table has.
Calibration calibrated_files(const std::vector<std::pair<std::string, std::string>>& files, std::int64_t per_node,
                             const std::string& name, const std::string& collective) {
  std::vector<MeasuredCollective> measured;
  for (const auto& [source, text] : files)
    for (MeasuredCollective& table :
         is_csv(text) ? collectives_of_csv(text, source) : collectives_of_nccl_tests(text, source))
      measured.push_back(std::move(table));
  if (measured.empty()) throw InputError("calibrate", "nccl-tests logs or CSV tables of collectives", "none");
  std::int64_t workers = 0;
  for (const MeasuredCollective& table : measured) workers = std::max(workers, table.workers);
  if (workers < 2)
    throw InputError(files.front().first, "the number of workers", "a table that does not say it",
                     "nccl-tests say it in their header, CSV in a column 'workers'");
  // Only a start: the links are what is fitted.
  Cluster base = cluster_of_flags(workers, std::max<std::int64_t>(1, per_node), "10 Gb/s");
  base.all_reduce = collective.empty() ? "ring" : collective;
  base.name =
      name.empty() ? std::to_string(base.nodes) + "x" + std::to_string(base.devices_per_node) + " calibrated" : name;
  for (MeasuredCollective& table : measured)
    if (table.workers < 1) table.workers = base.workers();
  refuse_small_messages(measured, base);
  return calibrated(base, measured);
}

/// The cluster, and one row a measured point: operation, workers, bytes, measured, fitted, relative error.
py::tuple calibrate(const std::vector<std::pair<std::string, std::string>>& files, std::int64_t per_node,
                    const std::string& name, const std::string& collective) {
  Calibration c;
  {
    const WithoutGil release;
    c = calibrated_files(files, per_node, name, collective);
  }
  py::list rows;
  for (const Calibration::Entry& e : c.entries)
    for (std::size_t i = 0; i < e.measured.sizes.size(); ++i) {
      const double measured = e.measured.times[i].value(), fitted = e.fit(e.measured.sizes[i]).value();
      const double model = e.by_links.empty() ? std::numeric_limits<double>::quiet_NaN() : e.by_links[i].value();
      rows.append(py::make_tuple(e.measured.operation, e.measured.workers, e.measured.sizes[i].value(), measured,
                                 fitted, fitted / measured - 1, model, model / measured - 1, e.measured.provenance));
    }
  return py::make_tuple(std::make_shared<Cluster>(c.cluster), rows, tuple_of(c.notes));
}

void bind_lists(py::module_& module) {
  py::class_<OptionSpec>(module, "Option", "A value that a strategy or a modifier takes (SI units).")
      .def_property_readonly("name", [](const OptionSpec& o) { return std::string(o.name); })
      .def_property_readonly("kind", [](const OptionSpec& o) { return kind_of(o.kind); })
      .def_property_readonly("summary", [](const OptionSpec& o) { return std::string(o.summary); })
      .def_readonly("standard", &OptionSpec::standard)
      .def_readonly("low", &OptionSpec::low)
      .def_readonly("high", &OptionSpec::high)
      .def_property_readonly("choices",
                             [](const OptionSpec& o) {
                               std::vector<std::string> names;
                               if (o.kind == OptionKind::choice)
                                 for (const std::string_view name : o.choices)
                                   if (!name.empty()) names.emplace_back(name);
                               return tuple_of(names);
                             })
      .def_readonly("tuned", &OptionSpec::tuned)
      .def_property_readonly(
          "tune_low", [](const OptionSpec& o) { return o.tune_low == 0 && o.tune_high == 0 ? o.low : o.tune_low; })
      .def_property_readonly(
          "tune_high", [](const OptionSpec& o) { return o.tune_low == 0 && o.tune_high == 0 ? o.high : o.tune_high; })
      .def("__repr__", in_python("option_repr"))
      .def(py::pickle(&state_of, &option_of_state));
  py::class_<Listed>(module, "Listed", "A strategy, a modifier or a collective.")
      .def_readonly("name", &Listed::name)
      .def_readonly("title", &Listed::title)
      .def_readonly("summary", &Listed::summary)
      .def_readonly("reference", &Listed::reference)
      .def_readonly("fidelity", &Listed::fidelity)
      .def_readonly("usual_base", &Listed::usual_base)
      .def_property_readonly("options", [](const Listed& l) { return tuple_of(l.options); })
      .def("__repr__", in_python("listed_repr"))
      .def(py::pickle([](const Listed& l) { return py::make_tuple(l.name, l.summary); },
                      [](const py::tuple& state) {
                        const py::tuple& s = parts_of(state, 2);
                        return listed_of_state(s[0].cast<std::string>(), s[1].cast<std::string>());
                      }));
  module.def("strategies", [] { return tuple_of(listed_strategies()); });
  module.def("modifiers", [] { return tuple_of(listed_modifiers()); });
  module.def("collectives", [] { return tuple_of(listed_collectives()); });
  module.def("clusters", [] { return names_of(shipped_clusters()); });
  module.def("devices", [] { return names_of(shipped_devices()); });
  module.def("models", [] { return names_of(shipped_models()); });
}

}  // namespace

void bind_reports(py::module_& module) {
  bind_lists(module);
  module.def("validation_rows", &validation_rows);
  module.def("calibrate", &calibrate);
}

}  // namespace stepcast::python
