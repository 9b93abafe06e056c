#pragma once
// What-if on profiles: the profile of a training step that was not traced, from one that was.
//
// Daydream's primitives (Zhu, Phanishayee, Pekhimenko, ATC 2020) as functions from values to values: select passes and
// layers, scale their cost, insert a kernel or a layer, remove layers. Whatever is composed of them (whatif.hpp) says
// in `assumed` what was changed, so that no later report can pass a hypothetical step off as a measured one.
// Invariant: a valid profile stays valid. The fifth primitive, schedule, replaces the order in which ready work is
// picked; that is what strategies are. Not modelled: kernels that stop fitting into caches or memory.
#include <stepcast/profile/profile.hpp>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// The parts of a step that have a cost of their own.
enum class Pass : std::uint8_t { forward, backward, optimizer, other };

/// Where a cost stands in a profile: one pass of one layer, the optimizer or the rest of the step.
struct PassPlace {
  Pass pass = Pass::forward;
  std::uint32_t layer = 0;  ///< for `forward` and `backward`
  bool operator==(const PassPlace&) const = default;
};

// ---- select ----

/// True when `name` fits one of the patterns, which are separated by '|'; '*' stands for any text, '?' for one
/// character: "bn*|*.downsample.1". Upper and lower case are the same.
[[nodiscard]] bool fits(std::string_view name, std::string_view patterns);
/// The layers whose names fit, in forward order.
[[nodiscard]] std::vector<std::uint32_t> selected_layers(const Profile&, std::string_view patterns);
/// Forward and backward passes of these layers.
[[nodiscard]] std::vector<PassPlace> passes_of(std::span<const std::uint32_t> layers);
/// Forward and backward passes of all layers, the optimizer and the rest: everything but the wait for input.
[[nodiscard]] std::vector<PassPlace> all_passes(const Profile&);
[[nodiscard]] const PassCost& cost_at(const Profile&, const PassPlace&);

/// What the worker does before the forward pass to send buffers round; 0 where the trace shows no such broadcast.
[[nodiscard]] Seconds time_of_buffers(const Profile&);

// ---- scale ----

/// Factors on the parts of a cost: on the host's time, on kernels of the classes that are told apart, and on the rest;
/// all 1 is the identity.
struct Scale {
  double host = 1, rest = 1;
  ByKernelClass<double> part = ByKernelClass<double>::all(1);
  /// The same factor on all device work. What treats a class differently sets its `part`.
  static Scale device(double factor) { return {1, factor, ByKernelClass<double>::all(factor)}; }
  /// The same factor on all that computes: the device of this profile or, without one, the host.
  static Scale compute(const Profile& p, double factor) {
    return {p.has_device() ? 1 : factor, factor, ByKernelClass<double>::all(factor)};
  }
};
[[nodiscard]] PassCost scaled(const PassCost&, const Scale&);
[[nodiscard]] Profile with_scaled(Profile, std::span<const PassPlace>, const Scale&);
/// The same of all places, and of what the worker does for communication.
[[nodiscard]] Profile with_all_scaled(Profile, const Scale&);

// ---- insert ----

/// A kernel (and the host time of its launch) at the end of a pass.
[[nodiscard]] Profile with_kernel(Profile, const PassPlace&, const PassCost&);
/// `layer` before the layer that is at `position` now (their number: at the end), and after that one in the backward
/// pass. Requires a name that no other layer has.
[[nodiscard]] Profile with_layer(Profile, std::uint32_t position, Layer layer);

// ---- remove ----

/// Without these layers and their tensors. Requires that a layer is left.
[[nodiscard]] Profile without_layers(Profile, std::span<const std::uint32_t> layers);
/// Without work that has no parameters: the cost at these places becomes zero, layers and tensors stay.
[[nodiscard]] Profile without_cost(Profile, std::span<const PassPlace>);

/// `changed` with measured step times as far from those of `before` as its computed step is, which keeps their relative
/// spread.
[[nodiscard]] Profile with_step_times_scaled(Profile changed, const Profile& before);

/// The same step on a device that computes `factor` times as fast: device time is divided by it, host time stays (a
/// launch-bound layer does not get faster with a faster device). Without a device all time is compute time and is
/// divided. Measured step times are scaled like the computed step. Throws InputError unless `factor` is positive and
/// finite.
[[nodiscard]] Profile with_faster_compute(Profile profile, double factor);

}  // namespace stepcast
