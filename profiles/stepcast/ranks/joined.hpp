#pragma once
// Joined ranks: the traces of one run on one clock, and which collectives of different ranks are the same (internal;
// see ranks.hpp).
//
// Clocks follow a spanning tree of shared collectives from a reference rank; then collectives match key by key.
// Example: two ranks whose 40th all-reduce ends together show one collective, and the difference of its ends is that of
// the clocks. Not modelled: clocks that drift within a trace.
#include <stepcast/ranks/shown.hpp>

#include <cstddef>
#include <vector>

namespace stepcast {

/// The ranks with their clocks, and the collectives that at least two of them show.
struct JoinedRanks {
  std::vector<ShownRank> ranks;
  std::size_t reference = 0;
  std::vector<MatchedCollective> collectives;

  /// Of the collectives of all ranks, how many have a partner.
  [[nodiscard]] std::size_t partners() const;
};
[[nodiscard]] JoinedRanks joined(std::vector<ShownRank>, bool detailed_keys);

}  // namespace stepcast
