// Names and defaults of options.
#include <stepcast/plan/fidelity.hpp>

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

}  // namespace stepcast
