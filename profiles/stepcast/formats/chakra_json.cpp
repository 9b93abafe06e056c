// Chakra as JSON: the form that Chakra's feeder reads beside protobuf.
//
//   {"workload_graph": [{"Id": 216, "Name": "aten::mm(0)", "NodeType": 4, "ctrlDeps": [3], "data_deps": [],
//                        "runtime": 318, "is_cpu_op": true}, ...], "workload_name": ..., "ngpus": 8}
//
// "runtime" is microseconds; further keys of a node (comm_type, comm_size, start, ...) are its attributes. Written by
// mlcommons/chakra src/feeder (JSONNode).
#include <stepcast/base/error.hpp>
#include <stepcast/encodings/inflate.hpp>
#include <stepcast/formats/chakra/chakra_trace.hpp>
#include <stepcast/formats/shared/format.hpp>

#include <nlohmann/json.hpp>

#include <limits>

namespace stepcast::format::chakra_json {
namespace {

using Json = nlohmann::json;

constexpr std::size_t largest_text = std::size_t{512} << 20;

bool recognises(std::string_view head) {
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && head[first] == '{' && head.find("\"workload_graph\"") != head.npos;
}

std::string whole_text(const Source& source, const ReadOptions& options) {
  PlainText plain(source.bytes);
  std::string text;
  constexpr std::size_t step = std::size_t{1} << 20;
  for (std::size_t got = step; got == step;) {
    const std::size_t old = text.size();
    text.resize(old + step);
    got = plain.read(std::span(text).subspan(old));
    text.resize(old + got);
    if (text.size() > largest_text)
      throw InputError(source.name, "a workload graph of at most 512 MiB", "a longer text", "use the protobuf form");
    if (options.progress) options.progress(plain.share_read());
  }
  return text;
}

std::vector<std::uint64_t> ids_at(const Json& node, const char* key, const char* other_key) {
  std::vector<std::uint64_t> ids;
  const auto found = node.contains(key) ? node.find(key) : node.find(other_key);
  if (found == node.end() || !found->is_array()) return ids;
  for (const Json& id : *found)
    if (id.is_number_unsigned()) ids.push_back(id.get<std::uint64_t>());
  return ids;
}

chakra_et::Value value_of(const Json& json) {
  chakra_et::Value value;
  if (json.is_string()) value.text = json.get<std::string>();
  if (json.is_boolean()) value.number = json.get<bool>();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    value.number = json.get<std::int64_t>();
  else if (json.is_number_integer() && !json.is_number_unsigned()) value.number = json.get<std::int64_t>();
  return value;
}

chakra_et::Node node_of(const Json& json, const std::string& where) {
  if (!json.is_object() || !json.contains("Id") || !json["Id"].is_number_unsigned())
    throw InputError(where, "a node with a whole number \"Id\"", json.dump().substr(0, 60));
  chakra_et::Node node;
  node.id = json["Id"].get<std::uint64_t>();
  if (json.contains("Name") && json["Name"].is_string()) node.name = json["Name"].get<std::string>();
  std::uint64_t type = 0;
  if (json.contains("NodeType") && json["NodeType"].is_number_unsigned()) type = json["NodeType"].get<std::uint64_t>();
  node.type = type < 8 ? static_cast<chakra_et::NodeType>(type) : chakra_et::NodeType::other;
  node.control = ids_at(json, "ctrlDeps", "ctrl_deps");
  node.data = ids_at(json, "data_deps", "dataDeps");
  if (json.contains("runtime") && json["runtime"].is_number()) {
    const double us = json["runtime"].get<double>();
    if (!(us >= 0 && us < 9e15)) throw InputError(where, "a runtime >= 0 in us", json["runtime"].dump());
    node.duration_us = static_cast<std::uint64_t>(us);
    if (us != static_cast<double>(node.duration_us))
      node.attributes["duration_ns"].number = static_cast<std::int64_t>(us * 1000 + 0.5);
  }
  for (const auto& [key, value] : json.items())
    if (key != "Id" && key != "Name" && key != "NodeType" && key != "runtime" && !value.is_array())
      node.attributes[key] = value_of(value);
  return node;
}

Reading read(const Source& source, const ReadOptions& options) {
  const std::string text = whole_text(source, options);
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw InputError(source.name, "JSON", "a text that is damaged or ends early");
  if (!json.is_object() || !json.contains("workload_graph") || !json["workload_graph"].is_array())
    throw InputError(source.name, "an array \"workload_graph\"", "none at the top of the document");
  ChakraTrace trace(source.name, options);
  std::size_t number = 0;
  for (const Json& node : json["workload_graph"])
    trace.add(node_of(node, source.name + "#/workload_graph/" + std::to_string(number++)), chakra_et::Schema::current);
  chakra_et::Metadata metadata;
  for (const auto& [key, value] : json.items())
    if (!value.is_array()) metadata.attributes[key] = value_of(value);
  Reading reading;
  reading.traces.push_back(trace.finish(metadata, "chakra-json", "Chakra workload graph (JSON)", text.size()));
  return reading;
}

}  // namespace

Format record() {
  return {"chakra-json", "Chakra execution trace as JSON (key \"workload_graph\")", "mlcommons/chakra src/feeder",
          recognises, read};
}

}  // namespace stepcast::format::chakra_json
