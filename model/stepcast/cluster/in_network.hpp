#pragma once
// In-network aggregation: what the programs of a switch that adds up gradients have in common.
//
// Every machine reduces among its own devices first, sends its buffer to the switch packet by packet, and gets the sum
// back; both directions of a card run at once. A program differs in its packets, in what it does when the switch has no
// room, and in who helps a late worker (collectives/switchml.cpp, collectives/atp.cpp, collectives/sa_atp.cpp). The
// rate is bounded by the card of the slowest machine, by the window (a worker sends the next packet when a result
// returns) and by the conversion of floats to the integers that a switch can add. On one machine nothing reaches the
// switch: the ring among its devices. Not modelled: switch memory shared with other jobs, but by
// Aggregation::hit_fraction; lost packets.
#include <stepcast/cluster/closed_forms.hpp>

namespace stepcast {

/// A program's packets: bytes of values, and all other bytes.
struct PacketFormat {
  Bytes payload, header;
  /// Bytes on the link for each byte of values.
  [[nodiscard]] double wire_factor() const { return (payload + header) / payload; }
};

/// That of the cluster's switch if it has its own, else `of_program`.
[[nodiscard]] PacketFormat packet_format(const Cluster&, PacketFormat of_program);
/// From a worker to the switch and back.
[[nodiscard]] Seconds switch_round_trip(const Cluster&);
/// What the cards of a healthy machine carry of the switch's packets.
[[nodiscard]] BytesPerSecond switch_line_rate(const Cluster&);
/// Why no switch can add up this cluster's gradients; empty if one can.
[[nodiscard]] std::string no_switch(const Cluster&);
/// The same for programs that need a server besides.
[[nodiscard]] std::string no_switch_or_server(const Cluster&);

/// `between` machines, after a reduce-scatter and before an all-gather among the devices of each.
[[nodiscard]] CostLine with_local_stages(const Cluster&, CostLine between);

/// All-reduce by ATP: packets that find no aggregator go on to the servers, which also return every result (Lao et al.
/// 2021). `absorbed`: the largest share of the traffic of machines with a slow link that the other machines take over,
/// evenly, on their own links and hosts; they stop where they would be later than the one that they help. With
/// Aggregation::carried, of a machine that sends so much.
[[nodiscard]] CostLine best_effort_aggregation(const Cluster&, double absorbed);

}  // namespace stepcast
