#pragma once
// Shown ranks: what each rank's trace shows of its collectives, and which of them may be the same (internal; see
// ranks.hpp).
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
  std::vector<std::vector<std::uint32_t>> of;  ///< the key of each collective of each rank
  std::vector<bool> synchronising;             ///< whether the collectives of a key make all ranks wait
};
/// `detailed`: besides operations, groups and peers, sequence numbers count if all collectives with a group have one,
/// and sizes if most collectives have one.
[[nodiscard]] Keys keys_of(const std::vector<ShownRank>&, bool detailed);

}  // namespace stepcast
