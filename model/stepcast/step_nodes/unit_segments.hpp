#pragma once
// Unit segments: the passes of one unit as stretches of compute and messages, one after the other.
//
//   forward of a block   compute | all_reduce | all_reduce       backward   compute | all_reduce | all_reduce
//
// What a unit computes in a pass comes first, what it sends behind it; kernels between the messages are not told
// apart. A message of ring attention and a sum of input gradients that is hidden run beside a stretch of compute of
// their own. Invariant: stretches sum to unit_passes() of the unit. Internal to the layout prediction.
#include <stepcast/parallelism/unit_messages.hpp>

#include <string_view>
#include <vector>

namespace stepcast {

struct Segment {
  std::string_view name;     ///< of compute: "again" where recomputation does it; else empty
  Seconds compute, message;  ///< 0: there is none; both: beside each other
  Operation operation = Operation::send;
  RankAxis ranks;  ///< that send the message
  Bytes size;
  [[nodiscard]] Seconds time() const { return std::max(compute, message); }
};
struct UnitSegments {
  std::vector<Segment> forward, backward;
  std::vector<Segment> weight;  ///< of schedules that delay weight gradients, which are no part of `backward` then
};
[[nodiscard]] UnitSegments unit_segments(const UnitCost&, const PricedUnit&, const Layout& resolved, double slowness,
                                         Recomputation, bool delays_weight_gradients, GroupPrices&);

}  // namespace stepcast
