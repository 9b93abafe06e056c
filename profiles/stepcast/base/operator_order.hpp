#pragma once
// OperatorOrder: which element of one sequence is which of another, where both list the calls of one thread.
//
// One may hold calls that the other lacks, and the longer one may hold the shorter many times over (a recording of many
// steps against one step): then the first place where most agrees is taken. Linear in the lengths; not the longest
// common subsequence, but equal to it where the two differ in short stretches only. Not modelled: reordering.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace stepcast {

/// Pairs of indices, both increasing.
using OrderMatch = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
[[nodiscard]] OrderMatch order_match(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b);

}  // namespace stepcast
