#pragma once
// Process groups: who is in them, from what a Kineto file says in several places, each of them incomplete.
//
// distributedInfo lists the groups, but leaves the ranks empty for a group of all ranks, and some versions write the
// list as a string. The arguments of collectives repeat the ranks as a string that is cut after 30, and some versions
// add the first rank and the stride of regular groups.
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

/// A list of ranks as text, "[0, 1, 2]"; nothing when it was cut (", ...") or is no list of numbers.
[[nodiscard]] std::optional<std::vector<std::int64_t>> complete_ranks(std::string_view text);

/// An entry of distributedInfo.pg_config.
struct ListedGroup {
  std::string name, description, ranks;  ///< ranks: raw text
  std::int64_t size = -1;
};

/// What the arguments of collectives say of a group with regular ranks.
struct RegularGroup {
  StringId name = 0;
  std::int64_t first = -1, stride = -1;
};

/// All groups of the trace: the listed ones, then those that only collectives name, in their order.
[[nodiscard]] std::vector<ProcessGroup> groups_of(const Trace&, std::span<const ListedGroup>,
                                                  std::span<const RegularGroup>);

}  // namespace stepcast
