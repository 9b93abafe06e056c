// JSON of an explanation, schema "stepcast.explanation/1".
#include <stepcast/base/words.hpp>
#include <stepcast/report/explanation_report.hpp>

#include <nlohmann/json.hpp>

#include <ostream>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

Json recording_json(const std::optional<RecordedDeviceTime>& time) {
  if (!time) return nullptr;
  return {{"span_s", time->span.value()},
          {"compute_s", time->compute.value()},
          {"non_compute_s", time->non_compute.value()},
          {"idle_s", time->idle().value()},
          {"communication_s", time->communication.value()},
          {"overlapped_s", time->overlapped.value()}};
}

Json split_json(const StepSplit& split) {
  Json parts = Json::object();
  for (std::size_t p = 0; p < split_parts; ++p)
    parts[std::string(name_of(SplitPart(p))) + "_s"] = split[SplitPart(p)].value();
  Json communication = Json::array();
  for (const SplitCommunication& c : split.communication)
    communication.push_back({{"role", name_of(c.role)},
                             {"operation", c.operation},
                             {"count", c.count},
                             {"size_bytes", c.size > Bytes(0) ? Json(c.size.value()) : Json(nullptr)},
                             {"exposed_s", c.exposed.value()},
                             {"hidden_s", c.hidden.value()},
                             {"waiting_s", c.waiting.value()}});
  Json steps = Json::array();
  for (std::size_t i = 0; i < split.durations.size(); ++i) {
    Json step{{"duration_s", split.durations[i].value()}};
    for (std::size_t p = 0; p < split_parts; ++p)
      step[std::string(name_of(SplitPart(p))) + "_s"] = split.parts_of[i][p].value();
    steps.push_back(std::move(step));
  }
  return {{"source", split.source},
          {"rank", split.rank >= 0 ? Json(split.rank) : Json(nullptr)},
          {"device", split.device},
          {"of_steps", split.of_steps},
          {"step_s", split.step.value()},
          {"noise", split.noise()},
          {"compute_s", split.compute().value()},
          {"exposed_s", split.exposed().value()},
          {"hidden_s", split.hidden().value()},
          {"parts", std::move(parts)},
          {"copies",
           {{"on_device_s", split.copies.on_device.value()},
            {"for_sharding_s", split.copies.for_sharding.value()},
            {"from_host_s", split.copies.from_host.value()},
            {"to_host_s", split.copies.to_host.value()}}},
          {"communication", std::move(communication)},
          {"steps", std::move(steps)},
          {"device_recording", recording_json(split.recording)},
          {"recognised", split.recognised},
          {"assumed", split.assumed}};
}

Json levers_json(const std::vector<Lever>& levers) {
  Json json = Json::array();
  for (const Lever& lever : levers)
    json.push_back({{"what", lever.what},
                    {"verdict", name_of(lever.verdict)},
                    {"most_share", lever.most},
                    {"gain_share", lever.gain ? Json(*lever.gain) : Json(nullptr)},
                    {"action", lever.action},
                    {"why", lever.why}});
  return json;
}

}  // namespace

void write_explanation_json(std::ostream& out, const Explanation& e) {
  Json ranks = Json::array();
  for (const StepSplit& split : e.ranks) ranks.push_back(split_json(split));
  const Json json{
      {"schema", "stepcast.explanation/1"},
      {"verdict", name_of(e.verdict)},
      {"answer", e.answer},
      {"workers", e.workers},
      {"plan", e.plan.empty() ? Json(nullptr) : Json(e.plan)},
      {"links", e.links.empty() ? Json(nullptr) : Json(e.links)},
      {"library", e.library.empty() ? Json(nullptr) : Json(e.library)},
      {"step_s", e.split().step.value()},
      {"without_communication_s", e.without_communication ? Json(e.without_communication->value()) : Json(nullptr)},
      {"worth_share", e.worth},
      {"lateness", e.check.lateness.empty() ? Json(nullptr) : Json(e.check.lateness)},
      {"now", levers_json(e.now)},
      {"next", levers_json(e.next)},
      {"not_now", levers_json(e.not_now)},
      {"record", e.record},
      {"settings", e.settings.empty() ? Json(nullptr) : Json(e.settings)},
      {"shown", e.shown},
      {"ranks", std::move(ranks)}};
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace stepcast
