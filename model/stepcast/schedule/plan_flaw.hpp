#pragma once
// Plan flaw: whether a plan keeps the invariants that comm_plan.hpp states, and the first one that it breaks.
//
// Example: a plan whose gradient of layer 3 is carried by no transfer gives "gradient 'conv3.weight' is sent 0.000000
// times". It stands with the scheduler and not with the plan because a cycle is looked for in the lowered task graph.
#include <stepcast/plan/comm_plan.hpp>

#include <string>

namespace [[gnu::visibility("default")]] stepcast {

/// What is wrong with the plan for this profile, in words; empty if nothing is.
[[nodiscard]] std::string flaw_of(const CommPlan&, const Profile&);

}  // namespace stepcast
