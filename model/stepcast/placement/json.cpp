// The JSON form of unequal devices, schema "stepcast.devices/1": groups of like devices, and links between groups.
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/encodings/json_node.hpp>
#include <stepcast/placement/placement.hpp>

#include <map>
#include <optional>

namespace stepcast {
namespace {

constexpr std::string_view schema = "stepcast.devices/1";

struct Group {
  std::size_t first = 0, devices = 0;
  Link inside;
};

Link link_of(const JsonNode& node) {
  static const std::vector<std::string> known{"latency", "bandwidth"};
  node.require_keys(known);
  return {node.at("latency").seconds(), node.at("bandwidth").bandwidth()};
}

void set_link(UnequalCluster& c, std::size_t a, std::size_t b, const Link& link) {
  for (const std::size_t pair : {c.pair(a, b), c.pair(b, a)}) {
    c.latency[pair] = link.latency;
    c.bandwidth[pair] = link.bandwidth;
  }
}

Group group_of(const JsonNode& node, UnequalCluster& c) {
  static const std::vector<std::string> known{"name", "devices", "speed", "memory", "link"};
  node.require_keys(known);
  Group group{c.devices.size(), 0, {}};
  UnequalDevice device;
  const std::string name = node.at("name").text();
  if (name.empty()) node.at("name").refuse("a name");
  const std::int64_t count = node.at("devices").integer();
  if (count < 1 || count > 1024) node.at("devices").refuse("1 to 1024 devices");
  group.devices = static_cast<std::size_t>(count);
  if (node.has("speed")) device.speed = node.at("speed").number();
  if (!(device.speed > 0)) node.at("speed").refuse("a number > 0");
  if (node.has("memory")) device.memory = node.at("memory").bytes();
  if (count > 1) group.inside = link_of(node.at("link"));
  for (std::int64_t i = 0; i < count; ++i) {
    device.name = count == 1 ? name : name + " " + std::to_string(i);
    c.devices.push_back(device);
  }
  return group;
}

}  // namespace

UnequalCluster unequal_cluster_of_json(std::string_view text, std::string_view source) {
  static const std::vector<std::string> known{"schema", "name", "groups", "links", "other_links"};
  static const std::vector<std::string> link_keys{"between", "link"};
  const JsonNode::Json json = parsed_json(text, source);
  const JsonNode top(json, std::string(source) + "#");
  top.require_keys(known);
  if (top.at("schema").text() != schema) top.at("schema").refuse(in_quotes(schema));

  UnequalCluster c;
  c.name = top.at("name").text();
  std::map<std::string, Group> groups;
  for (const JsonNode& node : top.at("groups").elements("an array of groups")) {
    const Group group = group_of(node, c);
    if (!groups.emplace(node.at("name").text(), group).second) node.at("name").refuse("a name of one group only");
    if (c.devices.size() > 1024) top.at("groups").refuse("at most 1024 devices in all");
  }
  if (groups.empty()) top.at("groups").refuse("at least one group");
  c.latency.assign(c.devices.size() * c.devices.size(), Seconds(0));
  c.bandwidth.assign(c.latency.size(), BytesPerSecond(0));

  const auto connect = [&](const Group& a, const Group& b, const Link& link) {
    for (std::size_t i = a.first; i < a.first + a.devices; ++i)
      for (std::size_t j = b.first; j < b.first + b.devices; ++j)
        if (i != j) set_link(c, i, j, link);
  };
  for (const auto& [name, group] : groups)
    if (group.devices > 1) connect(group, group, group.inside);
  if (top.has("links"))
    for (const JsonNode& node : top.at("links").elements("an array of links")) {
      node.require_keys(link_keys);
      const auto ends = node.at("between").elements("the names of two groups");
      if (ends.size() != 2) node.at("between").refuse("the names of two groups");
      const auto a = groups.find(ends[0].text()), b = groups.find(ends[1].text());
      if (a == groups.end()) ends[0].refuse("the name of a group");
      if (b == groups.end() || a == b) ends[1].refuse("the name of another group");
      if (c.bandwidth[c.pair(a->second.first, b->second.first)].value() > 0) node.refuse("one link a pair of groups");
      connect(a->second, b->second, link_of(node.at("link")));
    }
  std::optional<Link> other;
  if (top.has("other_links")) other = link_of(top.at("other_links"));
  for (const auto& [a, first] : groups)
    for (const auto& [b, second] : groups) {
      if (a >= b || c.bandwidth[c.pair(first.first, second.first)].value() > 0) continue;
      if (!other)
        throw InputError(std::string(source) + "#/links", "a link between '" + a + "' and '" + b + "'", "none",
                         "links that are not listed can be given by \"other_links\"");
      connect(first, second, *other);
    }
  return checked(std::move(c), source);
}

}  // namespace stepcast
