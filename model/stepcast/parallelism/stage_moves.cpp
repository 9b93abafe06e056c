// Rounds of single moves, as many as a fixed number of passes of the pipeline allows.
#include <stepcast/parallelism/stage_moves.hpp>

#include <vector>

namespace stepcast {
namespace {

/// Bounds of the work, not of what is found: passes of a pipeline that all rounds together may evaluate, and the share
/// of what is left of them that one round of all moves may take; else neighbours alone are tried.
constexpr double passes_of_all_rounds = 4e7, share_of_a_round = 0.25;
/// What a move has to save of a step: a fifth of what is indifferent, since several moves follow one another.
constexpr double worth_a_move = indifference / 5;

struct Move {
  std::size_t from = 0, to = 0;
};
/// Moves from stages of several units to any other, or to neighbours alone.
std::vector<Move> moves_of(const std::vector<std::uint32_t>& units, bool neighbours) {
  std::vector<Move> moves;
  for (std::size_t from = 0; from < units.size(); ++from) {
    if (units[from] == 1) continue;
    for (std::size_t to = 0; to < units.size(); ++to)
      if (to != from && (!neighbours || to + 1 == from || from + 1 == to)) moves.push_back({from, to});
  }
  return moves;
}

}  // namespace

std::optional<LayoutPlan> with_moved_units(LayoutEvaluator& evaluator, const LayoutPrediction& start, Bytes cap) {
  if (start.plan.layout.pipeline == 1 || !start.plan.layout.unit_choices.empty()) return std::nullopt;
  LayoutPlan plan = start.plan;
  plan.layout.stages_by_time = false;
  plan.layout.stage_units = start.stage_units;
  std::vector<std::uint32_t>& units = plan.layout.stage_units;
  const double passes = 2 * static_cast<double>(units.size()) * static_cast<double>(start.micro_batches);
  Seconds shortest = start.iteration;
  bool found = false;
  for (double left = passes_of_all_rounds;;) {
    std::vector<Move> moves = moves_of(units, false);
    if (static_cast<double>(moves.size()) * passes > left * share_of_a_round) moves = moves_of(units, true);
    left -= static_cast<double>(moves.size()) * passes;
    if (moves.empty() || left < 0) break;
    std::optional<Move> best;
    for (const Move& move : moves) {
      --units[move.from], ++units[move.to];
      const Answer<LayoutEvaluator::Quick> quick = evaluator.quick(plan);
      ++units[move.from], --units[move.to];
      if (!quick || (cap > Bytes(0) && quick->memory > cap) || quick->iteration >= shortest * (1 - worth_a_move))
        continue;
      shortest = quick->iteration;
      best = move;
    }
    if (!best) break;
    --units[best->from], ++units[best->to];
    found = true;
  }
  return found ? std::optional(std::move(plan)) : std::nullopt;
}

}  // namespace stepcast
