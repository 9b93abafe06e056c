// The tables of the open families that a prediction is made of: what their .inc files list, in that order.
//
// Nothing else is in this file, so that a program can be linked with other tables instead: validation/mutation does,
// with broken records, to see whether validation notices.
#include <stepcast/cluster/collective.hpp>
#include <stepcast/plan/modifier.hpp>
#include <stepcast/plan/strategy.hpp>

namespace stepcast {

#define STEPCAST_MEMBER(member) extern const CollectiveAlgorithm collective_##member;
#include <stepcast/collectives/collectives.inc>
#undef STEPCAST_MEMBER

std::span<const CollectiveAlgorithm> collective_algorithms() {
  static const CollectiveAlgorithm all[] = {
#define STEPCAST_MEMBER(member) collective_##member,
#include <stepcast/collectives/collectives.inc>
#undef STEPCAST_MEMBER
  };
  return all;
}

#define STEPCAST_MEMBER(name) extern const Strategy name##_strategy;
#include <stepcast/strategies/strategies.inc>
#undef STEPCAST_MEMBER

std::span<const Strategy> strategies() {
  static const Strategy all[] = {
#define STEPCAST_MEMBER(name) name##_strategy,
#include <stepcast/strategies/strategies.inc>
#undef STEPCAST_MEMBER
  };
  return all;
}

#define STEPCAST_MEMBER(name) extern const Modifier name##_modifier;
#include <stepcast/modifiers/modifiers.inc>
#undef STEPCAST_MEMBER

std::span<const Modifier> modifiers() {
  static const Modifier all[] = {
#define STEPCAST_MEMBER(name) name##_modifier,
#include <stepcast/modifiers/modifiers.inc>
#undef STEPCAST_MEMBER
  };
  return all;
}

}  // namespace stepcast
