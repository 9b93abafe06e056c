#pragma once
// Memory of one device under a layout: parameters, gradients, optimizer state, activations, buffers and a margin.
//
// Activations follow the schedule: what a device holds at most is the number of micro-batches (in chunks) between their
// forward and backward pass times what a chunk keeps of one under the recomputation chosen, plus the transient of the
// unit at work. ZeRO divides optimizer state (1), gradients (2) and parameters (3) over the data group (Rajbhandari et
// al. 2020, table 1); stage 3 adds the gathered units. Buffers: gradient buckets, all-gather outputs, pipeline
// receives. `margin` is what a caching allocator loses to fragmentation and what the framework itself holds.
// Invariant: the parts sum to `total`. Not modelled: the order in which an allocator serves requests; offloading.
#include <stepcast/base/result_fields.hpp>
#include <stepcast/base/units.hpp>
#include <stepcast/layout/layout.hpp>
#include <stepcast/workload/workload.hpp>

#include <span>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// The fields are listed at the end.
struct MemoryUse {
  Bytes parameters, gradients, optimizer, activations, buffers, margin;
  [[nodiscard]] Bytes total() const { return parameters + gradients + optimizer + activations + buffers + margin; }
};

struct MemoryOptions {
  double fragmentation = 0.05;  ///< as a share of everything else (measured caching allocators lose 2 to 10 %)
  Bytes framework{1.0e9};       ///< context, libraries, workspaces
};

/// What a stage holds, summed over its units.
struct StageMemoryInput {
  double parameters = 0, expert_parameters = 0;  ///< elements on this device before ZeRO
  Bytes kept_per_micro_batch;     ///< activations of all its units (all chunks), under the layout's recomputation
  double micro_batches_kept = 0;  ///< counted in whole stages (PipelineTimes::kept / chunks)
  Bytes working;                  ///< largest transient of one unit, beyond what it keeps
  double largest_unit = 0;        ///< elements of its largest unit, for gathers
  Bytes boundary;                 ///< what is handed on for one micro-batch
};
/// Where a device holds several copies of the model (bidirectional schedules), its sums are over all of them.
[[nodiscard]] MemoryUse memory_of(const Workload&, const Layout& resolved, const StageMemoryInput&,
                                  const MemoryOptions& = {});

}  // namespace stepcast

namespace stepcast {

template <>
inline constexpr auto result_fields<MemoryUse> =
    std::tuple{ResultField{"total_bytes", &MemoryUse::total, "the sum"},
               ResultField{"parameters_bytes", &MemoryUse::parameters, "weights"},
               ResultField{"gradients_bytes", &MemoryUse::gradients, "as they are kept"},
               ResultField{"optimizer_bytes", &MemoryUse::optimizer, "state of the optimizer"},
               ResultField{"activations_bytes", &MemoryUse::activations, "of the micro-batches in flight"},
               ResultField{"buffers_bytes", &MemoryUse::buffers, "of communication"},
               ResultField{"margin_bytes", &MemoryUse::margin, "fragmentation and the framework itself"}};

}  // namespace stepcast
