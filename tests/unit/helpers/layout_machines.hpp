#pragma once
// Machines and a device of round numbers for tests of layouts.
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/roofline/device.hpp>

#include <cstddef>
#include <cstdint>

namespace stepcast::test {

inline Device layout_device(DataType type) {
  Device d;
  d.name = "test device";
  d.memory = Bytes(80e9);
  d.memory_bandwidth = BytesPerSecond(1.6e12);
  d.matrix_rate[static_cast<std::size_t>(type)] = 3.12e14;
  d.matrix_efficiency = 0.7;
  d.kernel_floor = microseconds(3);
  d.issue = microseconds(4);
  return d;
}

/// The same without what kernels take beside their work.
inline Device device_of_work_alone(DataType type) {
  Device d = layout_device(type);
  d.kernel_floor = d.issue = Seconds(0);
  return d;
}

inline Cluster layout_machines(std::int64_t nodes, std::int64_t per_node, std::int64_t cards) {
  Cluster c;
  c.name = "test";
  c.nodes = nodes;
  c.devices_per_node = per_node;
  c.nics_per_node = cards;
  c.inside = {microseconds(3), BytesPerSecond(2.4e11)};
  c.network = {microseconds(8), BytesPerSecond(2.2e10)};
  return c;
}

}  // namespace stepcast::test
