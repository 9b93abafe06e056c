#pragma once
// What-if on profiles: the profile of a training step that was not traced, from one that was.
//
// Every function returns a changed profile and says in `assumed` what was changed, so that no later report can pass a
// hypothetical step off as a measured one. Not modelled: kernels that stop fitting into caches or memory.
#include <stepcast/profile.hpp>

namespace stepcast {

/// The same step on a device that computes `factor` times as fast: device time is divided by it, host time stays (a
/// launch-bound layer does not get faster with a faster device). Without a device all time is compute time and is
/// divided. Measured step times are scaled like the computed step, which keeps their relative spread. Throws
/// InputError unless `factor` is positive and finite.
[[nodiscard]] Profile with_faster_compute(Profile profile, double factor);

}  // namespace stepcast
