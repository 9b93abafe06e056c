#pragma once
// Room search: the best layout of a space, with a proof; frontiers of memory and time; advice.
//
//   space -> families by their bounds -> members by theirs -> predictions -> the best, and what was left out and why
//
// It may include base, prediction, parallelism and launch.
//
// Layout search: the best layout in a whole space, with a proof.
//
// Branch and bound over the product of tensor, pipeline, context and expert degrees, micro-batch, chunks, schedule,
// recomputation, ZeRO stage, sequence parallelism and overlap switches. Branches are taken in the order of their
// bounds (layout_search_bounds.hpp); a branch whose bound is not below the last of the best layouts found (or whose
// least memory does not fit) is left out with all that it contains. The result is the optimum of the model over the
// space: `proved` says that nothing was left open, else `gap` is (best - smallest open bound) / best. Deterministic at
// any number of threads, counts included, unless it is stopped: of equal steps the one with less memory, then the first
// in the order of the space. The frontier of time and memory is what was found on the way, attained but perhaps beaten
// by a layout left out; with the option `frontier` a branch is left out only if one layout found is as good in both, so
// that it is the frontier of the whole space. Invariant: evaluated + bounded + too large + unsuitable + open = total.
// Not modelled: layouts outside the space; the options of the gradient plan, which are tuned for the winners
// afterwards.
#include <stepcast/parallelism/layout_prediction.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// Values tried in each dimension; empty: all that divide what they have to.
struct LayoutSpace {
  std::vector<std::int64_t> tensor, pipeline, context, expert, micro_batch, chunks;
  std::vector<const PipelineSchedule*> schedules;  ///< empty: 1f1b and, with chunks, interleaved
  std::vector<const TensorScheme*> schemes;        ///< empty: 1d
  std::vector<int> zero;
  std::vector<Recomputation> recomputation;
  std::vector<int> sequence_parallel, overlap_gradients, overlap_pipeline;  ///< 0, 1; empty: both
  std::vector<PlanSpec> gradients;                                          ///< empty: ddp
  std::int64_t most_tensor = 0;                                             ///< 0: devices of a machine
};

enum class Objective : std::uint8_t {
  shortest_step,   ///< under the memory cap
  least_memory,    ///< the least memory of a step no longer than `target_step`
  fewest_devices,  ///< the same; searches parts of the cluster
  cheapest,        ///< price x devices x step time, over parts of the cluster
};

struct LayoutSearchOptions {
  LayoutOptions layout{};
  Objective objective = Objective::shortest_step;
  Seconds target_step;  ///< 0: none
  double price_per_device_hour = 0;
  std::uint32_t best = 10;  ///< layouts returned: the best so many of the space
  bool frontier = false;    ///< prove the frontier, too: slower
  Seconds time_budget;      ///< 0: until proved
  unsigned threads = 0;     ///< 0: all cores
  std::uint64_t least_between_progress = 4096;
  /// Called from one thread at a time; false stops the search. `best`: its step, 0 while there is none.
  std::function<bool(std::uint64_t done, std::uint64_t total, Seconds best)> progress{};
};

struct FrontierPoint {
  Bytes memory;
  Seconds iteration;
  LayoutPlan plan;
};

struct LayoutSearchResult {
  std::vector<LayoutPrediction> best;   ///< best first; empty: nothing fits
  std::vector<FrontierPoint> frontier;  ///< time against memory of what fits: memory up, time down
  std::uint64_t total = 0;              ///< layouts in the space
  std::uint64_t evaluated = 0;          ///< layouts that fit and were predicted
  std::uint64_t bounded = 0, too_large = 0, unsuitable = 0;
  std::uint64_t open = 0;  ///< neither evaluated nor left out when the search was stopped
  bool proved = false;
  double gap = 0;            ///< 1 while nothing was found
  std::string nothing;       ///< why `best` is empty, with the least memory seen
  double cost_per_step = 0;  ///< what a step of the best layout costs, in the price's currency
};

/// Inapplicable when the space is empty.
[[nodiscard]] Answer<LayoutSearchResult> best_layouts(const Workload&, const Cluster&, const LayoutSpace&,
                                                      const LayoutSearchOptions& = {});
/// Every layout of the space in its order (small spaces, tests).
[[nodiscard]] std::vector<LayoutPlan> layouts_of(const LayoutSpace&, const Workload&, const Cluster&,
                                                 double global_batch);

}  // namespace stepcast
