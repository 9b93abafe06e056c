#pragma once
// Options: the named, typed and bounded values that a strategy, a modifier or a what-if takes.
//
// Invariant: a value lies within low..high of its spec, in SI units; a choice is an index into `choices`. A member of a
// family reads its values by name, and the compiler turns the name into a position:
//
//   constexpr OptionSpec options[] = {{.name = "bucket", .kind = OptionKind::size, ...}, {.name = "first", ...}};
//   consteval std::size_t named(std::string_view name) { return option(options, name); }
//   ...
//   const Bytes bucket(in.options[named("bucket")]);
//
// Not modelled: options that exclude one another; whoever takes them says so with an Inapplicable.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace [[gnu::visibility("default")]] stepcast {

/// What a value is. Layers are patterns of names, kept beside the numbers: of a record's options one at most is such.
enum class OptionKind : std::uint8_t { size, duration, count, number, choice, rate, layers };

/// An option: `bucket`, `partition`, `credit`, ...
struct OptionSpec {
  std::string_view name;
  OptionKind kind = OptionKind::number;
  double standard = 0;       ///< default, SI
  double low = 0, high = 0;  ///< accepted range, inclusive
  std::string_view summary;
  bool tuned = false;                         ///< searched by recommend and by `option=auto`
  std::array<std::string_view, 4> choices{};  ///< for OptionKind::choice: names of the values 0, 1, 2, 3
  double tune_low = 0, tune_high = 0;         ///< range searched when `tuned`; both 0: low..high
  std::string_view patterns{};                ///< for OptionKind::layers: the default
  bool required = false;                      ///< there is no sensible default
};

inline constexpr std::size_t most_options = 12;
/// Values in the order of their specs; SI numbers. NaN = `auto`: to be tuned before planning.
using OptionValues = std::array<double, most_options>;
[[nodiscard]] OptionValues standard_options(std::span<const OptionSpec> specs);
/// The default of the option that names layers.
[[nodiscard]] std::string_view standard_layers(std::span<const OptionSpec> specs);

/// The position of the option of that name; `specs.size()` where there is none.
[[nodiscard]] constexpr std::size_t position_of(std::string_view name, std::span<const OptionSpec> specs) {
  std::size_t i = 0;
  while (i < specs.size() && specs[i].name != name) ++i;
  return i;
}
/// The same, found by the compiler, which refuses a name that is not there, and more options than there is room for.
[[nodiscard]] consteval std::size_t option(std::span<const OptionSpec> specs, std::string_view name) {
  if (specs.size() > most_options) throw "there is no room for so many options";
  const std::size_t i = position_of(name, specs);
  return i < specs.size() ? i : throw "no option has this name";
}

}  // namespace stepcast
