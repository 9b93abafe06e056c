#pragma once
// OperatorList: what one training step of a model computes, as the operators that its framework would run, with their
// shapes.
//
// A framework that is asked to run a step on tensors without values says which operators it would launch, in which
// module, in which order, and when each gradient is there (stepcast.torch in Python does so). That is all of a profile
// but the times, which a device's roofline gives: matrix products by their shapes, fused attention by its own rate, all
// other operators by the bytes that they read and write. So one list serves every device.
//   {"name": "aten.addmm", "dtype": "bf16", "products": [[1, 4096, 4096, 1024, 0]]}          batch, m, n, k, repeated
//   {"name": "aten.gelu", "traffic_bytes": 33554432}
//
// Invariants (checked): those of Profile; numbers finite and >= 0; an operator has products or traffic. Products of f32
// that may be computed as tf32 are marked tf32, and take f32 where the device has no such rate. Not modelled: kernels
// that are fused (a compiled model) or run beside one another; what one operator leaves in a cache for the next;
// operators of the host alone (views, Python) beyond the device's issue time per kernel.
#include <stepcast/profile/profile.hpp>
#include <stepcast/roofline/device.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct ListedOperator {
  /// Inside the one kernel of fused attention, and in which pass.
  enum class Attention : std::uint8_t { none, forward, backward };

  std::string name;  ///< "aten.addmm"
  DataType dtype = DataType::f32;
  std::vector<MatrixProduct> products;  ///< empty: bound by the memory
  Bytes traffic;                        ///< without products: what it reads and writes
  double kernels = 1;                   ///< 0: part of the operator before it
  Attention attention = Attention::none;
  double split = 1;  ///< its sums may be shared out over so many samples (a convolution's weight gradient)
};

struct ListedLayer {
  std::string name;
  std::vector<std::int64_t> input_shape;
  DataType input_dtype = DataType::f32;
  Bytes kept;  ///< activations that its forward pass leaves for the backward pass
  std::vector<ListedOperator> forward, backward;
};

struct OperatorList {
  std::string model;
  double batch_samples = 0;
  std::vector<ListedLayer> layers;  ///< in forward order
  std::vector<std::uint32_t> backward_order;
  std::vector<Tensor> tensors;  ///< in gradient-ready order
  std::vector<ListedOperator> update;
  double bytes_of_state = 0;  ///< per parameter: weight, gradient and what the optimizer keeps
  Bytes transient;            ///< the most that a pass takes beyond what is kept; 0: not known
  std::vector<std::string> recognised, assumed;
};

/// JSON with schema "stepcast.operators/1"; sizes in bytes. Throws InputError with the JSON pointer.
[[nodiscard]] OperatorList operator_list_of_json(std::string_view text, std::string_view source);
/// The profile that the device's roofline gives; `assumed` says that nothing was measured. Throws InputError where the
/// device has no rate for a product's data type.
[[nodiscard]] Profile listed_profile(const OperatorList&, const Device&);

}  // namespace stepcast
