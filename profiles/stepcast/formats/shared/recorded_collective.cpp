// Counts that are not meant as they stand (a product, a sign) are restored.
#include <stepcast/base/words.hpp>
#include <stepcast/formats/shared/recorded_collective.hpp>

#include <algorithm>

namespace stepcast {
namespace {

constexpr std::int64_t wrap = std::int64_t{1} << 32;

/// Adds to `whole` what makes it `parts` times `part`.
bool restore_product(std::int64_t part, std::int64_t parts, std::int64_t& whole) {
  std::int64_t product = 0;
  if (part <= 0 || parts <= 0 || __builtin_mul_overflow(part, parts, &product)) return false;
  if (product <= whole || (product - whole) % wrap != 0) return false;
  whole = product;
  return true;
}

bool restore_sign(std::int64_t& count) {
  if (count >= -1 || count < -wrap / 2) return false;  // -1 stands for "not said"
  count += wrap;
  return true;
}

}  // namespace

bool tells_own_rank(std::string_view collective) {
  return contains_any(collective, {"allreduce", "all_to_all", "allgather", "all_gather", "reduce_scatter", "barrier"});
}

bool restore_counts(std::string_view collective, std::int64_t group_size, std::int64_t& in, std::int64_t& out) {
  const bool in_restored = restore_sign(in), out_restored = restore_sign(out);
  const bool gathers = contains_any(collective, {"allgather", "all_gather"});
  const bool scatters = contains_any(collective, {"reduce_scatter"});
  const bool product =
      (gathers && restore_product(in, group_size, out)) || (scatters && restore_product(out, group_size, in));
  return in_restored || out_restored || product;
}

void OwnRank::add(std::string_view collective, std::string_view group, std::string_view description, std::int64_t place,
                  std::int64_t first, std::int64_t stride) {
  constexpr std::int64_t most_ranks = 1 << 22;
  constexpr std::size_t most_groups = 1 << 10;
  if (rank_ >= 0 || place < 0 || place >= most_ranks || !tells_own_rank(collective)) return;
  if (first >= 0 && first < most_ranks && stride > 0 && stride < most_ranks) rank_ = first + place * stride;
  else if (description == "default_pg") rank_ = place;
  else if (places_.size() < most_groups &&
           std::ranges::find(places_, group, &decltype(places_)::value_type::first) == places_.end())
    places_.emplace_back(group, place);
}

std::int64_t OwnRank::among(const std::vector<ProcessGroup>& groups) const {
  if (rank_ >= 0) return rank_;
  for (const auto& [name, place] : places_)
    for (const ProcessGroup& group : groups)
      if (group.name == name && place < std::ssize(group.ranks)) return group.ranks[static_cast<std::size_t>(place)];
  // A group of which nobody says more is taken for that of all ranks, unless there are several.
  return places_.size() == 1 && groups.empty() ? places_.front().second : -1;
}

}  // namespace stepcast
