#pragma once
// SelfCheck: how well the model reproduces the very trace that it predicts from.
//
// Invariant: either there is a replay for each rank that has steps, or `missing` says why there is none. Advice from a
// trace that is not reproduced is marked as doubtful wherever it is shown. Not modelled: how far a prediction for
// another plan or cluster is off (validation.hpp).
#include <stepcast/replay/replay.hpp>

#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct Documents;

/// How well the model reproduces the very trace that it predicts from, one replay a rank; or why that is not known.
struct SelfCheck {
  std::vector<Replay> ranks;
  std::string missing;                  ///< why there is no replay
  std::vector<TracedRank> together{};   ///< several ranks: who waited for whom (ranks.hpp)
  std::string lateness{};               ///< the same in words
  std::vector<std::string> cautions{};  ///< of the run (RunOfRanks) or of the profile

  /// The scored replay with the largest error; null when there is none.
  [[nodiscard]] const Replay* worst() const;
  /// False when the baseline is not reproduced, the recording lost events, or the profile has cautions: advice from
  /// such a trace is marked.
  [[nodiscard]] bool trusted() const;
  /// Why not to trust it, for people; empty when it is trusted or nothing is known.
  [[nodiscard]] std::string caution() const;
  /// A replay that is further off says that the model does not understand the trace. Real traces replay within a few
  /// per cent, and the plans worth choosing between are seldom less than this apart.
  static constexpr double largest_trusted_error = 0.10;
};

/// A replay of every trace, and who waited for whom where there are several; of a profile the reason why there is none.
[[nodiscard]] SelfCheck self_check_of(const Documents&);
/// The same, with what the profile that the documents give says against itself.
[[nodiscard]] SelfCheck self_check_of(const Documents&, const Profile&);

}  // namespace stepcast
