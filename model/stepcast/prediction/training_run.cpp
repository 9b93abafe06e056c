// The ends of all warm-ups cut the run into stages; in each of them the parts that are not over yet stand aside.
#include <stepcast/prediction/training_run.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace stepcast {
namespace {

double value_named(std::string_view name, std::span<const OptionSpec> specs, const OptionValues& values) {
  return values[position_of(name, specs)];
}

/// Where the warm-up of a strategy or a modifier changes what it does.
void add_ends(std::set<double>& ends, const WarmUp& warm_up, std::span<const OptionSpec> specs,
              const OptionValues& values) {
  if (warm_up.option.empty()) return;
  const double all = value_named(warm_up.option, specs, values);
  for (std::uint32_t k = 1; k <= warm_up.stages; ++k) ends.insert(std::round(all * k / warm_up.stages));
}

/// True where the warm-up holds at `iteration`; `stage` receives its part.
bool warms_up(const WarmUp& warm_up, std::span<const OptionSpec> specs, const OptionValues& values, double iteration,
              double& stage) {
  if (warm_up.option.empty()) return false;
  const double all = value_named(warm_up.option, specs, values);
  if (!(iteration < all)) return false;
  stage = 0;
  while (iteration >= std::round(all * (stage + 1) / warm_up.stages)) ++stage;
  return true;
}

/// The other strategy, with the options of the same name.
void become(PlanSpec& plan, std::string_view name) {
  const Strategy* other = strategy_named(name);
  OptionValues values = standard_options(*other);
  for (std::size_t i = 0; i < other->options.size(); ++i) {
    const std::size_t here = position_of(other->options[i].name, plan.strategy->options);
    if (here < plan.strategy->options.size()) values[i] = plan.options[here];
  }
  plan.strategy = other;
  plan.options = values;
}

PlanSpec plan_at(PlanSpec plan, double iteration) {
  double stage = 0;
  std::vector<ModifierSpec> modifiers;
  for (ModifierSpec m : plan.modifiers) {
    const WarmUp& warm_up = m.modifier->warm_up;
    if (warms_up(warm_up, m.modifier->options, m.options, iteration, stage)) {
      if (warm_up.stage.empty()) continue;
      m.options[position_of(warm_up.stage, m.modifier->options)] = stage;
    }
    modifiers.push_back(m);
  }
  plan.modifiers = std::move(modifiers);
  const WarmUp& warm_up = plan.strategy->warm_up;
  if (warms_up(warm_up, plan.strategy->options, plan.options, iteration, stage)) become(plan, warm_up.plan);
  return plan;
}

}  // namespace

std::vector<TrainingStage> training_stages(const PlanSpec& plan, double iterations) {
  std::set<double> ends;
  add_ends(ends, plan.strategy->warm_up, plan.strategy->options, plan.options);
  for (const ModifierSpec& m : plan.modifiers) add_ends(ends, m.modifier->warm_up, m.modifier->options, m.options);
  std::vector<TrainingStage> stages;
  double from = 0;
  for (const double end : ends) {
    const double until = std::min(end, iterations);
    if (until > from) stages.push_back({until - from, plan_at(plan, from)}), from = until;
  }
  stages.push_back({iterations - from, plan});
  return stages;
}

void add_run(Prediction& prediction, double iterations,
             const std::function<Answer<Seconds>(const PlanSpec&)>& step_of) {
  TrainingRun run;
  run.iterations = iterations;
  const std::vector<TrainingStage> stages = training_stages(prediction.plan, iterations);
  for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
    const Answer<Seconds> step = step_of(stages[i].plan);
    if (!step)
      prediction.warnings.push_back("the warm-up by " + text_of(stages[i].plan) + " cannot run here (" + step.reason() +
                                    "): counted as steps of the plan");
    run.warm_up_iterations += stages[i].iterations;
    run.warm_up += stages[i].iterations * (step ? *step : prediction.iteration);
  }
  run.duration = run.warm_up + stages.back().iterations * prediction.iteration;
  prediction.run = run;
}

}  // namespace stepcast
