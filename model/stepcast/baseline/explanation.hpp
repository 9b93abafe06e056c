#pragma once
// Explanation: where the time of a traced step goes, what could win how much of it, and what to do about that.
//
// Each lever is a part of the step (step_split.hpp) that somebody could work at: communication, DDP's buffers, ranks
// that are late, input, the allocator, host, precision, copies. It wins at most its part. What it wins is predicted
// where something predicts it: plans of gradients on the links that the trace shows (recommend.hpp), CUDA graphs for
// the host (whatif.hpp), both of the step as recorded and of one in which half of the host's work was the profiler's;
// waiting for input and for late ranks is all to be won. From these follows one of three
// verdicts, for each lever and for the job:
//
//   change this   a gain is predicted that is larger than what can be told apart
//   leave it      even all of the part is not worth it, or no plan is told from the one in use
//   cannot tell   the part is large, and nothing predicts how much of it can be won; or too few steps say how large
//
// Invariant: a lever that is worth at most `worth` is left alone, unless it is over a tenth of the step, of which
// nothing can be told then; nothing is changed on the word of one step. The job is left alone where the largest of the
// levers of which nothing can be told is under a twentieth of a step. Works by degrees: a trace without shapes, marks
// or backward pass has a split, and `record` says what recording more would add. Not modelled: making compute itself
// faster (whatif); levers that only win together.
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/extraction/step_split.hpp>
#include <stepcast/prediction/recommend.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

enum class Verdict : std::uint8_t { change, leave, cannot_tell };
/// "change this", "leave it", "cannot tell".
[[nodiscard]] std::string_view name_of(Verdict);

struct Lever {
  std::string_view what;  ///< "communication", "buffers", "pipeline", "late ranks", "input", "allocator", "host", ...
  Verdict verdict = Verdict::leave;
  double most = 0;               ///< share of the step that it could win at most
  std::optional<double> gain{};  ///< share of the step that is predicted to be won
  std::string action;            ///< what to do
  std::string why;

  /// What it is ordered by.
  [[nodiscard]] double worth() const { return gain.value_or(most); }
};

struct Explanation {
  std::vector<StepSplit> ranks;  ///< in the order of the traces
  std::size_t shown = 0;         ///< the rank whose step is taken apart: the one that waits least for others
  std::int64_t workers = 1;
  std::string plan;     ///< as traced; empty: not known
  std::string links;    ///< that the trace shows, in words; empty: none
  std::string library;  ///< what its operations take beyond them, in words; empty: nothing
  SelfCheck check;
  /// The step if its collectives took no time, rebuilt from its tasks; nothing where it cannot be rebuilt.
  std::optional<Seconds> without_communication{};
  double worth = 0;  ///< the least share of the step that is worth a change: two per cent, or what the steps vary by
  Verdict verdict = Verdict::leave;
  std::string answer;  ///< the verdict in a sentence
  std::vector<Lever> now, next, not_now;
  std::string settings;             ///< of the plan to change to, to paste; may be empty
  std::vector<std::string> record;  ///< what recording more would add

  [[nodiscard]] const StepSplit& split() const { return ranks[shown]; }
  static constexpr double least_worth = 0.02;
};

/// Of traces. Throws InputError where they hold no events, or are no ranks of one run.
[[nodiscard]] Explanation explanation_of(const Documents&, const ProfileOptions& = {});

}  // namespace stepcast
