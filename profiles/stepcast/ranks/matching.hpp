#pragma once
// Matching of ranks: which collectives of two ranks are the same one, and how far their clocks are apart (internal to
// ranks.hpp).
//
// Collectives with the same *key* (operation, and process group, sequence number, peers or size where the traces say)
// may be the same one. NCCL runs those of one communicator in the same order everywhere, so matches of a key never
// cross; recordings begin, end and lose events where they like, so order alone does not tell. Hence (1) the clock
// offset for which most ends of equal keys coincide is voted for, by all differences of ends; (2) with a clock, the
// pairs of each key are the crossing-free set with the best sum of rewards (a maximum-weight increasing subsequence),
// where a pair's reward falls with the logarithm of the distance of its ends. Not modelled: clocks that jump.
#include <stepcast/ranks/ranks.hpp>

#include <span>
#include <vector>

namespace stepcast {

/// One collective on one rank.
struct Arrival {
  std::int64_t start_ns = 0, end_ns = 0;
  std::uint32_t event = no_index;
};

/// The collectives of one rank: those of key k are [begin[k], begin[k + 1]), sorted by end.
struct Arrivals {
  std::vector<Arrival> list;
  std::vector<std::uint32_t> begin;

  [[nodiscard]] std::span<const Arrival> of(std::size_t key) const {
    return std::span(list).subspan(begin[key], begin[key + 1] - begin[key]);
  }
};

/// Positions in the arrivals of one key.
struct Pair {
  std::uint32_t a = 0, b = 0;
  bool operator==(const Pair&) const = default;
};

/// 1 for ends that coincide, half of it at a millisecond, little for tenths of a second.
[[nodiscard]] double reward_of(std::int64_t distance_ns);

/// The crossing-free pairs with the best sum of rewards among the nearest few of each; both sides on the common clock.
/// Those of `synchronising` collectives must overlap in time, up to `slack_ns`.
[[nodiscard]] std::vector<Pair> best_pairs(std::span<const Arrival> a, std::span<const Arrival> b, bool synchronising,
                                           std::int64_t slack_ns);

/// The clock of `b` against `a`, which is on the common clock already. `near_ns`: offset to prefer between two that
/// explain the ends equally well, and how far from it counts as near; a negative `within_ns`: no preference.
struct OffsetHint {
  std::int64_t near_ns = 0, within_ns = -1;
};
[[nodiscard]] RankClock clock_of(const Arrivals& a, const Arrivals& b, const std::vector<bool>& synchronising,
                                 const OffsetHint&);

/// `arrivals` on the common clock.
[[nodiscard]] Arrivals on_clock(const RankClock&, Arrivals arrivals);

}  // namespace stepcast
