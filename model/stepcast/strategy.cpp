// The table of strategies.
#include <stepcast/strategy.hpp>

namespace stepcast {

#define STEPCAST_MEMBER(name) extern const Strategy name##_strategy;
#include <stepcast/strategies/strategies.inc>
#undef STEPCAST_MEMBER

std::string_view name_of(Fidelity fidelity) {
  switch (fidelity) {
    case Fidelity::exact:
      return "exact";
    case Fidelity::lossy:
      return "lossy";
    case Fidelity::stale:
      return "stale";
    case Fidelity::periodic:
      return "periodic";
  }
  return "unknown";
}

std::span<const Strategy> strategies() {
  static const Strategy all[] = {
#define STEPCAST_MEMBER(name) name##_strategy,
#include <stepcast/strategies/strategies.inc>
#undef STEPCAST_MEMBER
  };
  return all;
}

const Strategy* strategy_named(std::string_view name) {
  for (const Strategy& s : strategies())
    if (s.name == name) return &s;
  return nullptr;
}

OptionValues standard_options(const Strategy& strategy) {
  OptionValues values{};
  for (std::size_t i = 0; i < strategy.options.size(); ++i) values[i] = strategy.options[i].standard;
  return values;
}

}  // namespace stepcast
