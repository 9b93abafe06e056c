// Room report/json: results as JSON and CSV.
//
// Example: {"schema": "stepcast.layout/1", "iteration_s": 0.4123, ...}.
//
// It may include base, documents, pipeline, search, sweep and report.
//
// The JSON reports of layouts; SI numbers with the unit in the key, null for what is not known.
#include <stepcast/pipeline/pipeline.hpp>
#include <stepcast/report/layout_report.hpp>
#include <stepcast/report/report.hpp>
#include <stepcast/search/unit_frontier.hpp>

#include <nlohmann/json.hpp>

#include <ostream>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

Json known(double value) { return value > 0 ? Json(value) : Json(nullptr); }

void write(std::ostream& out, const Json& json) {
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

Json memory_json(const MemoryUse& m) {
  return {
      {"total", m.total().value()},       {"parameters", m.parameters.value()},   {"gradients", m.gradients.value()},
      {"optimizer", m.optimizer.value()}, {"activations", m.activations.value()}, {"buffers", m.buffers.value()},
      {"margin", m.margin.value()}};
}

Json layout_json(const Layout& l) {
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

Json breakdown_json(const LayoutBreakdown& b) {
  return {{"compute", b.compute.value()}, {"recomputation", b.recomputation.value()},
          {"tensor", b.tensor.value()},   {"context", b.context.value()},
          {"expert", b.expert.value()},   {"pipeline", b.pipeline.value()},
          {"bubble", b.bubble.value()},   {"gradients", b.gradients.value()},
          {"update", b.update.value()},   {"other", b.other.value()}};
}

Json stages_json(const std::vector<StageSummary>& stages) {
  Json json = Json::array();
  for (const StageSummary& s : stages)
    json.push_back({{"first_unit", s.first_unit},
                    {"units", s.units},
                    {"forward_s", s.forward.value()},
                    {"backward_s", s.backward.value()},
                    {"last_backward_s", s.last_backward.value()},
                    {"end_s", s.end.value()},
                    {"memory_bytes", memory_json(s.memory)}});
  return json;
}

Json prediction_json(const LayoutPrediction& p) {
  return {{"schema", "stepcast.layout/1"},
          {"plan", text_of(p.plan)},
          {"layout", layout_json(p.plan.layout)},
          {"gradients", text_of(p.plan.gradients)},
          {"devices", p.devices},
          {"micro_batches", p.micro_batches},
          {"iteration_s", p.iteration.value()},
          {"interval_s", {p.interval_low.value(), p.interval_high.value()}},
          {"throughput_samples_per_s", known(p.throughput_samples_per_s)},
          {"model_flops_utilization", known(p.model_flops_utilization)},
          {"bound", p.bound},
          {"breakdown_s", breakdown_json(p.breakdown)},
          {"memory_bytes", memory_json(p.memory)},
          {"stages", stages_json(p.stages)},
          {"assumed", p.assumed},
          {"warnings", p.warnings}};
}

Json settings_json(const std::vector<LaunchSettings>& all) {
  Json json = Json::array();
  for (const LaunchSettings& s : all)
    json.push_back({{"framework", s.framework},
                    {"text", s.text.empty() ? Json(nullptr) : Json(s.text)},
                    {"cannot", s.text.empty() ? Json(s.cannot) : Json(nullptr)}});
  return json;
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

Json search_json(const LayoutSearchResult& s) {
  return {{"layouts", s.total},
          {"evaluated", s.evaluated},
          {"bounded", s.bounded},
          {"too_large", s.too_large},
          {"unsuitable", s.unsuitable},
          {"open", s.open},
          {"proved", s.proved},
          {"gap", s.proved ? 0 : s.gap},
          {"nothing", s.best.empty() ? Json(s.nothing) : Json(nullptr)}};
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
  Json json = prediction_json(report.prediction);
  add_subject(json, report.subject);
  json["settings"] = settings_json(report.settings);
  write(out, json);
}

void write_layout_comparison_json(std::ostream& out, const LayoutComparisonReport& report) {
  Json json = {{"schema", "stepcast.layout_comparison/1"}};
  add_subject(json, report.subject);
  json["predictions"] = json["inapplicable"] = Json::array();
  for (const LayoutRow& row : report.rows)
    if (row.prediction) json["predictions"].push_back(prediction_json(*row.prediction));
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
  json["search"] = search_json(advice.search);
  json["best"] = json["frontier"] = json["networks"] = Json::array();
  for (const LayoutPrediction& p : advice.best) {
    json["best"].push_back(prediction_json(p));
    json["best"].back()["cost_per_step"] = price > 0 ? Json(cost_of(p, price)) : Json(nullptr);
  }
  json["before_tuning"] = advice.untuned ? prediction_json(*advice.untuned) : Json(nullptr);
  json["data_parallel"] = advice.data_parallel ? prediction_json(*advice.data_parallel) : Json(nullptr);
  json["no_data_parallel"] = advice.data_parallel ? Json(nullptr) : Json(advice.no_data_parallel);
  for (const FrontierPoint& point : advice.search.frontier)
    json["frontier"].push_back({{"memory_bytes", point.memory.value()},
                                {"iteration_s", point.iteration.value()},
                                {"plan", text_of(point.plan)}});
  for (const BandwidthCheck& check : advice.networks)
    json["networks"].push_back({{"bandwidth_factor", check.factor},
                                {"iteration_s", check.own.value()},
                                {"best_iteration_s", check.best.value()},
                                {"better", check.better.empty() ? Json(nullptr) : Json(check.better)},
                                {"whole_space", check.whole_space}});
  json["settings"] = settings_json(advice.settings);
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
