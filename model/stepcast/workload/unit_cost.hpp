#pragma once
// Unit cost: what one unit takes under a split (internal to the library; see workload.hpp).
//
// described.cpp: by the roofline, where the kind was described by its shape. traced.cpp: from the traced times.
#include <stepcast/workload/workload.hpp>

#include <cstdint>

namespace stepcast {

/// The shape of the kind and the device are known: the roofline.
[[nodiscard]] Answer<UnitCost> described_unit_cost(const Workload&, std::uint32_t kind, const Split&);
/// Exchanges of ring attention, `block` the keys and values of one device's part of the sequence, each beside the
/// attention to one block (Liu et al. 2023, arXiv 2310.01889). Forward, keys and values go around but once. Backward
/// they do again, and their gradients follow one step behind, until they are at home: the first exchange carries the
/// former, the last one the latter, those between both. Under a causal mask each device has two chunks, one from either
/// end of the sequence, so that all have as much to do for every block (Megatron-LM and torchtitan divide it so). Not
/// modelled: that kernels of fused attention are less efficient on short blocks; multiprocessors that sends occupy.
inline void add_ring(UnitCost& c, std::int64_t members, Bytes block) {
  const auto add = [&](std::vector<TensorTransfer>& to, Bytes size, std::int64_t count) {
    if (count > 0) to.push_back({Operation::send, members, size, double(count)});
  };
  add(c.context_forward, block, members - 1);
  add(c.context_backward, block, 2);
  add(c.context_backward, block * 2.0, members - 2);
}
/// The kind comes from a profile.
[[nodiscard]] Answer<UnitCost> traced_unit_cost(const Workload&, std::uint32_t kind, const Split&);

}  // namespace stepcast
