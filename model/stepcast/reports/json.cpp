// The JSON report: every result as one document with a `schema` key; SI numbers with the unit in the key.
//
// Keys are written in a fixed order; a number that is not known is null, never zero.
#include <stepcast/report/difference_report.hpp>
#include <stepcast/report/explanation_report.hpp>
#include <stepcast/report/json_fields.hpp>
#include <stepcast/report/pipeline_replay_report.hpp>
#include <stepcast/report/replay_edits_report.hpp>
#include <stepcast/report/report.hpp>

#include <nlohmann/json.hpp>

#include <ostream>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

/// Null for a quantity whose zero means "unknown".
Json known(double value) { return value > 0 ? Json(value) : Json(nullptr); }

Json replay_json(const Replay& r) {
  Json steps = Json::array();
  const std::vector<double> errors = r.step_errors();
  for (std::size_t i = 0; i < r.steps.size(); ++i) {
    const bool both = r.step_times[i] > Seconds(0) && r.rebuilt[i] > Seconds(0);
    steps.push_back({{"number", r.steps[i].number},
                     {"duration_s", known(r.step_times[i].value())},
                     {"rebuilt_s", known(r.rebuilt[i].value())},
                     {"relative_error", both ? Json(errors[i]) : Json(nullptr)},
                     {"distorted", r.steps[i].distorted},
                     {"calibration", r.steps[i].number == r.calibration_step}});
  }
  return {{"schema", "stepcast.replay/1"},
          {"source", r.source},
          {"scored", r.scored},
          {"measured_s", known(r.measured.value())},
          {"replayed_s", r.replayed.value()},
          {"relative_error", r.scored ? Json(r.relative_error) : Json(nullptr)},
          {"noise", r.noise},
          {"recorded_gap_share", r.recorded_gap_share},
          {"doubtful", r.doubtful},
          {"note", r.note},
          {"steps", std::move(steps)}};
}

Json as_traced_json(const AsTraced& a) {
  Json json{{"plan", a.plan.empty() ? Json(nullptr) : Json(a.plan)},
            {"predicted_s", known(a.predicted.value())},
            {"measured_s", known(a.measured.value())},
            {"relative_error", a.known() ? Json(a.relative_error()) : Json(nullptr)}};
  if (a.on_links > Seconds(0)) json["on_links_s"] = a.on_links.value();
  if (!a.known()) json["reason"] = a.missing;
  if (!a.left_out.empty()) json["left_out"] = a.left_out;
  return json;
}

Json check_json(const SelfCheck& check) {
  const Replay* worst = check.worst();
  Json json{{"measured_s", worst ? Json(worst->measured.value()) : Json(nullptr)},
            {"replayed_s", worst ? Json(worst->replayed.value()) : Json(nullptr)},
            {"relative_error", worst ? Json(worst->relative_error) : Json(nullptr)},
            {"trusted", check.trusted()},
            {"note", worst ? worst->note : check.missing}};
  if (const std::string caution = check.caution(); !caution.empty()) json["caution"] = caution;
  if (check.as_traced) {
    json["as_traced"] = as_traced_json(*check.as_traced);
    if (const std::string caution = check.models_another_job() ? check.as_traced->caution() : check.reserve();
        !caution.empty())
      json["as_traced"]["caution"] = caution;
  }
  if (check.recorded)
    json["recorded"] = {{"workers", check.recorded->workers},
                        {"step_s", check.recorded->step().value()},
                        {"collectives", check.recorded->ranks.front().collectives.size()},
                        {"fixed", check.recorded->fixed().empty() ? Json(nullptr) : Json(check.recorded->fixed())}};
  return json;
}

void write(std::ostream& out, const Json& json) {
  // Names come from traces: bytes that are no UTF-8 are replaced, never an exception.
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

void write_profile_json(std::ostream& out, const Profile& profile) {
  const std::string text = json_of(profile);
  out << text;
  if (text.empty() || text.back() != '\n') out << '\n';
}

Json together_json(const std::vector<TracedRank>& ranks, const std::string& lateness) {
  Json rows = Json::array();
  for (const TracedRank& r : ranks)
    rows.push_back({{"rank", r.rank},
                    {"source", r.source},
                    {"step_s", known(r.step.value())},
                    {"transfer_s", r.transfer.value()},
                    {"waiting_s", r.waiting.value()},
                    {"late_s", r.late.value()},
                    {"clock_offset_s", r.clock_offset.value()},
                    {"clock_residual_s", r.clock_residual.value()}});
  return {{"ranks", std::move(rows)}, {"lateness", lateness}};
}

void write_replay_json(std::ostream& out, const SelfCheck& check) {
  const Replay* worst = check.worst();
  if (!worst && !check.ranks.empty()) worst = &check.ranks.front();
  Json json = worst ? replay_json(*worst) : Json{{"schema", "stepcast.inapplicable/1"}, {"reason", check.missing}};
  if (check.ranks.size() > 1) {
    json["ranks"] = Json::array();
    for (const Replay& replay : check.ranks) json["ranks"].push_back(replay_json(replay));
  }
  if (!check.together.empty()) json["together"] = together_json(check.together, check.lateness);
  write(out, json);
}

void write_lateness_json(std::ostream& out, const SelfCheck& check) {
  Json json{{"schema", "stepcast.lateness/1"}};
  json.update(together_json(check.together, check.lateness));
  json["cautions"] = check.cautions;
  write(out, json);
}

// What the overlay's edges get, and how long a model takes along each.
Json overlay_json(const OverlayNetwork& overlay, Bytes model) {
  const OverlayExchange exchange = exchange_over(overlay);
  Json edges = Json::array();
  for (const OverlayShare& s : exchange.shares)
    edges.push_back({{"route", s.route},
                     {"share_bytes_per_s", s.rate.value()},
                     {"limited_by", s.bottleneck},
                     {"alone_bytes_per_s", s.alone.value()},
                     {"latency_s", s.latency.value()},
                     {"exchange_s", (s.latency + model / s.rate).value()}});
  return {{"name", overlay.name},
          {"model_bytes", model.value()},
          {"edges", std::move(edges)},
          {"exchange_s", (exchange.latency + model / exchange.least).value()},
          {"exchange_by_maximum_flow_s", (model / exchange.best).value()}};
}

void write_prediction_json(std::ostream& out, const PredictionReport& report) {
  Json json = json_value(report.prediction);
  json["critical_cycle"] = nullptr;
  if (report.cycle)
    json["critical_cycle"] = {
        {"period_s", report.cycle->period.value()}, {"steps", report.cycle->steps}, {"tasks", report.cycle->tasks}};
  const Json cluster = json_of_cluster(report.cluster);
  for (const char* of_network : {"background", "beside"})
    if (cluster.contains(of_network)) json[of_network] = cluster.at(of_network);
  if (report.cluster.overlay) json["overlay"] = overlay_json(*report.cluster.overlay, report.profile.gradient_size());
  write(out, json);
}

void write_ranking_json(std::ostream& out, const RankingReport& report) {
  Json json = {{"schema", "stepcast.ranking/1"},
               {"model", report.profile.model},
               {"cluster", json_of_cluster(report.cluster)},
               {"replay", check_json(check_of(report))}};
  Json fields = json_value(report.ranking);
  for (auto&& field : fields.items()) {
    if (field.key() == "inapplicable" && !report.profile.ranks.empty())
      json["together"] = together_json(report.profile.ranks, report.profile.lateness);
    json[field.key()] = std::move(field.value());
  }
  write(out, json);
}

Json whatif_json(const WhatIfRow& row) {
  Json json = {{"what", row.scenario.empty() ? "as traced" : text_of(row.scenario)},
               {"alone_s", row.profile ? Json(row.alone.value()) : Json(nullptr)},
               {"gain_alone", row.profile ? Json(row.gain_alone) : Json(nullptr)},
               {"batch_samples", row.profile ? known(row.profile->batch_samples) : Json(nullptr)},
               {"prediction", json_value(row.distributed)},
               {"gain_distributed", row.distributed ? Json(row.gain_distributed) : Json(nullptr)},
               {"assumed", row.changes},
               {"inapplicable", row.inapplicable.empty() ? Json(nullptr) : Json(row.inapplicable)}};
  if (row.distributed) json["prediction"]["plan"] = text_of(plan_of(*row.distributed));
  json["cautions"] = row.cautions;
  for (const WhatIfSpec& spec : row.scenario)
    if (!spec.what->caution.empty()) json["cautions"].push_back(spec.what->caution);
  return json;
}

void write_whatif_json(std::ostream& out, const WhatIfReport& report) {
  const Cluster* cluster = report.cluster;
  Json json = {{"schema", "stepcast.whatif/1"},
               {"model", report.profile.model},
               {"replay", check_json(report.check)},
               {"measured_s", known(report.profile.measured_step().value())},
               {"cluster", cluster ? Json{{"name", cluster->name}, {"workers", cluster->workers()}} : Json(nullptr)},
               {"plan", cluster ? Json(text_of(report.plan)) : Json(nullptr)},
               {"base", whatif_json(report.rows.front())}};
  json["scenarios"] = Json::array();
  for (std::size_t i = 1; i < report.rows.size(); ++i) json["scenarios"].push_back(whatif_json(report.rows[i]));
  write(out, json);
}

void write_inapplicable_json(std::ostream& out, std::string_view plan, const Inapplicable& why) {
  write(out, {{"schema", "stepcast.inapplicable/1"}, {"plan", plan}, {"reason", why.reason}});
}

Json line_json(const CostLine& line) {
  return {{"start_up_s", line.start_up.value()}, {"s_per_byte", line.seconds_per_byte}};
}

Json entry_json(const Calibration::Entry& entry) {
  Json points = Json::array();
  for (std::size_t i = 0; i < entry.measured.sizes.size(); ++i) {
    const Bytes size = entry.measured.sizes[i];
    Json point = {{"size_bytes", size.value()}, {"measured_s", entry.measured.times[i].value()}};
    point["fitted_s"] = entry.fit(size).value();
    if (!entry.by_links.empty()) point["model_s"] = entry.by_links[i].value();
    points.push_back(std::move(point));
  }
  Json pieces = Json::array();
  for (const FittedPiece& piece : entry.fit.pieces) {
    Json json = {{"from_bytes", piece.from.value()}, {"to_bytes", piece.to.value()}};
    json.update(line_json(piece.line));
    json["worst_relative_error"] = piece.worst_relative_error;
    pieces.push_back(std::move(json));
  }
  return {{"operation", entry.measured.operation},
          {"workers", entry.measured.workers},
          {"rms_relative_error", entry.fit.rms_relative_error},
          {"pieces", std::move(pieces)},
          {"points", std::move(points)}};
}

void write_calibration_json(std::ostream& out, const Calibration& calibration) {
  Json json = {{"schema", "stepcast.calibration/1"}, {"cluster", Json::parse(json_of(calibration.cluster))}};
  json["entries"] = Json::array();
  for (const Calibration::Entry& entry : calibration.entries) json["entries"].push_back(entry_json(entry));
  json["residual_of_links"] = calibration.residual_of_links;
  json["notes"] = calibration.notes;
  write(out, json);
}

}  // namespace

Report json_report() {
  return {.name = "json",
          .summary = "one JSON document with a schema key, for programs",
          .profile = write_profile_json,
          .inspection = write_inspection_json,
          .explanation = write_explanation_json,
          .difference = write_difference_json,
          .lateness = write_lateness_json,
          .replay = write_replay_json,
          .replay_edits = write_replay_edits_json,
          .pipeline_replay = write_pipeline_replay_json,
          .prediction = write_prediction_json,
          .ranking = write_ranking_json,
          .whatif = write_whatif_json,
          .inapplicable = write_inapplicable_json,
          .calibration = write_calibration_json,
          .timeline = nullptr,
          .layout = write_layout_json,
          .layout_comparison = write_layout_comparison_json,
          .layout_search = write_layout_search_json,
          .placement = write_placement_json,
          .unit_frontier = write_unit_frontier_json};
}

}  // namespace stepcast
