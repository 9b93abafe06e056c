#include <stepcast/layout_bounds.hpp>

namespace stepcast {

LayoutBounds::LayoutBounds(const LayoutFamilies& families, LayoutEvaluator& evaluator)
    : families_(families), evaluator_(evaluator) {
  for (const PlanSpec& g : families.gradients()) plans_.push_back({{}, g});
}

Answer<LayoutBound> LayoutBounds::of(const LayoutFamily&) { return LayoutBound{}; }

Answer<LayoutBound> LayoutBounds::of(const LayoutFamily& family, const LayoutSwitches& switches) {
  LayoutPlan& plan = plans_[switches.gradients];
  plan.layout = layout_of(family, switches);
  return LayoutBound{evaluator_.lower_bound(plan), evaluator_.least_memory(plan)};
}

}  // namespace stepcast
