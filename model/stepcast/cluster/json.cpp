// The JSON forms of a cluster, schema "stepcast.cluster/1", and of an overlay, schema "stepcast.overlay/1": unit
// strings for quantities, SI arrays for tables.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/encodings/json_node.hpp>

#include <utility>
#include <vector>

namespace stepcast {
namespace {

using Json = JsonNode::Json;
constexpr std::string_view schema = "stepcast.cluster/1";
constexpr std::string_view overlay_schema = "stepcast.overlay/1";

Link link_of(const JsonNode& node) {
  static const std::vector<std::string> known{"latency", "bandwidth"};
  node.require_keys(known);
  return {node.at("latency").seconds(), node.at("bandwidth").bandwidth()};
}

/// The first level joins machines over their own cards; what is said of another one's bandwidth and latency is its own,
/// else that of the level below.
Level level_of(const JsonNode& node, const Link& below, bool first) {
  static const std::vector<std::string> known{"name",       "units", "latency", "bandwidth", "oversubscription",
                                              "background", "torus", "wrapped"};
  node.require_keys(known);
  Level level{node.at("name").text(), node.at("units").integer(), {}, {}, 1, 0};
  if (node.has("torus"))
    for (const JsonNode& n : node.at("torus").elements("an array of units along each dimension"))
      level.torus.push_back({n.integer(), true});
  if (node.has("wrapped")) {
    const std::vector<JsonNode> wrapped = node.at("wrapped").elements("an array of true and false");
    if (wrapped.size() != level.torus.size())
      node.at("wrapped").refuse("true or false for each dimension of the torus");
    for (std::size_t i = 0; i < wrapped.size(); ++i) level.torus[i].closed = wrapped[i].boolean();
  }
  if (!first) level.latency = below.latency, level.bandwidth = below.bandwidth;
  if (node.has("latency")) level.latency = node.at("latency").seconds();
  if (node.has("bandwidth")) level.bandwidth = node.at("bandwidth").bandwidth();
  if (node.has("oversubscription")) level.oversubscription = node.at("oversubscription").number();
  if (node.has("background")) level.background = node.at("background").number();
  return level;
}

std::vector<Level> levels_of(const JsonNode& node, const Link& network) {
  std::vector<Level> levels;
  Link below = network;
  for (const JsonNode& n : node.elements("an array of levels")) {
    levels.push_back(level_of(n, below, levels.empty()));
    if (levels.size() > 1) below = {levels.back().latency, levels.back().bandwidth};
  }
  return levels;
}

MeasuredCollective table_of(const JsonNode& node) {
  static const std::vector<std::string> known{
      "operation", "workers", "nodes", "sizes_bytes", "times_s", "provenance", "devices_per_process"};
  node.require_keys(known);
  MeasuredCollective table;
  if (node.has("operation")) table.operation = node.at("operation").text();
  table.workers = node.at("workers").integer();
  if (node.has("nodes")) table.nodes = node.at("nodes").integer();
  for (const JsonNode& n : node.at("sizes_bytes").elements("an array of bytes")) table.sizes.emplace_back(n.number());
  for (const JsonNode& n : node.at("times_s").elements("an array of seconds")) table.times.emplace_back(n.number());
  if (node.has("provenance")) table.provenance = node.at("provenance").text();
  if (node.has("devices_per_process")) table.devices_per_process = node.at("devices_per_process").integer();
  return table;
}

LibraryOperation library_operation_of(const JsonNode& node) {
  static const std::vector<std::string> known{"operation", "times_as_long", "provenance"};
  node.require_keys(known);
  return {node.at("operation").text(), node.at("times_as_long").number(), node.at("provenance").text()};
}

constexpr std::pair<const char*, double NcclTuning::*> nccl_factors[] = {{"launch", &NcclTuning::launch},
                                                                         {"simple_hop", &NcclTuning::simple_hop},
                                                                         {"ll", &NcclTuning::ll},
                                                                         {"ll_between", &NcclTuning::ll_between},
                                                                         {"ll128", &NcclTuning::ll128},
                                                                         {"tree", &NcclTuning::tree},
                                                                         {"nvls", &NcclTuning::nvls},
                                                                         {"collnet", &NcclTuning::collnet},
                                                                         {"all_to_all", &NcclTuning::all_to_all},
                                                                         {"send", &NcclTuning::send},
                                                                         {"pair", &NcclTuning::pair}};

NcclTuning nccl_tuning_of(const JsonNode& node) {
  static const std::vector<std::string> known = [] {
    std::vector<std::string> names{"peer", "NCCL_ALGO", "NCCL_PROTO"};
    for (const auto& [key, factor] : nccl_factors) names.emplace_back(key);
    return names;
  }();
  node.require_keys(known);
  NcclTuning t;
  for (const auto& [key, factor] : nccl_factors)
    if (node.has(key)) t.*factor = node.at(key).number();
  if (node.has("peer")) t.peer = node.at("peer").seconds();
  if (node.has("NCCL_ALGO")) t.algo = node.at("NCCL_ALGO").text();
  if (node.has("NCCL_PROTO")) t.proto = node.at("NCCL_PROTO").text();
  return t;
}

Contention contention_of(const JsonNode& node) {
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

Aggregation aggregation_of(const JsonNode& node) {
  static const std::vector<std::string> known{"program",    "payload",       "header",    "packets_outstanding",
                                              "round_trip", "line_rate",     "host_rate", "hit_fraction",
                                              "racks",      "absorbed_share"};
  node.require_keys(known);
  Aggregation a;
  if (node.has("program")) a.program = node.at("program").text();
  if (node.has("payload")) a.payload = node.at("payload").bytes();
  if (node.has("header")) a.header = node.at("header").bytes();
  if (node.has("packets_outstanding")) a.packets_outstanding = node.at("packets_outstanding").integer();
  if (node.has("round_trip")) a.round_trip = node.at("round_trip").seconds();
  if (node.has("line_rate")) a.line_rate = node.at("line_rate").bandwidth();
  if (node.has("host_rate")) a.host_rate = node.at("host_rate").bandwidth();
  if (node.has("hit_fraction")) a.hit_fraction = node.at("hit_fraction").number();
  if (node.has("racks")) a.racks = node.at("racks").integer();
  if (node.has("absorbed_share")) a.absorbed_share = node.at("absorbed_share").number();
  return a;
}

constexpr std::string_view distribution_names[] = {"none", "normal", "exponential"};

Jitter jitter_of(const JsonNode& node) {
  static const std::vector<std::string> known{"distribution", "relative"};
  node.require_keys(known);
  const std::string name = node.at("distribution").text();
  const auto* const found = std::find(std::begin(distribution_names), std::end(distribution_names), name);
  if (found == std::end(distribution_names)) node.at("distribution").refuse("normal or exponential");
  Jitter jitter;
  jitter.distribution = static_cast<Jitter::Distribution>(found - std::begin(distribution_names));
  if (node.has("relative")) jitter.relative = node.at("relative").number();
  return jitter;
}

Stragglers stragglers_of(const JsonNode& node) {
  static const std::vector<std::string> known{"slow", "jitter"};
  static const std::vector<std::string> slow_keys{"workers", "compute_factor", "delay", "link_share"};
  node.require_keys(known);
  Stragglers stragglers;
  if (node.has("slow")) {
    for (const JsonNode& n : node.at("slow").elements("an array of slow workers")) {
      n.require_keys(slow_keys);
      SlowWorkers slow;
      if (n.has("workers")) slow.workers = n.at("workers").integer();
      if (n.has("compute_factor")) slow.compute_factor = n.at("compute_factor").number();
      if (n.has("delay")) slow.delay = n.at("delay").seconds();
      if (n.has("link_share")) slow.link_share = n.at("link_share").number();
      stragglers.slow.push_back(slow);
    }
  }
  if (node.has("jitter")) stragglers.jitter = jitter_of(node.at("jitter"));
  return stragglers;
}

Transport transport_of(const JsonNode& node) {
  static const std::vector<std::string> known{"loss",  "stalls", "rto",      "packet",    "oversubscription",
                                              "flows", "paths",  "spraying", "flow_rate", "background"};
  node.require_keys(known);
  Transport t;
  if (node.has("loss")) t.loss = node.at("loss").number();
  if (node.has("stalls")) t.stalls = node.at("stalls").number();
  if (node.has("rto")) t.timeout = node.at("rto").seconds();
  if (node.has("packet")) t.packet = node.at("packet").bytes();
  if (node.has("oversubscription")) t.oversubscription = node.at("oversubscription").number();
  if (node.has("flows")) t.flows = node.at("flows").integer();
  if (node.has("paths")) t.paths = node.at("paths").integer();
  if (node.has("spraying")) t.spraying = node.at("spraying").boolean();
  if (node.has("flow_rate")) t.flow_rate = node.at("flow_rate").bandwidth();
  if (node.has("background")) t.background = node.at("background").number();
  return t;
}

Host host_of_json(const JsonNode& node) {
  static const std::vector<std::string> known{"memory", "copies", "updates", "devices"};
  node.require_keys(known);
  Host h;
  if (node.has("memory")) h.memory = node.at("memory").bytes();
  if (node.has("copies")) h.copies = node.at("copies").bandwidth();
  if (node.has("updates")) h.updates = node.at("updates").number();
  if (node.has("devices")) h.devices = node.at("devices").integer();
  return h;
}

// The two ends of a link or an edge.
std::pair<std::string, std::string> ends_of(const JsonNode& node) {
  const std::vector<JsonNode> ends = node.elements("an array of two names");
  if (ends.size() != 2) node.refuse("an array of two names");
  return {ends[0].text(), ends[1].text()};
}

OverlayNetwork overlay_of(const JsonNode& node, std::string_view source) {
  static const std::vector<std::string> known{"schema", "name", "agents", "relays", "links", "overlay", "provenance"};
  static const std::vector<std::string> link_keys{"between", "capacity", "latency"};
  static const std::vector<std::string> edge_keys{"between", "route"};
  node.require_keys(known);
  if (node.at("schema").text() != overlay_schema) node.at("schema").refuse(in_quotes(overlay_schema));
  OverlayNetwork o;
  o.name = node.at("name").text();
  for (const JsonNode& n : node.at("agents").elements("an array of names")) o.agents.push_back(n.text());
  o.relays = node.texts("relays", "an array of names");
  for (const JsonNode& n : node.at("links").elements("an array of links")) {
    n.require_keys(link_keys);
    const auto [a, b] = ends_of(n.at("between"));
    o.links.push_back({a, b, n.at("capacity").bandwidth(), n.has("latency") ? n.at("latency").seconds() : Seconds(0)});
  }
  for (const JsonNode& n : node.at("overlay").elements("an array of edges")) {
    n.require_keys(edge_keys);
    const auto [a, b] = ends_of(n.at("between"));
    o.edges.push_back({a, b, n.texts("route", "an array of names")});
  }
  for (const JsonNode& n : node.at("provenance").elements("an array of strings")) o.provenance.push_back(n.text());
  return checked(std::move(o), source);
}

Json json_value_of(const OverlayNetwork& o) {
  Json json{{"schema", overlay_schema}, {"name", o.name}, {"agents", o.agents}};
  if (!o.relays.empty()) json["relays"] = o.relays;
  json["links"] = Json::array();
  for (const OverlayNetwork::Link& l : o.links) {
    Json link;
    link["between"] = Json::array({l.a, l.b});
    link["capacity"] = exact_text_of(l.capacity);
    if (l.latency > Seconds(0)) link["latency"] = exact_text_of(l.latency);
    json["links"].push_back(std::move(link));
  }
  json["overlay"] = Json::array();
  for (const OverlayNetwork::Edge& e : o.edges) {
    Json edge;
    edge["between"] = Json::array({e.a, e.b});
    if (!e.route.empty()) edge["route"] = e.route;
    json["overlay"].push_back(std::move(edge));
  }
  json["provenance"] = o.provenance;
  return json;
}

Json json_of(const Link& link) {
  return {{"latency", exact_text_of(link.latency)}, {"bandwidth", exact_text_of(link.bandwidth)}};
}

Json json_of(const std::vector<Level>& levels) {
  Json json = Json::array();
  for (const Level& level : levels) {
    Json& entry = json.emplace_back(Json{{"name", level.name}, {"units", level.units}});
    bool closed = true;
    for (const TorusSide& side : level.torus) entry["torus"].push_back(side.units), closed = closed && side.closed;
    if (!closed)
      for (const TorusSide& side : level.torus) entry["wrapped"].push_back(side.closed);
    if (json.size() == 1) continue;
    entry["latency"] = exact_text_of(level.latency);
    entry["bandwidth"] = exact_text_of(level.bandwidth);
    if (level.oversubscription != 1) entry["oversubscription"] = level.oversubscription;
    if (level.background > 0) entry["background"] = level.background;
  }
  return json;
}

Json json_of(const MeasuredCollective& table) {
  Json sizes = Json::array(), times = Json::array();
  for (const Bytes size : table.sizes) sizes.push_back(size.value());
  for (const Seconds time : table.times) times.push_back(time.value());
  Json json{{"operation", table.operation}, {"workers", table.workers}, {"sizes_bytes", sizes}, {"times_s", times}};
  if (table.nodes > 0) json["nodes"] = table.nodes;
  if (table.devices_per_process > 1) json["devices_per_process"] = table.devices_per_process;
  if (!table.provenance.empty()) json["provenance"] = table.provenance;
  return json;
}

Json json_of(const NcclTuning& t) {
  Json json = Json::object();
  for (const auto& [key, factor] : nccl_factors) json[key] = t.*factor;
  json["peer"] = exact_text_of(t.peer);
  if (!t.algo.empty()) json["NCCL_ALGO"] = t.algo;
  if (!t.proto.empty()) json["NCCL_PROTO"] = t.proto;
  return json;
}

Json json_of(const Aggregation& a) {
  Json json{{"program", a.program}};
  if (a.payload.value() > 0) json["payload"] = exact_text_of(a.payload), json["header"] = exact_text_of(a.header);
  json["packets_outstanding"] = a.packets_outstanding;
  if (a.round_trip.value() > 0) json["round_trip"] = exact_text_of(a.round_trip);
  if (a.line_rate.value() > 0) json["line_rate"] = exact_text_of(a.line_rate);
  if (a.host_rate.value() > 0) json["host_rate"] = exact_text_of(a.host_rate);
  json["hit_fraction"] = a.hit_fraction;
  json["racks"] = a.racks;
  json["absorbed_share"] = a.absorbed_share;
  return json;
}

Json json_of(const Transport& t) {
  Json json{{"loss", t.loss},
            {"stalls", t.stalls},
            {"rto", exact_text_of(t.timeout)},
            {"packet", exact_text_of(t.packet)},
            {"oversubscription", t.oversubscription},
            {"flows", t.flows},
            {"paths", t.paths},
            {"spraying", t.spraying}};
  if (t.flow_rate > BytesPerSecond(0)) json["flow_rate"] = exact_text_of(t.flow_rate);
  if (t.background > 0) json["background"] = t.background;
  return json;
}

Json json_of(const Host& h) {
  Json json = Json::object();
  if (h.memory > Bytes(0)) json["memory"] = exact_text_of(h.memory);
  if (h.copies > BytesPerSecond(0)) json["copies"] = exact_text_of(h.copies);
  if (h.updates > 0) json["updates"] = h.updates;
  if (h.devices > 0) json["devices"] = h.devices;
  return json;
}

Json json_of(const Stragglers& stragglers) {
  Json json{{"slow", Json::array()}};
  for (const SlowWorkers& s : stragglers.slow)
    json["slow"].push_back({{"workers", s.workers},
                            {"compute_factor", s.compute_factor},
                            {"delay", exact_text_of(s.delay)},
                            {"link_share", s.link_share}});
  const Jitter& jitter = stragglers.jitter;
  json["jitter"] = {{"distribution", distribution_names[static_cast<std::size_t>(jitter.distribution)]},
                    {"relative", jitter.relative}};
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
                                              "inside_mesh",
                                              "network",
                                              "nics_per_node",
                                              "levels",
                                              "server_link",
                                              "servers",
                                              "servers_stay",
                                              "server_sum_rate",
                                              "server_rate",
                                              "server_local_rate",
                                              "server_staging_rate",
                                              "message_overhead",
                                              "all_reduce",
                                              "tables",
                                              "library",
                                              "nccl",
                                              "contention",
                                              "aggregation",
                                              "overlay",
                                              "stragglers",
                                              "transport",
                                              "host",
                                              "relative_error",
                                              "provenance"};
  const Json json = parsed_json(text, source);
  const JsonNode top(json, std::string(source) + "#");
  top.require_schema(schema);
  top.require_keys(known, {"schema", "name", "nodes", "devices_per_node", "inside", "network", "provenance"});

  Cluster c;
  c.name = top.at("name").text();
  c.nodes = top.at("nodes").integer();
  c.devices_per_node = top.at("devices_per_node").integer();
  c.inside = link_of(top.at("inside"));
  if (top.has("inside_mesh")) c.inside_mesh = top.at("inside_mesh").integer();
  c.network = link_of(top.at("network"));
  if (top.has("device")) c.device = top.at("device").text();
  if (top.has("device_memory")) c.device_memory = top.at("device_memory").bytes();
  if (top.has("nics_per_node")) c.nics_per_node = top.at("nics_per_node").integer();
  if (top.has("levels")) c.levels = levels_of(top.at("levels"), c.network);
  if (top.has("server_link")) c.server_link = link_of(top.at("server_link"));
  if (top.has("servers")) c.servers = top.at("servers").integer();
  if (top.has("servers_stay")) c.servers_stay = top.at("servers_stay").boolean();
  if (top.has("server_local_rate")) c.server_local_rate = top.at("server_local_rate").bandwidth();
  if (top.has("server_staging_rate")) c.server_staging_rate = top.at("server_staging_rate").bandwidth();
  if (top.has("server_rate")) c.server_rate = top.at("server_rate").bandwidth();
  if (top.has("server_sum_rate")) c.server_sum_rate = top.at("server_sum_rate").bandwidth();
  if (top.has("message_overhead")) c.message_overhead = top.at("message_overhead").seconds();
  if (top.has("all_reduce")) c.all_reduce = top.at("all_reduce").text();
  if (top.has("tables")) {
    for (const JsonNode& node : top.at("tables").elements("an array of tables")) c.tables.push_back(table_of(node));
  }
  if (top.has("library")) {
    for (const JsonNode& node : top.at("library").elements("an array of operations"))
      c.library.push_back(library_operation_of(node));
  }
  if (top.has("nccl")) c.nccl = nccl_tuning_of(top.at("nccl"));
  if (top.has("contention")) c.contention = contention_of(top.at("contention"));
  if (top.has("aggregation")) c.aggregation = aggregation_of(top.at("aggregation"));
  if (top.has("overlay")) c.overlay = overlay_of(top.at("overlay"), top.place("overlay"));
  if (top.has("stragglers")) c.stragglers = stragglers_of(top.at("stragglers"));
  if (top.has("transport")) c.transport = transport_of(top.at("transport"));
  if (top.has("host")) c.host = host_of_json(top.at("host"));
  if (top.has("relative_error")) c.relative_error = top.at("relative_error").number();
  for (const JsonNode& node : top.at("provenance").elements("an array of strings")) c.provenance.push_back(node.text());
  if (c.provenance.empty()) top.at("provenance").refuse("at least one line on where the numbers come from");
  return checked(std::move(c), source);
}

std::string json_of(const Cluster& c) {
  Json json{{"schema", schema}, {"name", c.name}, {"nodes", c.nodes}, {"devices_per_node", c.devices_per_node}};
  if (!c.device.empty()) json["device"] = c.device;
  if (c.device_memory.value() > 0) json["device_memory"] = exact_text_of(c.device_memory);
  json["inside"] = json_of(c.inside);
  if (c.inside_mesh != 0) json["inside_mesh"] = c.inside_mesh;
  json["network"] = json_of(c.network);
  json["nics_per_node"] = c.nics_per_node;
  if (!c.levels.empty()) json["levels"] = json_of(c.levels);
  if (c.server_link.bandwidth.value() > 0) json["server_link"] = json_of(c.server_link);
  json["servers"] = c.servers;
  if (c.servers_stay && c.servers > 0) json["servers_stay"] = true;
  if (c.server_local_rate.value() > 0) json["server_local_rate"] = exact_text_of(c.server_local_rate);
  if (c.server_staging_rate.value() > 0) json["server_staging_rate"] = exact_text_of(c.server_staging_rate);
  if (c.server_rate.value() > 0) json["server_rate"] = exact_text_of(c.server_rate);
  if (c.server_sum_rate.value() > 0) json["server_sum_rate"] = exact_text_of(c.server_sum_rate);
  json["message_overhead"] = exact_text_of(c.message_overhead);
  json["all_reduce"] = c.all_reduce;
  if (!c.tables.empty()) {
    json["tables"] = Json::array();
    for (const MeasuredCollective& table : c.tables) json["tables"].push_back(json_of(table));
  }
  for (const LibraryOperation& l : c.library)
    json["library"].push_back(
        {{"operation", l.operation}, {"times_as_long", l.times_as_long}, {"provenance", l.provenance}});
  if (c.nccl != NcclTuning{}) json["nccl"] = json_of(c.nccl);
  json["contention"] = {{"inside_under_compute", c.contention.inside_under_compute},
                        {"network_under_compute", c.contention.network_under_compute},
                        {"latency_under_compute", c.contention.latency_under_compute},
                        {"compute_under_communication", c.contention.compute_under_communication}};
  if (c.aggregation) json["aggregation"] = json_of(*c.aggregation);
  if (c.overlay) json["overlay"] = json_value_of(*c.overlay);
  if (!c.stragglers.none()) json["stragglers"] = json_of(c.stragglers);
  if (c.transport != Transport{}) json["transport"] = json_of(c.transport);
  if (c.host != Host{}) json["host"] = json_of(c.host);
  if (c.relative_error > 0) json["relative_error"] = c.relative_error;
  json["provenance"] = c.provenance.empty() ? Json::array({"not stated"}) : Json(c.provenance);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

OverlayNetwork overlay_of_json(std::string_view text, std::string_view source) {
  const Json json = parsed_json(text, source);
  return overlay_of(JsonNode(json, std::string(source) + "#"), std::string(source) + "#");
}

std::string json_of(const OverlayNetwork& o) {
  return json_value_of(o).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stepcast
