#pragma once
// Parts of ranks.hpp: what each rank's trace shows of its collectives, and which of them may be the same (internal).
#include <stepcast/ranks/matching.hpp>

#include <string>
#include <vector>

namespace stepcast {

/// A collective as one rank shows it, on that rank's clock.
struct ShownCollective {
  std::uint32_t event = no_index;
  std::int64_t start_ns = 0, end_ns = 0, issued_ns = 0;
  std::string operation, group;
  std::string kind;  ///< operation by the name of the event, which is the same on all ranks; else as `operation`
  std::int64_t sequence = -1;
  std::int64_t source_rank = -1, destination_rank = -1;
  Bytes size;
};

struct ShownRank {
  RankOfRun rank;
  std::vector<ShownCollective> collectives;  ///< sorted by end
  std::int64_t world_size = -1;
};

/// Number, steps and collectives of each trace; `assumed` says where the rank numbers come from, if not from the
/// traces.
[[nodiscard]] std::vector<ShownRank> shown_ranks(std::span<const Trace>, std::vector<std::string>& assumed);

/// What two collectives must have in common to be the same one.
struct Keys {
  std::vector<std::vector<std::uint32_t>> of;  ///< by rank and collective
  std::vector<bool> synchronising;             ///< by key
};
/// `detailed`: besides operations, groups and peers, sequence numbers count if all collectives with a group have one,
/// and sizes if most collectives have one.
[[nodiscard]] Keys keys_of(const std::vector<ShownRank>&, bool detailed);

/// The ranks with their clocks, and the collectives that at least two of them show.
struct JoinedRanks {
  std::vector<ShownRank> ranks;
  std::size_t reference = 0;
  std::vector<MatchedCollective> collectives;

  /// Of the collectives of all ranks, how many have a partner.
  [[nodiscard]] std::size_t partners() const;
};
[[nodiscard]] JoinedRanks joined(std::vector<ShownRank>, bool detailed_keys);

/// Lateness is part of every run. A straggler costs more than a per cent of it, and half as much again as any other.
inline constexpr double worth_telling_share = 0.01, stands_out = 1.5;
/// From the first start to the last end of what was matched.
[[nodiscard]] Seconds span_of(const RunOfRanks&);
/// Fills in transfer, waiting, lateness and the number of collectives without a partner of every rank.
void add_times(RunOfRanks&);
/// Requires at least two ranks and their times.
[[nodiscard]] std::optional<Straggler> straggler_of(std::span<const Trace>, const RunOfRanks&);

}  // namespace stepcast
