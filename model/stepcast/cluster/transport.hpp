#pragma once
// Transport: what losses between machines cost a message, in bandwidth and in time.
//
// Lost packets are sent again, so that a link carries 1 - loss of what it could; flows that are hashed onto the same
// uplink share it. Most losses are repaired within a round trip of their discovery: the message is there that much
// later, while its link already serves the next one. A loss that only the sender's clock discovers costs a time-out
// (stalls.hpp says what that does to a step). A message with bounded loss is complete when all but a share of its
// bytes arrived: it never waits for a time-out, and loss above what is tolerated is repaired in rounds of one round
// trip (DLCP: Wang et al., arXiv 2008.08445; MLT: NSDI 2024; the forms here are derived from their descriptions).
//
//   sent      M (1 - tolerated) / (1 - loss), so that all but the tolerated share arrives
//   rate      B / max(1, oversubscription), with hashing less by the load of the fullest path
//   repairs   round trips: sum_r [1 - (1 - loss^r)^N] of N packets that must all arrive
//   flows     of a rate each: a card carries no more than those that serve it at the same time
//
// Another job takes its share of a machine's cards all the time (background), as much of every byte.
//
// Example: 10 MB at 1.25 GB/s with 3 % lost and none tolerated take 8.25 ms on the link and arrive 2.2 round trips
// later. Bounds: never faster than without loss; not increasing in what is tolerated, not decreasing in loss. Not
// modelled: queueing behind other messages, and behind the bursts of other jobs; rate control, which makes TCP slower
// than that; on a ring, loss that adds up from hop to hop; of goodput, jumbo frames and RDMA.
#include <stepcast/cluster/cluster.hpp>

#include <cstdint>

namespace stepcast {

/// The share of a nominal bandwidth that TCP over Ethernet with frames of 1500 bytes leaves to its payload: 1448 bytes
/// in 1538 on the wire.
inline constexpr double goodput_of_tcp = 0.94;

/// Expected flows on the fullest of `paths` when each flow is hashed to one, over their mean number: >= 1.
[[nodiscard]] double fullest_path(std::int64_t flows, std::int64_t paths);
/// Factor >= 1 on the time at link rate that paths and uplinks cost.
[[nodiscard]] double path_factor(const Transport&);
/// The share, at most 1, of a link's bandwidth that messages have after losses and crowded paths.
[[nodiscard]] double usable_share(const Transport&);
/// The share of a machine's own cards that is left: that, less what other jobs take.
[[nodiscard]] double card_share(const Transport&);
/// What the flows of one message reach together; infinite where nothing limits a flow.
[[nodiscard]] BytesPerSecond flows_rate(const Transport&);
/// Mean round trips in which lost ones among `packets` are sent again until all but the share `tolerated` arrived.
[[nodiscard]] double repair_rounds(double packets, double loss, double tolerated);

}  // namespace stepcast
