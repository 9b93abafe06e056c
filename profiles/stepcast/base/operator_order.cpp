// OperatorOrder: runs of equal elements vote for a displacement, then a walk that steps over short differences.
#include <stepcast/base/operator_order.hpp>

#include <algorithm>
#include <map>
#include <unordered_map>

namespace stepcast {
namespace {

using Sequence = std::span<const std::uint32_t>;

constexpr std::size_t run_length = 8;      ///< elements that must agree to vote
constexpr std::size_t longest_skip = 200;  ///< elements of both sequences together that a walk steps over
constexpr std::size_t sure_length = 3;     ///< elements that must agree behind a difference

std::uint64_t hash_of(Sequence s) {
  std::uint64_t h = 0;
  for (const std::uint32_t x : s) h = (h ^ x) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
  return h;
}

/// b - a of the displacement that most runs vote for; the smallest among equals.
std::int64_t displacement(Sequence a, Sequence b) {
  const std::size_t length = std::min({run_length, a.size(), b.size()});
  constexpr std::size_t most_places = 64;  // of one run: a loop of equal calls would vote for everything
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> places;
  for (std::uint32_t i = 0; i + length <= b.size(); ++i) {
    std::vector<std::uint32_t>& at = places[hash_of(b.subspan(i, length))];
    if (at.size() <= most_places) at.push_back(i);
  }
  std::map<std::int64_t, std::size_t> votes;
  for (std::uint32_t i = 0; i + length <= a.size(); ++i) {
    const auto found = places.find(hash_of(a.subspan(i, length)));
    if (found == places.end() || found->second.size() > most_places) continue;
    for (const std::uint32_t at : found->second) ++votes[std::int64_t{at} - i];
  }
  const auto most = std::ranges::max_element(votes, {}, [](const auto& entry) { return entry.second; });
  return most == votes.end() ? 0 : most->first;
}

bool agree(Sequence a, Sequence b, std::size_t i, std::size_t j) {
  const std::size_t n = std::min({sure_length, a.size() - i, b.size() - j});
  return n > 0 && std::ranges::equal(a.subspan(i, n), b.subspan(j, n));
}

/// Moves both cursors to the nearest place where the sequences agree again; false when there is none in reach, or when
/// `comparisons` are used up.
bool step_over(Sequence a, Sequence b, std::size_t& i, std::size_t& j, std::size_t& comparisons) {
  for (std::size_t skipped = 1; skipped <= longest_skip; ++skipped) {
    for (std::size_t of_a = 0; of_a <= skipped; ++of_a) {
      if (comparisons == 0) return false;
      --comparisons;
      const std::size_t x = i + of_a, y = j + skipped - of_a;
      if (x >= a.size() || y >= b.size() || !agree(a, b, x, y)) continue;
      i = x;
      j = y;
      return true;
    }
  }
  return false;
}

}  // namespace

OrderMatch order_match(Sequence a, Sequence b) {
  OrderMatch pairs;
  if (a.empty() || b.empty()) return pairs;
  const std::int64_t d = displacement(a, b);
  std::size_t i = d < 0 ? static_cast<std::size_t>(-d) : 0, j = d > 0 ? static_cast<std::size_t>(d) : 0;
  // Sequences that differ everywhere are not worth the square of their length.
  std::size_t comparisons = 20'000'000;
  while (i < a.size() && j < b.size() && comparisons > 0) {
    if (a[i] == b[j]) {
      pairs.emplace_back(static_cast<std::uint32_t>(i++), static_cast<std::uint32_t>(j++));
    } else if (!step_over(a, b, i, j, comparisons)) {
      i += longest_skip / 2;
      j += longest_skip / 2;
    }
  }
  return pairs;
}

}  // namespace stepcast
