#pragma once
// Host collectives: those that ran on threads of the communication library (gloo): who issued them, and who waited for
// them (internal to the replay).
#include <stepcast/replay/step_builder.hpp>

#include <cstdint>

namespace stepcast::replaying {

/// Collectives that ran on threads of the communication library. `end` is the point at which the main thread ends the
/// step.
void add_host_collectives(StepBuilder&, std::uint32_t end);

}  // namespace stepcast::replaying
