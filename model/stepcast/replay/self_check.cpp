// Self-check: a replay of every rank, and what they say together.
#include <stepcast/base/words.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/ranks/ranks.hpp>
#include <stepcast/replay/self_check.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace stepcast {

const Replay* SelfCheck::worst() const {
  const Replay* worst = nullptr;
  for (const Replay& replay : ranks)
    if (replay.scored && (!worst || std::abs(replay.relative_error) > std::abs(worst->relative_error))) worst = &replay;
  return worst;
}

bool SelfCheck::trusted() const {
  const Replay* replay = worst();
  const bool lossy = std::ranges::any_of(ranks, &Replay::doubtful);
  return replay && !lossy && std::abs(replay->relative_error) <= largest_trusted_error;
}

std::string SelfCheck::caution() const {
  const Replay* replay = worst();
  if (replay && std::abs(replay->relative_error) > largest_trusted_error)
    return "the model does not reproduce the traced step (limit: " + percent(largest_trusted_error) + ")";
  const auto lossy = std::ranges::find_if(ranks, &Replay::doubtful);
  return lossy == ranks.end() ? "" : "the recording lost events ('stepcast replay' says which)";
}

SelfCheck self_check_of(const Documents& documents) {
  SelfCheck check;
  if (documents.profile) {
    check.missing = "the input is a profile, which has no events to replay; give the trace";
    return check;
  }
  for (const Trace& trace : documents.traces) {
    Answer<Replay> replay = replay_of(trace);
    if (replay) check.ranks.push_back(std::move(*replay));
    else if (check.missing.empty()) check.missing = replay.reason();
  }
  if (documents.traces.size() < 2) return check;
  const RunOfRanks run = run_of(documents.traces);
  check.together = figures_of(run);
  check.lateness = run.verdict();
  return check;
}

}  // namespace stepcast
