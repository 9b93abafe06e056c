#pragma once
// Accumulated passes: a step of several micro-batches, whose gradients are complete in the last one (`no_sync`).
//
//   traced   | F1 F2 B2 B1 | F1 F2 B2 B1 | F1 F2 B2 B1 | U        three passes, so far as layers of their own
//   profile  | F1 F2 |  B2 B1 F1 F2 B2 B1 F1 F2  | B2 B1 | U      two layers, and one between that has no gradients
//
// A parameter is needed first by the forward pass of the first micro-batch, and its gradient is ready first in the
// backward pass of the last one: what lies between depends on no communication, and hides what is sent ahead of it.
// The batch is that of all passes; activations are alive of one pass at a time. Not modelled: passes that run other
// layers (two networks in turn), which stay as they are.
#include <stepcast/profile/profile.hpp>

#include <cstddef>

namespace stepcast {

/// The first layer of the last of so many passes, whose layers stand one pass after the other; 0: the passes are not
/// alike, or there is only one.
[[nodiscard]] std::size_t first_layer_of_last_pass(const Profile&, int passes);
/// The profile (whose layers keep their share of the activations of one pass) with the layers of one pass, and the rest
/// as a layer without gradients between forward and backward pass; passes that are not alike are left alone.
void fold_passes(Profile&, int passes);

}  // namespace stepcast
