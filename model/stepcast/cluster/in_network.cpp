// A switch adds up as fast as its window, the slowest card and the conversion to integers allow.
#include <stepcast/cluster/in_network.hpp>

#include <algorithm>

namespace stepcast {
namespace {

// Algorithms are asked only for clusters that they suit; what a switch would do is then known.
const Aggregation& switch_of(const Cluster& c) {
  static const Aggregation standard;
  return c.aggregation ? *c.aggregation : standard;
}

}  // namespace

PacketFormat packet_format(const Cluster& c, PacketFormat of_program) {
  const Aggregation& a = switch_of(c);
  return a.payload > Bytes(0) ? PacketFormat{a.payload, a.header} : of_program;
}

Seconds switch_round_trip(const Cluster& c) {
  const Seconds given = switch_of(c).round_trip;
  return given > Seconds(0) ? given : 2 * c.network.latency;
}

BytesPerSecond switch_line_rate(const Cluster& c) {
  const BytesPerSecond given = switch_of(c).line_rate;
  return given.value() > 0 ? given : c.network.bandwidth * static_cast<double>(c.nics_per_node);
}

std::string no_switch(const Cluster& c) {
  if (c.nodes == 1 || c.aggregation) return {};
  return "the cluster has no switch that adds up gradients (\"aggregation\" in its JSON, --switch)";
}

std::string no_switch_or_server(const Cluster& c) {
  if (std::string why = no_switch(c); !why.empty()) return why;
  if (c.nodes == 1 || c.servers > 0) return {};
  return "packets that find no room in the switch need a server machine, and the cluster has none (--servers)";
}

CostLine with_local_stages(const Cluster& c, CostLine between) {
  const CostLine half = ring_half(c.devices_per_node, inside_link(c));
  return half + (c.nodes > 1 ? between : CostLine{}) + half;
}

CostLine best_effort_aggregation(const Cluster& c, double slow_wire) {
  const Aggregation& a = switch_of(c);
  const PacketFormat packet = packet_format(c, {Bytes(248), Bytes(60)});
  const double rate = switch_line_rate(c).value(), wire = packet.wire_factor();
  const double worker = wire * std::max(1.0, slow_wire / c.stragglers.least_link_share()) / rate;
  // What is added up in a rack's switch arrives once a rack, the rest once a machine.
  const double machines = static_cast<double>(c.nodes), racks = std::min(static_cast<double>(a.racks), machines);
  const double arrivals = a.hit_fraction * racks + (1 - a.hit_fraction) * machines;
  const double server_rate = c.server_link.bandwidth.value() > 0 ? c.server_link.bandwidth.value() : rate;
  const double server = wire * arrivals / (static_cast<double>(std::max<std::int64_t>(1, c.servers)) * server_rate);
  const double host = a.host_rate.value() > 0 ? 1 / a.host_rate.value() : 0;
  // Two round trips: to the switch, and on to the server that returns the result through it.
  return {2 * switch_round_trip(c), std::max({worker, server, host})};
}

}  // namespace stepcast
