#pragma once
// Stage division: which run of units each stage of a pipeline works on.
//
// Programs deal units out by a rule of their own unless they are told otherwise: of 40 blocks with heavy ends 4 stages
// are 11+10+10+11 units by Megatron-LM, 11+11+10+10 by torchtitan and 7+14+14+7 by DeepSpeed. By weight: of
// all ways to cut the sequence of units into as many non-empty runs, the one whose heaviest run is lightest, and among
// those the most even one (least sum of squares), by dynamic programming over the few run lengths that stay within that
// heaviest run. Exact. Of interleaved stages a device has several, whose sum sets its pace: of divisions with that
// heaviest run one is looked for that spares the busiest device. Weights of time are whole numbers, so that what is as
// long weighs the same whatever it was added up from. Not modelled: what a stage holds in memory, or sends.
#include <stepcast/base/units.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace stepcast {

/// Times in whole parts of the longest of them, a million to it; all alike where none takes time. Requires times >= 0.
[[nodiscard]] std::vector<double> weights_of(std::span<const Seconds> time);
/// First unit of each run, and the number of units at the end. Requires 1 <= stages <= weight.size(), weights >= 0.
[[nodiscard]] std::vector<std::uint32_t> stage_division(std::span<const double> weight, std::uint32_t stages);
/// The same runs or ones no heavier than the heaviest of them, such that the busiest device has less to do: `device`
/// has that of each run. Units are moved one at a time from the busiest device to the one with least to do, and those
/// between move on. Not exact.
[[nodiscard]] std::vector<std::uint32_t> sparing_the_busiest(std::span<const double> weight,
                                                             std::vector<std::uint32_t> first,
                                                             std::span<const std::uint32_t> device);
/// What the busiest device has to do of units that are divided so.
[[nodiscard]] double heaviest_device(std::span<const double> weight, std::span<const std::uint32_t> first,
                                     std::span<const std::uint32_t> device);
/// Units of each stage where all hold the same number of blocks (what lies between the first and the last of a model's
/// units), the embedding beside the first of them, the head beside the last. Empty where blocks do not divide, or there
/// is one stage.
[[nodiscard]] std::vector<std::uint32_t> equal_blocks(const ModelShape&, std::int64_t stages);
/// How a program deals units to stages unless it is told otherwise.
enum class StageRule : std::uint8_t {
  equal_blocks,   ///< Megatron-LM; where blocks do not divide it has to be told
  equal_units,    ///< torchtitan: where they do not divide the first stages have one more
                  ///< (generate_llm_fqn_per_model_part of distributed/pipeline_parallel.py)
  by_parameters,  ///< DeepSpeed's PipelineModule unless partition_method says otherwise, which has the least difference
                  ///< between stages; here it is the least of the largest
};
/// Whether the program whose kernels these are can be told what each stage holds
/// (--pipeline-model-parallel-layout).
[[nodiscard]] constexpr bool is_told_stages(KernelSet k) { return k == KernelSet::megatron; }
/// That of the program whose kernels these are.
[[nodiscard]] StageRule stage_rule_of(KernelSet);
/// Units of each stage by that rule. Empty where the program has to be told, there is one stage, or there are fewer
/// units than stages.
[[nodiscard]] std::vector<std::uint32_t> usual_stages(const ModelShape&, StageRule, std::int64_t stages);
/// By the rule of the model's kernels.
[[nodiscard]] std::vector<std::uint32_t> usual_stages(const ModelShape&, std::int64_t stages);

}  // namespace stepcast
