#pragma once
// Stage division: which run of units each stage of a pipeline works on.
//
// Of all ways to cut the sequence of units into as many non-empty runs, the one whose longest run is shortest, and
// among those the most even one (least sum of squares), by dynamic programming over the few run lengths that stay
// within that longest run. Exact. Of interleaved stages a device has several, whose sum sets its pace: of divisions
// with that longest run one is looked for that spares the busiest device. Beside it Megatron-LM's own division, equal
// numbers of blocks. Not modelled: what a stage holds in memory.
#include <stepcast/base/units.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace stepcast {

/// First unit of each run, and the number of units at the end. Requires 1 <= stages <= time.size(), times >= 0.
[[nodiscard]] std::vector<std::uint32_t> stage_division(std::span<const Seconds> time, std::uint32_t stages);
/// The same runs or ones no longer than the longest of them, such that the busiest device has less to do: `device` has
/// that of each run. Units are moved one at a time from the busiest device to the one with least to do, and those
/// between move on. Not exact.
[[nodiscard]] std::vector<std::uint32_t> sparing_the_busiest(std::span<const Seconds> time,
                                                             std::vector<std::uint32_t> first,
                                                             std::span<const std::uint32_t> device);
/// What the busiest device has to do of units that are divided so.
[[nodiscard]] Seconds longest_device(std::span<const Seconds> time, std::span<const std::uint32_t> first,
                                     std::span<const std::uint32_t> device);
/// Units of each stage where all hold the same number of blocks (what lies between the first and the last of a model's
/// units), the embedding beside the first of them, the head beside the last. Empty where blocks do not divide, or there
/// is one stage.
[[nodiscard]] std::vector<std::uint32_t> equal_blocks(const ModelShape&, std::int64_t stages);

}  // namespace stepcast
