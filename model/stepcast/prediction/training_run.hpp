#pragma once
// Training run: how long so many iterations take, the start of the run included (internal to the library).
//
//   |  1,000 iterations of dist_sync  |  99,000 iterations of cd_sgd                            |   --iterations 100000
//   <-------- 1,000 x 50 ms ---------><-------------------- 99,000 x 31.5 ms ------------------>
//
// Strategies and modifiers that cannot start at once say so in their record (WarmUp): what runs meanwhile, and which
// option holds for how many iterations. Where several do, each begins after its own. Invariants: the stages add up to
// the iterations asked for; without a warm-up the run takes iterations x step; a run that ends in its warm-up never
// takes a step of the plan. Not modelled: validation and checkpoints between steps, the start of the processes, how
// many iterations a plan that changes the arithmetic needs to converge.
#include <stepcast/prediction/prediction.hpp>

#include <functional>
#include <vector>

namespace stepcast {

/// Iterations in a row in which one plan is in force.
struct TrainingStage {
  double iterations = 0;
  PlanSpec plan;
};
/// The stages of a run; the last one is that of the plan itself, of 0 iterations where the run ends before.
[[nodiscard]] std::vector<TrainingStage> training_stages(const PlanSpec&, double iterations);

/// Adds `run` to the prediction of a plan, whose iteration it uses; `step_of` answers for plans of the warm-up. Where
/// one of these cannot run, a warning says why and its steps are taken for those of the plan.
void add_run(Prediction&, double iterations, const std::function<Answer<Seconds>(const PlanSpec&)>& step_of);

}  // namespace stepcast
