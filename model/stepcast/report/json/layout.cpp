// Room report/json: results as JSON and CSV.
//
// Example: {"schema": "stepcast.layout/1", "iteration_s": 0.4123, ...}.
//
// It may include base, documents, pipeline, calibration, search, sweep and report.
//
// The JSON reports of layouts; SI numbers with the unit in the key, null for what is not known.
#include <stepcast/calibration/device_fit.hpp>
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
  Json order = Json::array(), units = Json::array();
  for (const UnitChoice& c : l.unit_choices)
    units.push_back(
        {{"units", c.units}, {"tensor", c.tensor}, {"zero", c.zero}, {"recomputation", name_of(c.recomputation)}});
  for (const Dimension dimension : l.order) order.push_back(name_of(dimension));
  return {{"tensor", l.tensor},
          {"context", l.context},
          {"context_exchange", name_of(l.context_exchange)},
          {"data", l.data},
          {"pipeline", l.pipeline},
          {"expert", l.expert},
          {"expert_exchange", name_of(l.expert_exchange)},
          {"expert_tensor", l.expert_tensor == 0 ? l.tensor : l.expert_tensor},
          {"chunks", l.chunks},
          {"micro_batch", l.micro_batch},
          {"zero", l.zero},
          {"shard", l.shard},
          {"backward_shard", l.backward_shard},
          {"quantized_weights", l.quantized_weights},
          {"quantized_gradients", l.quantized_gradients},
          {"units_in_flight", l.units_in_flight},
          {"recomputation", recomputation_text(l)},
          {"recomputed_blocks", l.recomputed_blocks},
          {"recomputed_together", l.recomputed_together},
          {"offloaded", offload_text(l)},
          {"offloaded_blocks", l.offloaded_blocks},
          {"sequence_parallel", l.sequence_parallel},
          {"overlap_tensor", l.overlap_tensor != TensorOverlap::nothing},
          {"overlap_products", l.overlap_tensor == TensorOverlap::products},
          {"overlap_pipeline", l.overlap_pipeline},
          {"overlap_expert", l.overlap_expert},
          {"overlap_gradients", l.overlap_gradients},
          {"overlap_gather", l.overlap_gather},
          {"whole_tensors", l.whole_tensors},
          {"scheme", l.scheme ? l.scheme->name : "1d"},
          {"schedule", l.schedule ? Json(l.schedule->name) : Json(nullptr)},
          {"order", std::move(order)},
          {"stage_units", l.stage_units},
          {"stages_by_time", l.stages_by_time},
          {"units", std::move(units)}};
}

namespace {

using Json = nlohmann::ordered_json;

Json known(double value) { return value > 0 ? Json(value) : Json(nullptr); }

void write(std::ostream& out, const Json& json) {
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

Json correction_json(const DeviceCorrection& c) {
  Json json = {{"steps", Json::array()},
               {"changed", Json::array()},
               {"residual", c.residual()},
               {"disagreement", c.disagreement()},
               {"doubts", c.doubts},
               {"relative_error_before", c.error_before},
               {"relative_error", c.device.relative_error}};
  for (std::size_t i = 0; i < c.steps.size(); ++i)
    json["steps"].push_back({{"plan", text_of(c.steps[i].plan)},
                             {"micro_batch_assumed", bool{c.micro_batch_assumed[i]}},
                             {"devices", c.steps[i].devices},
                             {"global_batch_samples", c.steps[i].global_batch},
                             {"measured_s", c.steps[i].time.value()},
                             {"error_before", c.before[i]},
                             {"error", c.after[i]},
                             {"source", c.steps[i].source}});
  for (const ChangedNumber& n : c.changed)
    json["changed"].push_back({{"name", n.name}, {"before", n.before}, {"after", n.after}});
  return json;
}

/// What every document says of its subject, behind its schema.
void add_subject(Json& json, const LayoutSubject& subject) {
  const Workload& workload = subject.workload;
  json["model"] = workload.name;
  json["parameters"] = workload.parameters();
  json["described"] = workload.shape.has_value();
  json["device"] = workload.device ? Json(workload.device->name) : Json(nullptr);
  json["cluster"] = json_of_cluster(subject.cluster);
  json["global_batch_samples"] = subject.global_batch;
  json["memory_cap_bytes"] = known(subject.memory_cap.value());
  json["trusted"] = workload.shape ? Json(nullptr) : Json(subject.check.trusted() && subject.doubt.empty());
  if (const std::string caution = subject.check.caution(); !caution.empty()) json["caution"] = caution;
  if (!subject.doubt.empty()) json["doubt"] = subject.doubt;
  json["workload_assumed"] = workload.assumed;
  if (subject.correction != nullptr) json["measured"] = correction_json(*subject.correction);
}

std::string_view key_of(Objective objective) {
  switch (objective) {
    case Objective::shortest_step:
    case Objective::simplest:
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
  json["by_pytorch"] = report.by_pytorch ? json_value(*report.by_pytorch) : Json(nullptr);
  json["whole_run"] = Json(nullptr);
  if (const std::optional<WholeRun> run = run_by(report.subject, report.prediction))
    json["whole_run"] = json_value(*run);
  write(out, json);
}

void write_layout_comparison_json(std::ostream& out, const LayoutComparisonReport& report) {
  Json json = {{"schema", "stepcast.layout_comparison/1"}};
  add_subject(json, report.subject);
  json["traced"] = report.traced.empty() ? Json(nullptr) : Json(report.traced);
  const LayoutRow* fastest = fastest_of(report);
  json["fastest"] = fastest != nullptr ? Json(fastest->plan) : Json(nullptr);
  json["equals"] = equals_of(report);
  json["resolution"] = known(resolution_of(report));
  json["predictions"] = json["inapplicable"] = json["not_run"] = Json::array();
  for (const LayoutRow& row : report.rows) {
    if (row.prediction) json["predictions"].push_back(json_value(*row.prediction));
    else json["inapplicable"].push_back({{"plan", row.plan}, {"reason", row.inapplicable}});
    if (!row.not_run.empty()) json["not_run"].push_back({{"plan", row.plan}, {"reason", row.not_run}});
  }
  write(out, json);
}

void write_layout_search_json(std::ostream& out, const LayoutSearchReport& report) {
  const LayoutAdvice& advice = report.advice;
  const double price = report.options.price_per_device_hour;
  Json json = {{"schema", "stepcast.layout_search/1"}};
  add_subject(json, report.subject);
  if (report.subject.planned_memory > Bytes(0)) json["memory_cap_bytes"] = report.subject.planned_memory.value();
  json["objective"] = key_of(report.options.objective);
  json["target_step_s"] = known(report.options.target_step.value());
  json["asked_for"] = report.reason.empty();
  add_fields(json, advice);
  for (std::size_t i = 0; i < advice.best.size(); ++i)
    json["best"][i]["cost_per_step"] = price > 0 ? Json(cost_of(advice.best[i], price)) : Json(nullptr);
  json["settings"] = json_value(report.settings);
  json["whole_run"] = Json(nullptr);
  if (!advice.best.empty())
    if (const std::optional<WholeRun> run = run_by(report.subject, advice.best.front()))
      json["whole_run"] = json_value(*run);
  json["runnable"] = Json(nullptr);
  if (report.runnable)
    json["runnable"] = {{"layout", text_of(report.runnable->layout.plan)},
                        {"iteration_s", report.runnable->layout.iteration.value()},
                        {"settings", json_value(report.runnable->settings)}};
  json["by_pytorch"] = report.by_pytorch ? json_value(*report.by_pytorch) : Json(nullptr);
  write(out, json);
}

namespace {

Json frontier_json(const UnitFrontier& found, const DeviceCount& count) {
  Json json = {{"exact", found.exact}, {"units", found.units}, {"best", nullptr}, {"frontier", Json::array()}};
  const UnitPoint* best = fastest_within(found, count.options.memory_cap);
  for (const UnitPoint& point : found.points) {
    if (&point == best) json["best"] = json["frontier"].size();
    Json runs = Json::array();
    for (const UnitRun& run : runs_of(point.plan.layout, found.units))
      runs.push_back({{"first_unit", run.first},
                      {"units", run.choice.units},
                      {"tensor", run.choice.tensor},
                      {"data", count.cluster.workers() / run.choice.tensor},
                      {"zero", run.choice.zero},
                      {"recomputation", name_of(run.choice.recomputation)}});
    json["frontier"].push_back({{"memory_bytes", point.memory.value()},
                                {"iteration_s", point.iteration.value()},
                                {"plan", text_of(point.plan)},
                                {"runs", std::move(runs)}});
  }
  return json;
}

}  // namespace

void write_unit_frontier_json(std::ostream& out, const UnitFrontierReport& report) {
  Json json = {{"schema", "stepcast.unit_frontier/1"}};
  add_subject(json, report.subject);
  json["objective"] = key_of(report.objective);
  json["target_step_s"] = known(report.target_step.value());
  json["choice"] = nullptr;
  if (const UnitPoint* point = report.choice.point)
    json["choice"] = {{"devices", report.choice.devices->cluster.workers()},
                      {"plan", text_of(point->plan)},
                      {"memory_bytes", point->memory.value()},
                      {"iteration_s", point->iteration.value()},
                      {"settings", json_value(report.settings)}};
  json["counts"] = Json::array();
  for (const DeviceCount& count : report.counts) {
    Json one = {{"devices", count.cluster.workers()}, {"global_batch_samples", count.options.global_batch}};
    if (count.found) one.update(frontier_json(*count.found, count));
    else one["inapplicable"] = count.found.reason();
    json["counts"].push_back(std::move(one));
  }
  write(out, json);
}

}  // namespace stepcast
