#pragma once
// Gradient tensors: names and sizes of the parameters whose gradients a step produced.
//
// Sources, best first: the dimensions of the AccumulateGrad nodes; the parameter arguments of the operators that own
// them; the description that the caller gives; a shipped model whose sequence of modules is that of the trace (and
// whose size the observed all-reduces do not contradict); the bytes of each reduction, shared out evenly among the
// gradients that became ready before it; the number of parameters that the caller gives, shared out likewise; the sizes
// of the reductions themselves, one tensor each. If none applies the sizes are unknown, which is an error: a forecast
// without gradient sizes would be a guess.
#include <stepcast/anatomy/step_anatomy.hpp>
#include <stepcast/anatomy/traced_collectives.hpp>
#include <stepcast/extraction/profile_of.hpp>

#include <span>
#include <string>
#include <vector>

namespace stepcast {

struct GradientTensors {
  std::vector<Tensor> tensors;           ///< in gradient-ready order, as in `StepAnatomy::gradients`
  std::vector<std::string> layer_names;  ///< one for each layer, all different
  std::string model;                     ///< the shipped model that was recognised, else empty
  std::vector<std::string> recognised, missing, assumed;
};

/// Throws InputError when the sizes cannot be told, or when the caller's description does not fit the trace.
[[nodiscard]] GradientTensors gradient_tensors(const TraceIndex&, const StepAnatomy&, const ProfileOptions&,
                                               std::span<const TracedCollective> collectives);

}  // namespace stepcast
