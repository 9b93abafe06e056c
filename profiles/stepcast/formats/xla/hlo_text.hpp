#pragma once
// HloText: what the text of one HLO instruction says of the collective that it is.
//
//   %all-gather-start.2 = (f32[128]{0}, f32[1024]{0}) all-gather-start(f32[128]{0} %p.1), replica_groups={...}
//    name                 result                      opcode           operands
//
// XLA writes the instruction itself as the name of a TPU's event and as "long_name" in trace.json. Names follow the
// opcode, but newer frontends name an instruction after their own operator ("%psum.7 = f32[] all-reduce(...)"). Not
// modelled: computations, attributes.
#include <cstdint>
#include <string>
#include <string_view>

namespace stepcast {

struct HloInstruction {
  std::string_view name, result, opcode, operands;  ///< empty where the text does not say
};
[[nodiscard]] HloInstruction hlo_instruction(std::string_view text);

/// An operation that runs beside others is begun by one instruction and awaited by another.
enum class HloPart : std::uint8_t { whole, start, done };
[[nodiscard]] HloPart hlo_part(std::string_view name, const HloInstruction&);

/// "all-reduce.5", "all-gather-start.1", "ncclDevKernel_AllReduce_Sum_f32_RING_LL": the collective that is named or
/// begun here, as naming::collective_operation says it. A TPU's "async-collective-start" does not say which it is:
/// "collective". Empty for everything else, and for the wait behind a start.
[[nodiscard]] std::string hlo_collective(std::string_view name);

/// TensorFlow's operators on the host: "CollectiveReduceV2", "replica_1/NcclAllReduce:NcclAllReduce". Compiler passes
/// ("all-reduce-combiner") run on the host too.
[[nodiscard]] std::string tensorflow_collective(std::string_view name);

/// Elements that go in and come out, and their type; -1: not said, or of several types.
struct HloElements {
  std::string_view type;
  std::int64_t in = -1, out = -1;
};
[[nodiscard]] HloElements hlo_elements(const HloInstruction&);

}  // namespace stepcast
