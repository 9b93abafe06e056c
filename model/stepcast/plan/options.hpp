#pragma once
// Options: the named, typed and bounded values that a strategy or a modifier takes, and how far its result may differ
// from exact synchronous training.
//
// Invariant: a value lies within low..high of its spec, in SI units; a choice is an index into `choices`. Not modelled:
// options that exclude one another; whoever takes them says so with an Inapplicable.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace [[gnu::visibility("default")]] stepcast {

/// What a plan does to the mathematics of training, in the order in which it departs from synchronous SGD.
enum class Fidelity : std::uint8_t { exact, lossy, stale, periodic };
[[nodiscard]] std::string_view name_of(Fidelity);

enum class OptionKind : std::uint8_t { size, duration, count, number, choice };

/// An option of a strategy: `bucket`, `partition`, `credit`, ...
struct OptionSpec {
  std::string_view name;
  OptionKind kind = OptionKind::size;
  double standard = 0;       ///< default, SI
  double low = 0, high = 0;  ///< accepted range, inclusive
  std::string_view summary;
  bool tuned = false;                         ///< searched by recommend and by `option=auto`
  std::array<std::string_view, 3> choices{};  ///< for OptionKind::choice: names of the values 0, 1, 2
  double tune_low = 0, tune_high = 0;         ///< range searched when `tuned`; both 0: low..high
};

inline constexpr std::size_t most_options = 6;
/// Values of a strategy's options in the order of its specs; SI numbers. NaN = `auto`: to be tuned before planning.
using OptionValues = std::array<double, most_options>;
[[nodiscard]] OptionValues standard_options(std::span<const OptionSpec> specs);

}  // namespace stepcast
