// Names and defaults of options.
#include <stepcast/plan/options.hpp>

namespace stepcast {

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

OptionValues standard_options(std::span<const OptionSpec> specs) {
  OptionValues values{};
  for (std::size_t i = 0; i < specs.size(); ++i) values[i] = specs[i].standard;
  return values;
}

}  // namespace stepcast
