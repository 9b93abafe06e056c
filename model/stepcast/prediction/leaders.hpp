#pragma once
// Leaders: workers that are ready early and help those that are late or slow (SA-ATP; internal to the library).
//
//   leader      | F B | own gradients | x s/l of the stragglers' |             l leaders, s stragglers,
//   straggler   | late | F   B   | (1 - x) of its own |                        x <= Aggregation::absorbed_share
//                                                     ^ the sum is complete when both are through
//
// Li et al., IEEE/ACM ToN 32(6), 2024: T = max(V/B, delay + (1-x) V / (share B)), here with what leaders carry charged
// to their links: the step is the larger one of the straggler's own chain, which sends (1 - x) of its gradients, and of
// a leader's, which sends 1 + x s/l of its own. x is the largest that is allowed and leaves the leaders no later than
// the one that they help. Bounds: never better than without stragglers, never worse than without help (x = 0: ATP);
// no leaders, no help. Exact for plans that end each step at a barrier; of others a lower bound. Not modelled: what the
// leaders compute; jitter, of which nobody knows beforehand who leads.
#include <stepcast/prediction/alike.hpp>
#include <stepcast/prediction/hot_loop.hpp>

#include <memory>
#include <optional>

namespace stepcast {

/// The cluster on which the slowest worker is predicted, with the share of its traffic that it still sends, where the
/// plan's collective lets leaders help it and that is of use; else nothing. `healthy` and `slowest`: the worker without
/// and with its faults; `given`: a plan that the spec only names.
[[nodiscard]] std::optional<Cluster> with_help_of_leaders(const std::shared_ptr<const PreparedProfile>& healthy,
                                                          const std::shared_ptr<const PreparedProfile>& slowest,
                                                          const Cluster&, const PlanSpec&,
                                                          const CommPlan* given = nullptr);

}  // namespace stepcast
