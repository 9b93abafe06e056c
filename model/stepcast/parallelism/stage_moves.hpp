#pragma once
// Stage moves: whether a layout's step is shorter with other units in its stages.
//
// Equal numbers and divisions by time look at what units take alone. In a step what is sent between stages, the
// gradients of a stage, its copies and its memory count as well: over slow links stages at the ends of a pipeline,
// which send in one direction only, may hold more. From the division that a prediction has, one unit at a time moves
// from one stage to another (those between move on), the best move of each round, as long as the step becomes shorter:
// 5+5+5+3 becomes 4+6+5+3. Invariant: what is returned is shorter, and fits where the prediction does. Not modelled:
// moves that only together help; of pipelines with many stages and micro-batches moves between other stages than
// neighbours.
#include <stepcast/parallelism/layout_prediction.hpp>

#include <optional>

namespace stepcast {

/// The same plan with the stages of the shortest step that was found. Empty: no move helps, the prediction has no
/// pipeline, or rounds of moves would take too long. `cap`: memory of a device; 0: none.
[[nodiscard]] std::optional<LayoutPlan> with_moved_units(LayoutEvaluator&, const LayoutPrediction&, Bytes cap);

}  // namespace stepcast
