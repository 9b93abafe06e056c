// JSON of a pipeline replay, schema "stepcast.pipeline_replay/1".
#include <stepcast/report/pipeline_replay_report.hpp>

#include <nlohmann/json.hpp>

#include <ostream>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

Json slow_json(const std::vector<Slowness>& all) {
  Json json = Json::array();
  for (const Slowness& slow : all) {
    Json one;
    if (slow.worker >= 0) one = {{"worker", slow.worker}, {"replica", slow.replica}};
    one["stage"] = slow.stage;
    one["factor"] = slow.factor;
    one["forward_factor"] = slow.forward;
    one["backward_factor"] = slow.backward;
    one["step_share"] = slow.step_cost;
    json.push_back(std::move(one));
  }
  return json;
}

Json steps_json(const PipelineReplay& replay) {
  Json json = Json::array();
  for (const PipelineStepReplay& step : replay.steps)
    json.push_back(
        {{"number", step.step},
         {"measured_s", step.measured.value()},
         {"rebuilt_s", step.rebuilt.value()},
         {"relative_error", step.rebuilt / step.measured - 1},
         {"forecast_s", step.forecast.value()},
         {"without_slow_workers_s", replay.replicas > 1 ? Json(step.without_slow_workers.value()) : Json(nullptr)},
         {"without_slow_stages_s", step.without_slow_stages.value()},
         {"even_s", step.even.value()}});
  return json;
}

}  // namespace

void write_pipeline_replay_json(std::ostream& out, const PipelineReplay& replay) {
  Json schedules = Json::array();
  for (const ReorderedPipeline& other : replay.schedules)
    schedules.push_back({{"schedule", other.schedule},
                         {"step_s", other.step.value()},
                         {"recorded", other.recorded},
                         {"backward_halved", other.backward_halved},
                         {"stages_halved", other.stages_halved}});
  Json json{{"schema", "stepcast.pipeline_replay/1"},
            {"stages", replay.stages},
            {"replicas", replay.replicas},
            {"chunks", replay.chunks},
            {"micro_batches", replay.micro_batches},
            {"measured_s", replay.measured.value()},
            {"rebuilt_s", replay.rebuilt.value()},
            {"median_error", replay.median_error},
            {"forecast_s", replay.forecast.value()},
            {"forecast_error", replay.forecast_error},
            {"slowdown", replay.replicas > 1 ? Json(replay.slowdown) : Json(nullptr)},
            {"unevenness", replay.unevenness},
            {"cause", replay.cause},
            {"slow_workers", slow_json(replay.workers)},
            {"slow_stages", slow_json(replay.stages_slow)},
            {"schedules", std::move(schedules)},
            {"schedule_error", replay.schedule_error > 0 ? Json(replay.schedule_error) : Json(nullptr)},
            {"notes", replay.notes},
            {"steps", steps_json(replay)}};
  if (const std::string caution = replay.caution(); !caution.empty()) json["caution"] = caution;
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace stepcast
