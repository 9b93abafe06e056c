#pragma once
// Profile closing: the last steps on the way from a trace to a profile, after which its parts sum to the measured step.
//
// What the parts of a single-worker trace miss of the measured step is idle time and becomes `other`; what they exceed
// it by is scaled away. The measure is the steady state: a host that never waits runs ahead, so the slower of the two
// streams sets the pace. Of a distributed run only the upper bound is known. Everything done is said in `assumed`.
#include <stepcast/anatomy/step_anatomy.hpp>
#include <stepcast/profile/profile.hpp>

#include <string_view>

namespace stepcast {

/// A compiled model is one operator that issues hundreds of kernels: the device starts with the first, not after the
/// last. Slices of equal cost say so; the gradients come with the slice that the backward pass reaches last. The layers
/// of the profile must be those of `step`.
void slice_fused_layers(Profile&, const StepAnatomy& step);
/// Makes the parts sum to the measured step, if there is one. Parts that have to be scaled by more than a tenth are a
/// caution; by more than three tenths they tell nothing: throws InputError (where: `source`). `for_sharding`: what FSDP
/// does on the device, where no part holds it.
void sum_to_measured_step(Profile&, bool distributed, Seconds for_sharding, std::string_view source);
/// To whole nanoseconds, the resolution of a trace: profiles are read and edited by people.
void round_times(Profile&);

}  // namespace stepcast
