#pragma once
// Sharded messages: ZeRO's collectives as the modifiers of the plan change them.
//
//   gradients    encode -> reduce-scatter of what is encoded     every modifier whose messages add up on the way
//   parameters   all-gather                                      as they are, but for modifiers of parameters (MLT)
//
// The collectives are written as a plan, which the modifiers rewrite as they would rewrite an all-reduce that is split;
// what is read from it are shares of the dense bytes, waits and codecs. Internal to the layout prediction. Not
// modelled: decoding of a shard, a part of the data group as large as encoding.
#include <stepcast/parallelism/priced_split.hpp>
#include <stepcast/plan/strategy.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace stepcast {

/// A collective of ZeRO on a run of a profile's tensors.
struct TensorRun {
  std::uint32_t first = 0, tensors = 0;
  Bytes size;
};
struct ModifiedMessage {
  double share = 1;    ///< of the dense bytes
  Seconds overhead{};  ///< what is waited for beside the bytes
  Seconds codec{};     ///< on the devices, before it is sent
};
/// As the plan's modifiers make them; of gradients with reduce-scatter, of parameters with all-gather. Inapplicable
/// with the reason where one does not go with shards.
[[nodiscard]] Answer<std::vector<ModifiedMessage>> modified_messages(const PlanSpec&, const Profile&,
                                                                     const PricedGroup&, Operation,
                                                                     std::span<const TensorRun>);

/// Of all units of a workload in forward order; empty: as they are.
struct ShardedMessages {
  std::vector<ModifiedMessage> reduce, gather;
};
/// For ZeRO-2 and 3, which reduce and gather unit by unit. Inapplicable as above.
[[nodiscard]] Answer<ShardedMessages> sharded_messages(const Workload&, const PricedSplit&, const Layout& resolved,
                                                       const PlanSpec&);

}  // namespace stepcast
