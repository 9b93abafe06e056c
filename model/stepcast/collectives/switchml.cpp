// SwitchML: the switch adds up the gradients of all machines while they pass and multicasts the sum.
//
//   all-reduce   t + m max((1 + h/p) / B, t / (s g p), 1/H)      t = round trip, once for every level of switches
//
// Sapio et al., NSDI 2021; packets and window as in p4lang/p4app-switchML. p bytes of values and h others in a packet,
// s packets under way for each of the g devices of a machine (a pool slot each: the window counts packets, so headers
// do not enter it), H bytes/s that a host converts. 256 bytes of values, 52 of Ethernet, IPv4, UDP, SwitchML and
// exponents; a switch that recirculates takes 1024 (Aggregation::payload). Several devices of a machine reduce among
// themselves first. Bounds: independent of the number of machines; with equal efficiency and no latency the ring takes
// 2(n-1)/n times as long.
#include <stepcast/cluster/in_network.hpp>

#include <algorithm>

namespace stepcast::collective::switchml {
namespace {

CostLine all_reduce(const Cluster& c) {
  const Aggregation a = c.aggregation.value_or(Aggregation{});
  const PacketFormat packet = packet_format(c, {Bytes(256), Bytes(52)});
  const Seconds trip = switch_round_trip(c);
  const double card = packet.wire_factor() / (switch_line_rate(c).value() * c.stragglers.least_link_share());
  const double in_flight = static_cast<double>(a.packets_outstanding * c.devices_per_node) * packet.payload.value();
  const double host = a.host_rate.value() > 0 ? 1 / a.host_rate.value() : 0;
  const double levels = a.racks > 1 ? 2 : 1;
  return with_local_stages(c, {levels * trip, std::max({card, levels * trip.value() / in_flight, host})});
}

}  // namespace

extern constinit const CollectiveAlgorithm record{.name = "switchml",
                                                  .summary = "a programmable switch adds up all gradients",
                                                  .reference = "Sapio et al., NSDI 2021; p4lang/p4app-switchML",
                                                  .all_reduce = all_reduce,
                                                  .reduce_scatter = nullptr,
                                                  .all_gather = nullptr,
                                                  .broadcast = nullptr,
                                                  .all_to_all = nullptr,
                                                  .unsuitable = no_switch,
                                                  .needs_switch = true};

}  // namespace stepcast::collective::switchml
