#pragma once
// Grouping: which gradients travel together.
//
// A group is a run of consecutive tensors in gradient-ready order that is sent as one message; it is ready when its
// last tensor is. A grouping is a list of groups that partitions the tensors. Bucketing rules that need more than a run
// (mixed data types, modules in forward order) live with their strategy. Strategies give the memory of their input.
#include <stepcast/base/units.hpp>
#include <stepcast/profile/profile.hpp>

#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

namespace stepcast {

struct Group {
  std::uint32_t first = 0, count = 0;  ///< run of Profile::tensors
  Bytes size;
  [[nodiscard]] std::uint32_t last() const { return first + count - 1; }
};
using Grouping = std::pmr::vector<Group>;
using Memory = std::pmr::memory_resource*;

/// One group per tensor: wait-free backpropagation.
[[nodiscard]] Grouping per_tensor(const Profile&, Memory = std::pmr::get_default_resource());
/// Everything in one group; empty if there is no tensor.
[[nodiscard]] Grouping all_in_one(const Profile&, Memory = std::pmr::get_default_resource());
/// Tensors are appended until the open group is at least `limit`; the tensor that crosses the limit stays in. The first
/// group may have a limit of its own.
[[nodiscard]] Grouping closed_at(const Profile&, Bytes limit, Memory = std::pmr::get_default_resource());
[[nodiscard]] Grouping closed_at(const Profile&, Bytes first_limit, Bytes limit,
                                 Memory = std::pmr::get_default_resource());
/// As `closed_at`, and a group also closes when the gaps between its gradients add up to `wait` (the gap before a
/// group's first tensor included). `ready` as gradient_ready_times; gaps count from `begin`, the start of the backward
/// pass.
[[nodiscard]] Grouping closed_at(const Profile&, Bytes limit, Seconds wait, std::span<const Seconds> ready,
                                 Seconds begin, Memory = std::pmr::get_default_resource());

}  // namespace stepcast
