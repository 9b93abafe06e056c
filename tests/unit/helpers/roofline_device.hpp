#pragma once
// A device of round numbers for tests of described models.
#include <stepcast/roofline/device.hpp>

namespace stepcast::test {

inline Device roofline_device() {
  Device d;
  d.name = "roofline";
  d.memory_bandwidth = BytesPerSecond(1.5e12);
  d.matrix_rate[std::size_t(DataType::f32)] = 19.5e12;
  d.matrix_rate[std::size_t(DataType::tf32)] = 156e12;
  d.matrix_rate[std::size_t(DataType::f16)] = d.matrix_rate[std::size_t(DataType::bf16)] = 312e12;
  d.matrix_efficiency = 0.8;
  d.half_m = d.half_n = d.half_k = 64;
  d.kernel_floor = microseconds(4);
  d.issue = microseconds(6);
  d.provenance = {"round numbers"};
  return checked(d, "roofline");
}

}  // namespace stepcast::test
