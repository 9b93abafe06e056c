// The tables of the open families that a prediction is made of: what their .inc files list, in that order.
//
// Nothing else is in this file, so that a program can be linked with other tables instead: validation/mutation does,
// with broken records, to see whether validation notices.
#include <stepcast/cluster/collective.hpp>
#include <stepcast/plan/modifier.hpp>
#include <stepcast/plan/strategy.hpp>

namespace stepcast {

#define STEPCAST_MEMBER(name)              \
  namespace collective::name {             \
  extern const CollectiveAlgorithm record; \
  }
#include <stepcast/collectives/collectives.inc>
#undef STEPCAST_MEMBER

std::span<const CollectiveAlgorithm> collective_algorithms() {
  static const CollectiveAlgorithm all[] = {
#define STEPCAST_MEMBER(name) collective::name::record,
#include <stepcast/collectives/collectives.inc>
#undef STEPCAST_MEMBER
  };
  return all;
}

#define STEPCAST_MEMBER(name)   \
  namespace strategy::name {    \
  extern const Strategy record; \
  }
#include <stepcast/strategies/strategies.inc>
#undef STEPCAST_MEMBER

std::span<const Strategy> strategies() {
  static const Strategy all[] = {
#define STEPCAST_MEMBER(name) strategy::name::record,
#include <stepcast/strategies/strategies.inc>
#undef STEPCAST_MEMBER
  };
  return all;
}

#define STEPCAST_MEMBER(name)   \
  namespace modifier::name {    \
  extern const Modifier record; \
  }
#include <stepcast/modifiers/modifiers.inc>
#undef STEPCAST_MEMBER

std::span<const Modifier> modifiers() {
  static const Modifier all[] = {
#define STEPCAST_MEMBER(name) modifier::name::record,
#include <stepcast/modifiers/modifiers.inc>
#undef STEPCAST_MEMBER
  };
  return all;
}

}  // namespace stepcast
