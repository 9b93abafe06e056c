#pragma once
// Fused update: how much of the time of an update's kernels goes into those that meet each parameter once, by the
// kernels' names.
//
//   multi_tensor_apply_kernel<..., FusedAdamMathFunctor<...>>    fused
//   multi_tensor_apply_kernel<..., AdamFunctor<...>>             fused: Apex
//   triton_for_fused_0                                           fused: a compiled optimizer
//   multi_tensor_apply_kernel<..., BinaryOpScalarFunctor<...>>   one operation of many
//
// Not modelled: updates that are not annotated, of which nobody knows the kernels: their share is 0.
#include <stepcast/trace/trace_index.hpp>

#include <string_view>

namespace stepcast {

[[nodiscard]] bool names_fused_update(std::string_view kernel);
/// Share of the time of all kernels that annotated updates launched, 0 to 1; 0 of a trace without them.
[[nodiscard]] double fused_update_share(const TraceIndex&);

}  // namespace stepcast
