// A switch adds up as fast as its window, the slowest card and the conversion to integers allow.
#include <stepcast/cluster/in_network.hpp>
#include <stepcast/cluster/transport.hpp>

#include <algorithm>

namespace stepcast {
namespace {

// Algorithms are asked only for clusters that they suit; what a switch would do is then known.
const Aggregation& switch_of(const Cluster& c) {
  static const Aggregation standard;
  return c.aggregation ? *c.aggregation : standard;
}

/// Machines whose link is a straggler's: as few as can hold the slow workers.
std::int64_t machines_with_slow_links(const Cluster& c) {
  std::int64_t workers = 0;
  for (const SlowWorkers& s : c.stragglers.slow)
    if (s.link_share < 1) workers += s.workers;
  return std::min(c.nodes, (workers + c.devices_per_node - 1) / c.devices_per_node);
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
  const BytesPerSecond cards = c.network.bandwidth * static_cast<double>(c.nics_per_node);
  return (given.value() > 0 ? given : cards) * card_share(c.transport);
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

CostLine best_effort_aggregation(const Cluster& c, double absorbed) {
  const Aggregation& a = switch_of(c);
  const PacketFormat packet = packet_format(c, {Bytes(248), Bytes(60)});
  const double rate = switch_line_rate(c).value(), wire = packet.wire_factor();
  const double host = a.host_rate.value() > 0 ? 1 / a.host_rate.value() : 0;
  // A leader takes over from stragglers as much as is allowed, but no more than both sides finish with together.
  const double slow = static_cast<double>(machines_with_slow_links(c)), leaders = static_cast<double>(c.nodes) - slow;
  const double straggler = wire / (c.stragglers.least_link_share() * rate), leader = std::max(wire / rate, host);
  double taken = 0;
  if (leaders > 0 && straggler > leader)
    taken = std::min(absorbed, (straggler - leader) / (straggler + leader * slow / leaders));
  double worker = std::max((1 - taken) * straggler, leaders > 0 ? (1 + taken * slow / leaders) * leader : leader);
  if (a.carried != 1) worker = a.carried * std::max(straggler, host);
  // What is added up in a rack's switch arrives once a rack, the rest once a machine.
  const double machines = static_cast<double>(c.nodes), racks = std::min(static_cast<double>(a.racks), machines);
  const double arrivals = a.hit_fraction * racks + (1 - a.hit_fraction) * machines;
  const double server_link = c.server_link.bandwidth.value() * card_share(c.transport);
  const double own_rate = c.server_rate.value() * usable_share(c.transport);
  const double server_rate = own_rate > 0 ? own_rate : server_link > 0 ? server_link : rate;
  // The sums of what leaders took over are complete, and through the server, before the straggler is ready.
  const double of_server = std::min(1.0, a.carried);
  const double server =
      of_server * wire * arrivals / (static_cast<double>(std::max<std::int64_t>(1, c.servers)) * server_rate);
  // Two round trips: to the switch, and on to the server that returns the result through it.
  return {2 * switch_round_trip(c), std::max({worker, server, a.carried * host})};
}

}  // namespace stepcast
