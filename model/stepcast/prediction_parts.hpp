#pragma once
// Prediction parts: what predictions with and without stragglers share.
//
// Without stragglers all workers are alike, and one of them is predicted (prediction.cpp). With them the slowest one
// is, after its compute times have been found (prediction_of_slowest.cpp).
#include <stepcast/prediction.hpp>

namespace stepcast {

/// One worker among others of its kind, on the links of `cluster`'s slowest worker.
[[nodiscard]] Answer<Prediction> predicted_alike(const Profile&, const Cluster&, const PlanSpec&);
/// `asked`, or if it leaves options open (`auto`), the best values for them.
[[nodiscard]] PlanSpec with_automatic_options_tuned(const Profile&, const Cluster&, const PlanSpec& asked);

}  // namespace stepcast
