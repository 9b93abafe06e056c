#pragma once
// Prediction of workers that are all alike: one of them stands for all (internal to the library).
//
// With stragglers the slowest worker is predicted in the same way, after its compute times have been found
// (prediction.hpp). Not modelled: what the other workers do meanwhile.
#include <stepcast/prediction/prediction.hpp>

namespace stepcast {

/// A plan that is asked for by its spec, or one that was given and that the spec only names.
struct AskedPlan {
  PlanSpec spec;
  const CommPlan* given = nullptr;
};
/// A spec that only names a plan: its strategy has that name and cannot plan anything itself.
[[nodiscard]] PlanSpec spec_named(std::string_view name, std::string_view collective);
/// One worker among others of its kind, on the links of `cluster`'s slowest worker. `steps`: equally likely ones in
/// increasing order, where they differ by more than the measured spread.
[[nodiscard]] Answer<Prediction> predicted_alike(const Profile&, const Cluster&, const AskedPlan&,
                                                 std::span<const Seconds> steps = {});
/// What a worker keeps in memory under a plan that only divides the batch, and a warning where its device has less.
void add_memory(const Profile&, const Cluster&, Prediction&);
/// What a worker does itself.
struct WorkInARow {
  Seconds compute;  ///< compute_in_a_row
  Seconds message;  ///< CommunicationWork::message
};
/// Why the plan cannot be run on a collective, or not be counted; empty if it can.
[[nodiscard]] std::string obstacle_to(const CommPlan&, const WorkInARow&, const Cluster&, const CommunicationCost&);
/// Of a free-running timer, the k-th of those over which predictions are averaged.
[[nodiscard]] constexpr double phase_of(std::uint32_t k, std::uint32_t phases) { return (k + 0.5) / phases; }
/// One phase of the plan, lowered and scheduled. `merge`: layers in a row are one task (lower.hpp).
[[nodiscard]] Answer<DetailedTimeline> scheduled_alike(const Profile&, const Cluster&, const CommunicationCost&,
                                                       const AskedPlan&, double phase, bool merge,
                                                       const ScheduleOptions&);
/// `asked`, or if it leaves options open (`auto`), the best values for them.
[[nodiscard]] PlanSpec with_automatic_options_tuned(const Profile&, const Cluster&, const PlanSpec& asked);

}  // namespace stepcast
