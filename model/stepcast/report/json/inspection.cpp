// Inspection as JSON, schema "stepcast.inspect/1": for each file its traces, profiles, execution traces and refusals.
#include <stepcast/report/inspection_report.hpp>

#include <nlohmann/json.hpp>

#include <ostream>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;

/// Null for a quantity whose zero means "unknown".
Json known(Seconds t) { return t > Seconds(0) ? Json(t.value()) : Json(nullptr); }
Json known(std::int64_t number) { return number >= 0 ? Json(number) : Json(nullptr); }

Json report_json(const ReadReport& r) {
  return {{"bytes_read", r.bytes},
          {"events_seen", r.events_seen},
          {"events_unclassified", r.events_unclassified},
          {"events_left_out", r.events_left_out},
          {"python_frames", r.python_frames},
          {"missing", r.missing},
          {"assumed", r.assumed},
          {"repaired", r.repaired}};
}

Json collectives_json(const TraceSummary& s) {
  Json sizes = Json::object();
  for (std::size_t i = 0; i < bytes_sources; ++i) {
    const auto source = static_cast<BytesSource>(i);
    if (s.collectives_by_source[i] == 0) continue;
    sizes[std::string(name_of(source))] = {
        {"count", s.collectives_by_source[i]},
        {"size_bytes", source == BytesSource::unknown ? Json(nullptr) : Json(s.bytes_by_source[i].value())}};
  }
  return {{"count", s.collectives},
          {"union_s", s.collective_time.value()},
          {"exposed_s", s.kernels > 0 && s.exposed >= Seconds(0) ? Json(s.exposed.value()) : Json(nullptr)},
          {"size_sources", std::move(sizes)}};
}

Json trace_json(const InspectedTrace& t) {
  const TraceSummary& s = t.summary;
  return {{"source", s.source},
          {"format", s.format},
          {"producer", s.producer},
          {"device", s.device.empty() ? Json(nullptr) : Json(s.device)},
          {"rank", known(s.rank)},
          {"world_size", known(s.world_size)},
          {"steps", s.steps},
          {"step_annotation", s.step_annotation.empty() ? Json(nullptr) : Json(s.step_annotation)},
          {"first_step", known(s.first_step)},
          {"last_step", known(s.last_step)},
          {"step_s", known(s.step)},
          {"host_step_s", known(s.host_step)},
          {"device_period_s", known(s.device_period)},
          {"span_s", s.span.value()},
          {"events", s.events},
          {"threads", t.host_tracks},
          {"streams", t.device_tracks},
          {"kernels", s.kernels},
          {"kernel_s", s.kernel_time.value()},
          {"kernels_unclassified", s.unclassified_kernels},
          {"kernel_unclassified_s", s.unclassified_kernel_time.value()},
          {"collectives", collectives_json(s)},
          {"unclassified_share", s.unclassified_share},
          {"dependencies",
           {{"stream_wait", t.dependencies[0]},
            {"host_wait", t.dependencies[1]},
            {"data", t.dependencies[2]},
            {"control", t.dependencies[3]},
            {"forward_backward", t.forward_backward}}},
          {"process_groups", t.groups},
          {"report", report_json(t.report)}};
}

Json execution_json(const InspectedExecution& e) {
  return {{"source", e.source},           {"schema", e.schema},
          {"rank", known(e.rank)},        {"operators", e.nodes},
          {"with_shapes", e.with_shapes}, {"collectives", e.collectives},
          {"process_groups", e.groups},   {"report", report_json(e.report)}};
}

Json profile_json(const Profile& p) {
  return {{"model", p.model},
          {"layers", p.layers.size()},
          {"tensors", p.tensors.size()},
          {"gradients_bytes", p.gradient_size().value()},
          {"forward_s", forward_time(p).value()},
          {"backward_s", backward_time(p).value()},
          {"step_s", known(p.measured_step())},
          {"provenance", p.provenance},
          {"missing", p.missing},
          {"assumed", p.assumed}};
}

template <class T>
Json list_json(const std::vector<T>& items, Json (*json_of_item)(const T&)) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(json_of_item(item));
  return list;
}

}  // namespace

void write_inspection_json(std::ostream& out, const Inspection& inspection) {
  Json json = {{"schema", "stepcast.inspect/1"}, {"files", Json::array()}};
  for (const InspectedFile& file : inspection.files)
    json["files"].push_back({{"file", file.name},
                             {"traces", list_json(file.traces, trace_json)},
                             {"profiles", list_json(file.profiles, profile_json)},
                             {"execution_traces", list_json(file.executions, execution_json)},
                             {"refused", file.refused}});
  // Names come from traces: bytes that are no UTF-8 are replaced, never an exception.
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace stepcast
