// The JSON form of a cluster, schema "stepcast.cluster/1": unit strings for quantities, SI arrays for tables.
#include <stepcast/cluster.hpp>
#include <stepcast/text.hpp>

#include <nlohmann/json.hpp>

#include <set>
#include <span>

namespace stepcast {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view schema = "stepcast.cluster/1";

/// A JSON value with its place in the document, for messages.
class Node {
 public:
  Node(const Json& json, std::string where) : json_(&json), where_(std::move(where)) {}

  /// Throws unless this is an object that has only `known` keys.
  void require_keys(std::span<const std::string> known) const {
    if (!json_->is_object()) refuse("an object");
    for (const auto& [key, value] : json_->items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const std::string near = suggestion_for(key, known);
      throw InputError(where_ + "/" + key, "a known key", "'" + key + "'",
                       near.empty() ? "known keys: " + listed(known) : "did you mean '" + near + "'?");
    }
  }
  [[nodiscard]] bool has(const char* key) const { return json_->contains(key); }
  [[nodiscard]] Node at(const char* key) const {
    if (!has(key)) throw InputError(where_ + "/" + key, "a value", "nothing", "the key is required");
    return {(*json_)[key], where_ + "/" + key};
  }
  [[nodiscard]] std::vector<Node> elements(const char* expected) const {
    if (!json_->is_array()) refuse(expected);
    std::vector<Node> all;
    for (std::size_t i = 0; i < json_->size(); ++i) all.emplace_back((*json_)[i], where_ + "/" + std::to_string(i));
    return all;
  }

  [[nodiscard]] std::string text() const {
    if (!json_->is_string()) refuse("a string");
    return json_->get<std::string>();
  }
  [[nodiscard]] std::int64_t integer() const {
    // An unsigned number beyond int64 must not wrap around.
    const bool huge = json_->is_number_unsigned() && json_->get<std::uint64_t>() > INT64_MAX;
    if (!json_->is_number_integer() || huge) refuse("a whole number");
    return json_->get<std::int64_t>();
  }
  [[nodiscard]] double number() const {
    if (!json_->is_number()) refuse("a number");
    return json_->get<double>();
  }
  [[nodiscard]] Seconds seconds() const { return seconds_of(quantity("'5 us'"), where_); }
  [[nodiscard]] Bytes bytes() const { return bytes_of(quantity("'40 GiB'"), where_); }
  [[nodiscard]] BytesPerSecond bandwidth() const { return bandwidth_of(quantity("'25 Gb/s'"), where_); }
  [[nodiscard]] Link link() const {
    static const std::vector<std::string> known{"latency", "bandwidth"};
    require_keys(known);
    return {at("latency").seconds(), at("bandwidth").bandwidth()};
  }

  [[noreturn]] void refuse(std::string expected) const {
    throw InputError(where_, std::move(expected), json_->dump(-1, ' ', false, Json::error_handler_t::replace));
  }

 private:
  [[nodiscard]] std::string quantity(const char* example) const {
    if (!json_->is_string()) refuse(std::string("a string with number and unit, such as ") + example);
    return json_->get<std::string>();
  }
  static std::string listed(std::span<const std::string> words) {
    std::string list;
    for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
    return list;
  }

  const Json* json_;
  std::string where_;
};

/// Parses; refuses bottomless documents and repeated keys, of which JSON parsers silently keep one.
Json parsed(std::string_view text, std::string_view source) {
  std::vector<std::set<std::string>> open;
  const auto on_event = [&](int depth, Json::parse_event_t event, Json& value) {
    // Deeper than any cluster; values are walked recursively later.
    if (depth > 32) throw InputError(std::string(source), "a document of at most 32 levels", "a deeper one");
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second) {
      throw InputError(std::string(source), "each key once", "'" + value.get<std::string>() + "' twice");
    }
    return true;
  };
  try {
    return Json::parse(text, on_event);
  } catch (const Json::parse_error& error) {
    throw InputError(std::string(source) + "@" + std::to_string(error.byte), "a JSON document", error.what());
  } catch (const Json::exception& error) { throw InputError(std::string(source), "a JSON document", error.what()); }
}

MeasuredCollective table_of(const Node& node) {
  static const std::vector<std::string> known{"operation", "workers", "sizes_bytes", "times_s", "provenance"};
  node.require_keys(known);
  MeasuredCollective table;
  if (node.has("operation")) table.operation = node.at("operation").text();
  table.workers = node.at("workers").integer();
  for (const Node& n : node.at("sizes_bytes").elements("an array of bytes")) table.sizes.emplace_back(n.number());
  for (const Node& n : node.at("times_s").elements("an array of seconds")) table.times.emplace_back(n.number());
  if (node.has("provenance")) table.provenance = node.at("provenance").text();
  return table;
}

Contention contention_of(const Node& node) {
  static const std::vector<std::string> known{"inside_under_compute", "network_under_compute", "latency_under_compute",
                                              "compute_under_communication"};
  node.require_keys(known);
  Contention contention;
  double* const factors[] = {&contention.inside_under_compute, &contention.network_under_compute,
                             &contention.latency_under_compute, &contention.compute_under_communication};
  for (std::size_t i = 0; i < known.size(); ++i)
    if (node.has(known[i].c_str())) *factors[i] = node.at(known[i].c_str()).number();
  return contention;
}

Json json_of(const Link& link) {
  return {{"latency", exact_text_of(link.latency)}, {"bandwidth", exact_text_of(link.bandwidth)}};
}

Json json_of(const MeasuredCollective& table) {
  Json sizes = Json::array(), times = Json::array();
  for (const Bytes size : table.sizes) sizes.push_back(size.value());
  for (const Seconds time : table.times) times.push_back(time.value());
  Json json{{"operation", table.operation}, {"workers", table.workers}, {"sizes_bytes", sizes}, {"times_s", times}};
  if (!table.provenance.empty()) json["provenance"] = table.provenance;
  return json;
}

}  // namespace

Cluster cluster_of_json(std::string_view text, std::string_view source) {
  static const std::vector<std::string> known{"schema",
                                              "name",
                                              "nodes",
                                              "devices_per_node",
                                              "device",
                                              "device_memory",
                                              "inside",
                                              "network",
                                              "nics_per_node",
                                              "server_link",
                                              "servers",
                                              "server_sum_rate",
                                              "server_local_rate",
                                              "server_staging_rate",
                                              "message_overhead",
                                              "all_reduce",
                                              "tables",
                                              "contention",
                                              "relative_error",
                                              "provenance"};
  const Json json = parsed(text, source);
  const Node top(json, std::string(source) + "#");
  top.require_keys(known);
  if (top.at("schema").text() != schema) top.at("schema").refuse("'" + std::string(schema) + "'");

  Cluster c;
  c.name = top.at("name").text();
  c.nodes = top.at("nodes").integer();
  c.devices_per_node = top.at("devices_per_node").integer();
  c.inside = top.at("inside").link();
  c.network = top.at("network").link();
  if (top.has("device")) c.device = top.at("device").text();
  if (top.has("device_memory")) c.device_memory = top.at("device_memory").bytes();
  if (top.has("nics_per_node")) c.nics_per_node = top.at("nics_per_node").integer();
  if (top.has("server_link")) c.server_link = top.at("server_link").link();
  if (top.has("servers")) c.servers = top.at("servers").integer();
  if (top.has("server_local_rate")) c.server_local_rate = top.at("server_local_rate").bandwidth();
  if (top.has("server_staging_rate")) c.server_staging_rate = top.at("server_staging_rate").bandwidth();
  if (top.has("server_sum_rate")) c.server_sum_rate = top.at("server_sum_rate").bandwidth();
  if (top.has("message_overhead")) c.message_overhead = top.at("message_overhead").seconds();
  if (top.has("all_reduce")) c.all_reduce = top.at("all_reduce").text();
  if (top.has("tables")) {
    for (const Node& node : top.at("tables").elements("an array of tables")) c.tables.push_back(table_of(node));
  }
  if (top.has("contention")) c.contention = contention_of(top.at("contention"));
  if (top.has("relative_error")) c.relative_error = top.at("relative_error").number();
  for (const Node& node : top.at("provenance").elements("an array of strings")) c.provenance.push_back(node.text());
  if (c.provenance.empty()) top.at("provenance").refuse("at least one line on where the numbers come from");
  return checked(std::move(c), source);
}

std::string json_of(const Cluster& c) {
  Json json{{"schema", schema}, {"name", c.name}, {"nodes", c.nodes}, {"devices_per_node", c.devices_per_node}};
  if (!c.device.empty()) json["device"] = c.device;
  if (c.device_memory.value() > 0) json["device_memory"] = exact_text_of(c.device_memory);
  json["inside"] = json_of(c.inside);
  json["network"] = json_of(c.network);
  json["nics_per_node"] = c.nics_per_node;
  if (c.server_link.bandwidth.value() > 0) json["server_link"] = json_of(c.server_link);
  json["servers"] = c.servers;
  if (c.server_local_rate.value() > 0) json["server_local_rate"] = exact_text_of(c.server_local_rate);
  if (c.server_staging_rate.value() > 0) json["server_staging_rate"] = exact_text_of(c.server_staging_rate);
  if (c.server_sum_rate.value() > 0) json["server_sum_rate"] = exact_text_of(c.server_sum_rate);
  json["message_overhead"] = exact_text_of(c.message_overhead);
  json["all_reduce"] = c.all_reduce;
  if (!c.tables.empty()) {
    json["tables"] = Json::array();
    for (const MeasuredCollective& table : c.tables) json["tables"].push_back(json_of(table));
  }
  json["contention"] = {{"inside_under_compute", c.contention.inside_under_compute},
                        {"network_under_compute", c.contention.network_under_compute},
                        {"latency_under_compute", c.contention.latency_under_compute},
                        {"compute_under_communication", c.contention.compute_under_communication}};
  if (c.relative_error > 0) json["relative_error"] = c.relative_error;
  json["provenance"] = c.provenance.empty() ? Json::array({"not stated"}) : Json(c.provenance);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stepcast
