#pragma once
// Memory of one device under a layout: what it divides of the parts that every worker holds (training_memory.hpp).
//
// Activations follow the schedule: what a device holds at most is the number of micro-batches (in chunks) between their
// forward and backward pass times what a chunk keeps of one under the recomputation chosen, plus the transient of the
// unit at work. ZeRO divides optimizer state (1), gradients (2) and parameters (3) over the data group (Rajbhandari et
// al. 2020, table 1); stage 3 adds the gathered units. Frameworks that keep short weights beside whole ones hold that
// much; DistributedDataParallel under autocast holds more, and is counted where MemoryOptions say so or the model has
// PyTorch's kernels; fully_shard holds whole weights alone, and what else it holds is that of the fullest moment of a
// backward pass: blocks and the root are gathered and reduced as it goes, and gradients appear in place of activations,
// where a step has one micro-batch. Buffers: gradient buckets, all-gather outputs, pipeline receives, what tensor
// groups register to send beside products.
// Offloaded, a part is in the host's memory, the optimizer's with a copy of the gradients; of offloaded activations two
// blocks' are on the device, one on its way and one at work.
// Invariant: the layout of degree one holds what a worker without a layout does.
#include <stepcast/base/units.hpp>
#include <stepcast/layout/layout.hpp>
#include <stepcast/profile/training_memory.hpp>
#include <stepcast/workload/workload.hpp>

#include <span>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// Units of a stage as PyTorch's fully_shard groups them: every block by itself, and what is at the model's ends (the
/// embedding, the last norm and the head) in the root's group. Elements of parameters before ZeRO, bytes of one
/// micro-batch. Where nothing is known of units all is zero.
struct ShardedUnits {
  std::int64_t blocks = 0;
  double block = 0, root = 0;       ///< of the largest block; of the root's group
  double end = 0;                   ///< of the largest unit in the root's group, with what it shares
  Bytes block_kept, block_working;  ///< of a block: what it keeps, and its largest transient beyond that
  Bytes end_kept, end_working;      ///< of the root's
  ShardedUnits& operator+=(const ShardedUnits&);
};
/// What a stage holds, summed over its units.
struct StageMemoryInput {
  double parameters = 0, expert_parameters = 0;  ///< elements on this device before ZeRO
  double most_dealt = 0;          ///< of whole tensors (Layout::whole_tensors): elements of the rank that has the most
  Bytes kept_per_micro_batch;     ///< activations of all its units (all chunks), under the layout's recomputation
  bool one_pass = true;           ///< a step has one micro-batch, so that no gradient waits for the next
  double micro_batches_kept = 0;  ///< counted in whole stages (PipelineTimes::kept / chunks)
  Bytes working;                  ///< largest transient of one unit, beyond what it keeps
  Bytes standing_gradient;        ///< of its weights, that nothing is added up in
  double largest_unit = 0;        ///< elements of its largest unit, for gathers
  Bytes boundary;                 ///< what is handed on for one micro-batch
  Bytes largest_boundary;         ///< what its units hand on, within it as well
  ShardedUnits sharded;
};
/// What is left with the host of what so many chunks keep of activations for one micro-batch, of a layout that leaves
/// activations there.
[[nodiscard]] Bytes kept_by_host(const Layout&, Bytes kept, const ShardedUnits&, std::int64_t chunks);
/// Where a device holds several copies of the model (bidirectional schedules), its sums are over all of them.
[[nodiscard]] MemoryUse memory_of(const Workload&, const Layout& resolved, const StageMemoryInput&,
                                  const MemoryOptions& = {});
/// Units of a stage that are divided alike.
struct DividedMemory {
  Layout layout;  ///< resolved
  StageMemoryInput input;
};
/// Of a device whose units are divided in several ways: parameters and activations add up, one unit works at a time.
[[nodiscard]] MemoryUse memory_of(const Workload&, std::span<const DividedMemory>, const MemoryOptions& = {});

}  // namespace stepcast
