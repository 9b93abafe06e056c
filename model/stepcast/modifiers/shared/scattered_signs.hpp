#pragma once
// Scattered signs: the exchange of 1-bit Adam and its relatives: signs and a scale are scattered, every worker adds up
// its P-th of all and hands that on, as signs again.
//
// Example: 1-bit Adam sends d/8 bytes and a scale, twice; 0/1 Adam the same every k-th iteration. Not modelled: memory
// for the residuals of both stages.
#include <stepcast/modifiers/shared/compression.hpp>

namespace stepcast {

[[nodiscard]] Answer<CommPlan> signs_scattered(CommPlan, const ModifierInput&, double speed, bool overlapped);

}  // namespace stepcast
