#pragma once
// Room overlay: who mixes models with whom in decentralised training, and what the links under that carry.
//
// It may include base.
//
// Overlay network: who mixes models with whom (the overlay), over which machines and links (the underlay), and what
// share of the links each exchange gets.
//
//   overlay    a ======= b          underlay   a -- r -- b       a-b and a-c both cross a-r:
//               \\=== c                             |            each gets half of its capacity
//                                                   c
//
// Agents are the workers; relays only forward. An underlay link has its capacity in either direction at once. Models
// go both ways over every overlay edge, by the route that is given, or else by a shortest one (fewest hops, ties by
// the order in which the links are listed). All exchanges run at the same time and share links max-min fairly: no one's
// rate can grow without that of another one shrinking which has no more. So the exchange of a message of M bytes takes
//
//   tau = max over edges e of M / rate_e, and the largest latency of a route        (Huang, Sun, He, arXiv 2408.04705)
//
// where the least rate is min over links of C_l / n_l (n_l edges cross link l): with equal messages fairness is
// optimal for these routes. What other routes, split ones included, could reach is bounded by maximum flow: alone in
// the network, agent a can send to all its neighbours at a rate of `best` each, and no more.
// Invariant: the least rate never grows when an edge is added, and never exceeds `best`. Not modelled: other traffic,
// queues, the mixing matrix and how many iterations it takes. Overlays as JSON are read and written with clusters,
// in cluster/json.cpp.
#include <stepcast/base/units.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct OverlayNetwork {
  struct Link {
    std::string a, b;         ///< agents or relays
    BytesPerSecond capacity;  ///< in each direction
    Seconds latency;
  };
  struct Edge {
    std::string a, b;                ///< agents
    std::vector<std::string> route;  ///< from a to b, both included; empty: a shortest one
  };
  std::string name;
  std::vector<std::string> agents, relays;
  std::vector<Link> links;
  std::vector<Edge> edges;
  std::vector<std::string> provenance;
};

/// Returns the network if it has at most 500 agents and 2,000 edges, connects all agents, names are known and unique,
/// capacities above zero, routes made of links, and every edge has a route; else throws InputError that names the place
/// after `source` ("overlay.json#/links/2/capacity").
[[nodiscard]] OverlayNetwork checked(OverlayNetwork, std::string_view source);
/// JSON with schema "stepcast.overlay/1"; throws InputError (JSON pointer, suggestion for unknown keys).
/// Writing reads back to the same value.
[[nodiscard]] OverlayNetwork overlay_of_json(std::string_view text, std::string_view source);
[[nodiscard]] std::string json_of(const OverlayNetwork&);

/// What one overlay edge gets.
struct OverlayShare {
  std::vector<std::string> route;
  BytesPerSecond rate;     ///< in each direction, while all edges are in use
  BytesPerSecond alone;    ///< the maximum flow between its ends, over all routes at once
  std::string bottleneck;  ///< the link that limits it: "a-r"
  Seconds latency;         ///< of the route
};
struct OverlayExchange {
  std::vector<OverlayShare> shares;  ///< in the order of the edges
  BytesPerSecond least;              ///< of the shares
  BytesPerSecond best;               ///< by maximum flow: no routing gives every edge more
  Seconds latency;                   ///< the largest of a route
};
/// Requires a checked network.
[[nodiscard]] OverlayExchange exchange_over(const OverlayNetwork&);

}  // namespace stepcast
