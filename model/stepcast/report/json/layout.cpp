// Room report/json: results as JSON and CSV.
//
// Example: {"schema": "stepcast.layout/1", "iteration_s": 0.4123, ...}.
//
// It may include base, documents, pipeline, search, sweep and report.
//
// The JSON reports of layouts; SI numbers with the unit in the key, null for what is not known.
#include <stepcast/pipeline/pipeline.hpp>
#include <stepcast/report/json_fields.hpp>
#include <stepcast/report/layout_report.hpp>
#include <stepcast/report/report.hpp>
#include <stepcast/search/unit_frontier.hpp>

#include <nlohmann/json.hpp>

#include <ostream>

namespace stepcast {

/// Stands outside the unnamed namespace, so that `add_fields` finds it.
static nlohmann::ordered_json json_value(const Layout& l, std::string_view) {
  using Json = nlohmann::ordered_json;
  Json order = Json::array();
  for (const Dimension dimension : l.order) order.push_back(name_of(dimension));
  return {{"tensor", l.tensor},
          {"context", l.context},
          {"data", l.data},
          {"pipeline", l.pipeline},
          {"expert", l.expert},
          {"chunks", l.chunks},
          {"micro_batch", l.micro_batch},
          {"zero", l.zero},
          {"units_in_flight", l.units_in_flight},
          {"recomputation", name_of(l.recomputation)},
          {"sequence_parallel", l.sequence_parallel},
          {"overlap_tensor", l.overlap_tensor},
          {"overlap_pipeline", l.overlap_pipeline},
          {"overlap_gradients", l.overlap_gradients},
          {"scheme", l.scheme ? l.scheme->name : "1d"},
          {"schedule", l.schedule ? Json(l.schedule->name) : Json(nullptr)},
          {"order", std::move(order)},
          {"stage_units", l.stage_units}};
}

namespace {

using Json = nlohmann::ordered_json;

Json known(double value) { return value > 0 ? Json(value) : Json(nullptr); }

void write(std::ostream& out, const Json& json) {
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

/// What every document says of its subject, behind its schema.
void add_subject(Json& json, const LayoutSubject& subject) {
  const Workload& workload = subject.workload;
  json["model"] = workload.name;
  json["parameters"] = workload.parameters();
  json["described"] = workload.shape.has_value();
  json["device"] = workload.device ? Json(workload.device->name) : Json(nullptr);
  json["cluster"] = {{"name", subject.cluster.name},
                     {"workers", subject.cluster.workers()},
                     {"nodes", subject.cluster.nodes},
                     {"devices_per_node", subject.cluster.devices_per_node}};
  json["global_batch_samples"] = subject.global_batch;
  json["memory_cap_bytes"] = known(subject.memory_cap.value());
  json["trusted"] = workload.shape ? Json(nullptr) : Json(subject.check.trusted());
  json["workload_assumed"] = workload.assumed;
}

std::string_view key_of(Objective objective) {
  switch (objective) {
    case Objective::shortest_step:
      break;
    case Objective::least_memory:
      return "memory";
    case Objective::fewest_devices:
      return "devices";
    case Objective::cheapest:
      return "cost";
  }
  return "step";
}

}  // namespace

void write_layout_json(std::ostream& out, const LayoutReport& report) {
  Json json = json_value(report.prediction);
  add_subject(json, report.subject);
  json["settings"] = json_value(report.settings);
  write(out, json);
}

void write_layout_comparison_json(std::ostream& out, const LayoutComparisonReport& report) {
  Json json = {{"schema", "stepcast.layout_comparison/1"}};
  add_subject(json, report.subject);
  json["predictions"] = json["inapplicable"] = Json::array();
  for (const LayoutRow& row : report.rows)
    if (row.prediction) json["predictions"].push_back(json_value(*row.prediction));
    else json["inapplicable"].push_back({{"plan", row.plan}, {"reason", row.inapplicable}});
  write(out, json);
}

void write_layout_search_json(std::ostream& out, const LayoutSearchReport& report) {
  const LayoutAdvice& advice = report.advice;
  const double price = report.options.price_per_device_hour;
  Json json = {{"schema", "stepcast.layout_search/1"}};
  add_subject(json, report.subject);
  json["objective"] = key_of(report.options.objective);
  json["target_step_s"] = known(report.options.target_step.value());
  json["asked_for"] = report.reason.empty();
  add_fields(json, advice);
  for (std::size_t i = 0; i < advice.best.size(); ++i)
    json["best"][i]["cost_per_step"] = price > 0 ? Json(cost_of(advice.best[i], price)) : Json(nullptr);
  write(out, json);
}

void write_unit_frontier_json(std::ostream& out, const UnitFrontierReport& report) {
  const AssignmentFrontier& frontier = report.found.frontier;
  Json json = {{"schema", "stepcast.unit_frontier/1"}};
  add_subject(json, report.subject);
  json["exact"] = frontier.exact;
  json["units"] = report.found.units.of.size();
  json["best"] = nullptr;
  json["frontier"] = Json::array();
  const Assignment* best = fastest_within(frontier, report.subject.memory_cap);
  for (const Assignment& point : frontier.points) {
    if (&point == best) json["best"] = json["frontier"].size();
    Json runs = Json::array();
    for (const UnitRun& run : runs_of(report.found.units, point))
      runs.push_back({{"first_unit", run.first},
                      {"units", run.units},
                      {"tensor", run.configuration.tensor},
                      {"data", run.configuration.data},
                      {"zero", run.configuration.zero},
                      {"recomputation", name_of(run.configuration.recomputation)}});
    json["frontier"].push_back(
        {{"memory_bytes", point.memory}, {"iteration_s", point.time}, {"runs", std::move(runs)}});
  }
  write(out, json);
}

}  // namespace stepcast
