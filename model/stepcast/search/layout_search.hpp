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
// bounds (bounds.hpp); a branch whose bound is not below the last of the best layouts found (or whose
// least memory does not fit) is left out with all that it contains. The result is the optimum of the model over the
// space: `proved` says that nothing was left open, else `gap` is (best - smallest open bound) / best. Deterministic at
// any number of threads, counts included, unless it is stopped: of equal steps the one with less memory, then the first
// in the order of the space. The frontier of time and memory is what was found on the way, attained but perhaps beaten
// by a layout left out; with the option `frontier` a branch is left out only if one layout found is as good in both, so
// that it is the frontier of the whole space. Of full recomputation of some blocks of each stage (recompute_blocks) the
// space has one layout for each choice of all else: that of the fewest blocks that fit, since each block that is done
// again takes time and leaves memory free. Where all activations fit it is no other layout than that without
// recomputation, and counts as left out by its bound; so does a division into stages by time that is no other than the
// program's own. Invariant: evaluated + bounded + too large + unsuitable + open = total. Not modelled: layouts outside
// the space, which the result names (`not_tried`); the options of the gradient plan and single units of stages, which
// are tuned for the winners afterwards.
#include <stepcast/parallelism/layout_prediction.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// Values tried in each dimension; empty: all that divide what they have to.
struct LayoutSpace {
  std::vector<std::int64_t> tensor, pipeline, context, expert, micro_batch, chunks;
  std::vector<int> whole_experts;                 ///< beside tensor degrees: 0, 1; empty: 1 where they are spread, too
  std::vector<ContextExchange> context_exchange;  ///< empty: that of `framework`, or else a ring
  std::vector<ExpertExchange> expert_exchange;  ///< empty: with Megatron-LM's kernels both, else a copy for each expert
  std::vector<int> overlap_expert;              ///< 0, 1; empty: with Megatron-LM's kernels both
  std::vector<const PipelineSchedule*> schedules;  ///< empty: 1f1b, zb_h1, with chunks interleaved and PyTorch's zb_v
  std::vector<const TensorScheme*> schemes;        ///< empty: 1d
  std::vector<int> zero;
  std::vector<Recomputation> recomputation;
  /// Full recomputation of the fewest blocks of each stage that fit into the memory, which may be none; it is tried
  /// anyway where nothing is said of `recomputation`.
  bool some_blocks = false;
  std::vector<int> sequence_parallel;                    ///< 0, 1; empty: both
  std::vector<TensorOverlap> overlap_tensor;             ///< empty: what programs with the workload's kernels do
  std::vector<int> overlap_gradients, overlap_pipeline;  ///< 0, 1; empty: 1, where overlap slows compute both
  std::vector<PlanSpec> gradients;                       ///< empty: ddp
  std::int64_t most_tensor = 0;                          ///< 0: devices of a machine
  std::uint8_t offloaded = 0;                            ///< Layout::offloaded of all of them; parameters: ZeRO-3 alone
  std::string framework{};  ///< that has to run them (launch_frameworks()); empty: any, or none where not `runnable`
  bool runnable = false;    ///< only what some framework runs

  /// A layout of nothing but what all of them leave with the host.
  [[nodiscard]] Layout offloading() const {
    Layout l;
    l.offloaded = offloaded;
    return l;
  }
};

enum class Objective : std::uint8_t {
  shortest_step,   ///< under the memory cap
  least_memory,    ///< the least memory of a step no longer than `target_step`
  fewest_devices,  ///< the same; searches parts of the cluster
  cheapest,        ///< price x devices x step time, over parts of the cluster
  simplest,        ///< the least burden (preference.hpp), then the least memory, of a step no longer than `target_step`
};

struct LayoutSearchOptions {
  LayoutOptions layout{};
  Objective objective = Objective::shortest_step;
  Seconds target_step;  ///< 0: none
  double price_per_device_hour = 0;
  std::uint32_t best = 10;   ///< layouts returned: the best so many of the space
  bool one_of_kind = false;  ///< of these no two are `of_one_kind`: the best of each is returned
  bool explain = true;       ///< find out why nothing is left, if so: another search
  bool frontier = false;     ///< prove the frontier, too: slower
  Seconds time_budget;       ///< 0: until proved
  unsigned threads = 0;      ///< 0: all cores
  std::uint64_t least_between_progress = 4096;
  /// Called from one thread at a time; false stops the search. `best`: its step, 0 while there is none.
  std::function<bool(std::uint64_t done, std::uint64_t total, Seconds best)> progress{};
};

struct FrontierPoint {
  Bytes memory;
  Seconds iteration;
  LayoutPlan plan;
};

/// The fields are listed at the end.
struct LayoutSearchResult {
  std::vector<LayoutPrediction> best;
  std::vector<FrontierPoint> frontier;
  std::uint64_t total = 0, evaluated = 0, bounded = 0, too_large = 0, unsuitable = 0, open = 0;
  bool proved = false;
  double gap = 0;
  std::string nothing;
  double cost_per_step = 0;
  std::string space;
  std::vector<std::string> not_tried;
};

/// Inapplicable when the space is empty.
[[nodiscard]] Answer<LayoutSearchResult> best_layouts(const Workload&, const Cluster&, const LayoutSpace&,
                                                      const LayoutSearchOptions& = {});

}  // namespace stepcast

namespace stepcast {

template <>
inline constexpr auto result_fields<FrontierPoint> =
    std::tuple{ResultField{"memory_bytes", &FrontierPoint::memory, "of the fullest stage"},
               ResultField{"iteration_s", &FrontierPoint::iteration, "the step time"},
               ResultField{"plan", &FrontierPoint::plan, "that has both"}};

template <>
inline constexpr auto result_fields<LayoutSearchResult> = std::tuple{
    ResultField{"best", &LayoutSearchResult::best, "best first; empty: nothing fits", ShownAs::aside},
    ResultField{"frontier", &LayoutSearchResult::frontier, "of what fits: memory up, time down", ShownAs::aside},
    ResultField{"layouts", &LayoutSearchResult::total, "in the space"},
    ResultField{"evaluated", &LayoutSearchResult::evaluated, "that fit"},
    ResultField{"bounded", &LayoutSearchResult::bounded, "left out by their bound"},
    ResultField{"too_large", &LayoutSearchResult::too_large, "that do not fit"},
    ResultField{"unsuitable", &LayoutSearchResult::unsuitable, "that the model or the cluster does not allow"},
    ResultField{"open", &LayoutSearchResult::open, "neither evaluated nor left out when the search was stopped"},
    ResultField{"proved", &LayoutSearchResult::proved, "nothing was left open"},
    ResultField{"gap", &LayoutSearchResult::gap, "(best - least open bound) / best; 1 while nothing was found"},
    ResultField{"nothing", &LayoutSearchResult::nothing, "why `best` is empty, with the least memory seen",
                ShownAs::known},
    ResultField{"space", &LayoutSearchResult::space, "what was tried in each dimension"},
    ResultField{"not_tried", &LayoutSearchResult::not_tried, "what the space leaves out, and why"},
    ResultField{"cost_per_step", &LayoutSearchResult::cost_per_step, "of the best, in the price's currency",
                ShownAs::aside}};

}  // namespace stepcast
