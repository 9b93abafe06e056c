#pragma once
// Sharded pass: one forward or backward pass over units whose parameters or gradients are divided over a data group.
//
//   forward    AG(u) -> F(u), then the parameters are freed         (stage 3)
//   backward   AG(u) -> G(u) -> RS(u)                               (stage 3; stages 1 and 2: RS alone)
//
// Compute runs in the order of the units, the collectives on one channel in the order in which they are issued (those
// of a unit's end before the gather that its end makes room for). At most `in_flight` units are gathered at a time: 1
// is no prefetch. The pass ends with its last compute or collective. With units in the order in which they run:
//
//   ag_u = max(channel, end of G(u - in_flight)) + AG(u);  g_u = max(g_{u-1}, ag_u) + G(u);  rs_u = max(channel, g_u) +
//   RS(u)
//
// Compute takes `slowed` times as long while the channel is busy (Contention::compute_under_communication): collectives
// take multiprocessors and memory from kernels beside them, so that what they hide costs (slowed - 1) / slowed of its
// time.
//
// Laws: without prefetch the sum of everything; never less than compute, nor than all collectives; a single unit
// gathers all, computes, reduces. ZeRO (Rajbhandari et al. 2020), PyTorch FSDP (Zhao et al. 2023). Not modelled:
// prefetch from one pass into the next, FSDP's keeping of the last unit after the forward pass.
#include <stepcast/base/units.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace stepcast {

struct ShardedUnit {
  Seconds gather, compute, reduce;  ///< zero: nothing of the kind
};
/// How long compute takes of which a transfer accompanies the first `beside`, and slows it so many times.
[[nodiscard]] inline Seconds compute_beside(Seconds compute, Seconds beside, double slowed) {
  if (beside >= compute * slowed) return compute * slowed;
  return compute + std::max(Seconds(0), beside) * (1 - 1 / slowed);
}
/// End of a pass over `units`, in the order in which they run. Requires in_flight >= 1 and slowed >= 1. `computes`: is
/// given how long each unit's compute takes beside the transfers.
[[nodiscard]] Seconds sharded_pass(std::span<const ShardedUnit> units, std::int64_t in_flight, double slowed = 1,
                                   std::vector<Seconds>* computes = nullptr);

}  // namespace stepcast
