#pragma once
// Device calls: what the runtime calls of a replayed step do: launch work, copy memory, wait for the device (internal
// to the replay).
#include <stepcast/replay/step_builder.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace stepcast::replaying {

/// When a launch reaches its stream: this long after a point of the thread that called.
struct Release {
  std::uint32_t point = no_index;
  std::int64_t latency_ns = 0;
};
/// What the runtime calls of all threads do: launch, copy, synchronise. Adds their points and waits; returns the
/// release of each launch by runtime call (sorted). `device_tasks` are the graph's tasks of the device side.
[[nodiscard]] std::vector<std::pair<std::uint32_t, Release>> add_device_calls(
    StepBuilder&, const DeviceSide&, const std::vector<std::uint32_t>& device_tasks);

}  // namespace stepcast::replaying
