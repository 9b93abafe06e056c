#pragma once
// Shipped models: parameter names and shapes of well-known networks, for traces that were recorded without shapes.
//
// They are `profiles/models/*.json`, compiled into the program. Invariant: parameters are in forward order. Not
// modelled: what a network costs; `model_shape.hpp` describes models by the shapes of their operations.
#include <stepcast/profile/profile.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// Model descriptions that the program carries (profiles/models/*.json): name -> parameters in forward order.
struct ModelDescription {
  std::string name;
  std::string provenance;
  std::vector<Tensor> parameters;  ///< in forward order; `layer` counts modules from the input
};
[[nodiscard]] const std::vector<ModelDescription>& shipped_models();
[[nodiscard]] const ModelDescription* shipped_model(std::string_view name);

}  // namespace stepcast
