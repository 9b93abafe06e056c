// Storage of a plan for the next one.
#include <stepcast/plan/comm_plan.hpp>

#include <utility>

namespace stepcast {

CommPlan emptied(CommPlan used) {
  CommPlan plan;
  const auto hand_on = [](auto& from, auto& to) { from.clear(), to = std::move(from); };
  hand_on(used.channels, plan.channels);
  hand_on(used.transfers, plan.transfers);
  hand_on(used.edges, plan.edges);
  hand_on(used.codecs, plan.codecs);
  hand_on(used.order, plan.order);
  return plan;
}

}  // namespace stepcast
