// Ranks that the writer cut after thirty are completed where they are regular.
#include <stepcast/base/decimal.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/formats/kineto/process_groups.hpp>

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace stepcast {
namespace {

constexpr std::int64_t most_ranks = 1 << 22;
/// Of all groups whose ranks a few numbers stand for: a small file must not fill the memory with lists.
constexpr std::size_t most_members = std::size_t{1} << 24;

/// Takes its members from those that are left; none when there are not enough.
std::vector<std::int64_t> regular_ranks(std::int64_t first, std::int64_t stride, std::int64_t size,
                                        std::size_t& members_left) {
  std::vector<std::int64_t> ranks;
  if (first < 0 || first > most_ranks || stride < 1 || stride > most_ranks || size < 1 || size > most_ranks)
    return ranks;
  if (std::cmp_greater(size, members_left)) return ranks;
  members_left -= static_cast<std::size_t>(size);
  for (std::int64_t i = 0; i < size; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

}  // namespace

std::optional<std::vector<std::int64_t>> complete_ranks(std::string_view text) {
  text = trimmed(text);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::vector<std::int64_t> ranks;
  while (!trimmed(text).empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::int64_t rank = -1;
    if (read_integer(trimmed(text.substr(0, comma)), rank) != Parsed::fine) return std::nullopt;
    ranks.push_back(rank);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return ranks;
}

std::vector<ProcessGroup> groups_of(const Trace& trace, std::span<const ListedGroup> listed,
                                    std::span<const RegularGroup> regular) {
  std::vector<ProcessGroup> groups;
  std::size_t members_left = most_members;
  std::unordered_map<std::string_view, std::size_t> by_name;
  for (const ListedGroup& group : listed) {
    by_name.emplace(group.name, groups.size());
    groups.push_back(
        {group.name, group.description, complete_ranks(group.ranks).value_or(std::vector<std::int64_t>())});
    // torch.distributed writes no ranks for a group that holds all of them.
    if (groups.back().ranks.empty() && group.size == trace.world_size)
      groups.back().ranks = regular_ranks(0, 1, trace.world_size, members_left);
  }
  std::unordered_map<StringId, const RegularGroup*> regular_by_name;
  for (const RegularGroup& group : regular) regular_by_name.emplace(group.name, &group);
  std::unordered_map<StringId, bool> seen;
  for (const CollectiveArguments& collective : trace.collectives) {
    if (collective.group == 0) continue;
    bool& done = seen[collective.group];
    if (done) continue;
    const auto [entry, is_new] = by_name.emplace(trace.text(collective.group), groups.size());
    if (is_new)
      groups.push_back({std::string(entry->first), std::string(trace.text(collective.group_description)), {}});
    ProcessGroup& group = groups[entry->second];
    if (group.ranks.empty()) group.ranks = complete_ranks(trace.text(collective.ranks)).value_or(group.ranks);
    const auto place = regular_by_name.find(collective.group);
    if (group.ranks.empty() && place != regular_by_name.end())
      group.ranks = regular_ranks(place->second->first, place->second->stride, collective.group_size, members_left);
    done = !group.ranks.empty();
  }
  return groups;
}

}  // namespace stepcast
