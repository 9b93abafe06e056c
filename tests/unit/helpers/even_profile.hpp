#pragma once
// A job of four equal layers on a device, as tests that count by hand want it.
#include <stepcast/profile/profile.hpp>

#include <string>

namespace stepcast::test {

/// Eight samples; every layer takes `pass` each way and has one square tensor of so many rows in f32.
inline Profile even_profile(const PassCost& pass, std::int64_t rows) {
  Profile p;
  p.model = "traced";
  p.device = "device";
  p.batch_samples = 8;
  for (std::uint32_t l = 0; l < 4; ++l) {
    Layer layer{"layer" + std::to_string(l), {}, {}};
    layer.forward = layer.backward = pass;
    p.layers.push_back(layer);
    p.backward_order.push_back(3 - l);
    p.tensors.push_back(
        {"t" + std::to_string(3 - l), {rows, rows}, DataType::f32, Bytes(4.0 * double(rows * rows)), 3 - l});
  }
  return p;
}

}  // namespace stepcast::test
