#pragma once
// Fidelity: how far what a strategy or a modifier computes may differ from exact synchronous training. Not modelled: by
// how much, and what that does to convergence.
#include <cstdint>
#include <string_view>

namespace [[gnu::visibility("default")]] stepcast {

/// What a plan does to the mathematics of training, in the order in which it departs from synchronous SGD.
enum class Fidelity : std::uint8_t { exact, lossy, stale, periodic };
[[nodiscard]] std::string_view name_of(Fidelity);

}  // namespace stepcast
