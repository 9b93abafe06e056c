#pragma once
// Transport: how long a message takes that must arrive in full, and one that may lose some of its bytes.
//
// A reliable message is as late as its slowest flow: flows that are hashed onto the same path share it, and a flow that
// loses its tail waits for a retransmission time-out. A message with bounded loss is complete when all but a share of
// its bytes arrived: it never waits for a time-out, and loss above what is tolerated is repaired in rounds of one round
// trip (DLCP: Wang et al., arXiv 2008.08445; MLT: NSDI 2024; the forms here are derived from their descriptions).
//
//   sent      M (1 - tolerated) / (1 - loss), so that all but the tolerated share arrives
//   rate      B / max(1, oversubscription), with hashing less by the load of the fullest path
//   stalls    sum_k RTO min(2^(k-1), 64) [1 - (1 - q^k)^F]: the slowest of F flows, each stalling again with q
//
// Bounds: time >= M (1 - tolerated) / B; not increasing in what is tolerated, not decreasing in loss; tolerating
// nothing it is the reliable message without its stalls. Not modelled: queueing behind other messages; rate control.
#include <stepcast/base/units.hpp>

#include <cstdint>

namespace stepcast {

struct Transport {
  std::int64_t flows = 1;        ///< flows that carry one message at the same time
  double stall_probability = 0;  ///< how likely a flow loses its tail and waits for a time-out
  Seconds timeout;               ///< the wait for the first retransmission; doubles each time, at most 64-fold
  Seconds round_trip;
  double loss = 0;              ///< share of the packets that are lost
  double oversubscription = 1;  ///< bandwidth of all hosts over that of all uplinks
  std::int64_t paths = 1;       ///< equal uplinks among which flows are spread
  bool spraying = false;        ///< packet by packet over all paths; false: each flow is hashed to one
  Bytes packet{1500};
};

/// Expected flows on the fullest of `paths` when each flow is hashed to one, over their mean number: >= 1.
[[nodiscard]] double fullest_path(std::int64_t flows, std::int64_t paths);
/// Factor >= 1 on the time at link rate that paths and uplinks cost.
[[nodiscard]] double path_factor(const Transport&);
/// Mean time for which the flow of a message that stalls longest does so.
[[nodiscard]] Seconds expected_stall(const Transport&);
/// Rounds in which what is missing beyond the share `tolerated` is sent again, until less than a packet is.
[[nodiscard]] int repair_rounds(Bytes message, const Transport&, double tolerated);

}  // namespace stepcast
