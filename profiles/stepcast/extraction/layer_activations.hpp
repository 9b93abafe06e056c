#pragma once
// Layer activations: what the layers of a traced step take in, and what they leave for the backward pass.
//
// Inputs come from the recorded arguments of the operator that owns a layer's parameters. What is kept comes from the
// allocator's events (the balance of each layer's part of the forward pass; what it frees of the layer before is taken
// from that one), else from the operators that have a backward node: what the rules of autograd save of their recorded
// arguments, parameters left out. Not modelled: tensors that several operators save are told apart only where one is
// known to hand its result to the next (activation functions in place, say).
#include <stepcast/anatomy/step_anatomy.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/trace/tensor_shapes.hpp>

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace stepcast {

enum class KeptSource : std::uint8_t { unknown, allocations, shapes };

struct LayerActivations {
  struct Input {
    TensorShape shape;  ///< empty: not recorded
    DataType dtype = DataType::f32;
  };
  std::vector<Input> inputs;  ///< one for each layer
  std::vector<Bytes> kept;    ///< one for each layer; all 0 when unknown
  KeptSource source = KeptSource::unknown;
};

[[nodiscard]] LayerActivations layer_activations(const TraceIndex&, const StepAnatomy&);
/// Which argument of an operator with parameters is the activations that it works on.
[[nodiscard]] std::optional<std::size_t> activation_argument(std::string_view operator_name);

}  // namespace stepcast
