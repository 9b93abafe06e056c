#pragma once
// Periodic plans: a plan for every iteration turned into one that communicates every k-th iteration only.
//
// The repetition spells out all k iterations. Messages of the given plan stay in the last one, and what they lead to
// (an all-gather in the next forward pass) goes to the iteration after it, which is the first of the next repetition.
// Invariant: k = 1 gives the same plan. Not modelled: what staler weights do to convergence.
#include <stepcast/base/error.hpp>
#include <stepcast/plan/comm_plan.hpp>

#include <cstdint>

namespace stepcast {

/// `one_update`: the other iterations only accumulate gradients. Inapplicable for a plan that is periodic already.
[[nodiscard]] Answer<CommPlan> communicating_every(std::uint32_t k, CommPlan plan, bool one_update);

}  // namespace stepcast
