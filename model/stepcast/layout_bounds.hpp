#pragma once
// Layout bounds: what no layout of a branch of the search can go below, in time and in memory.
//
// Invariant (tested on random layouts): a bound is never above the prediction of any layout that it covers. Not
// modelled: what would make the bounds tight where stages are uneven in ways that only the schedule shows.
#include <stepcast/layout_families.hpp>
#include <stepcast/layout_prediction.hpp>

namespace stepcast {

struct LayoutBound {
  Seconds iteration;
  Bytes memory;
};

class LayoutBounds {
 public:
  /// Uses the evaluator's tables; the references have to outlive this.
  LayoutBounds(const LayoutFamilies&, LayoutEvaluator&);
  /// Of all members. Inapplicable when no unit can be divided so.
  [[nodiscard]] Answer<LayoutBound> of(const LayoutFamily&);
  /// Of one member.
  [[nodiscard]] Answer<LayoutBound> of(const LayoutFamily&, const LayoutSwitches&);

 private:
  const LayoutFamilies& families_;
  LayoutEvaluator& evaluator_;
  std::vector<LayoutPlan> plans_;  ///< one a gradient strategy, for reuse
};

}  // namespace stepcast
