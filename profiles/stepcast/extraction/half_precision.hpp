#pragma once
// Half precision: how much of a trace's kernel time is computed in 16 bits or fewer, by the kernels' names.
//
//   nvjet_tst_192x192_64x3_2x1_v_bz_coopB_NNN    bf16, since its operands are ("t"; "h" half, "q" 8 bits, "s" single)
//   ampere_bf16_s16816gemm_bf16_128x128_ldg8     bf16
//   ampere_sgemm_128x64_nn                       single
//
// Compiled models leave no operator with shapes and types, but their products' kernels name the type. Collectives are
// left out. Not modelled: generated kernels ("triton_poi_fused_..."), whose names tell no type: the share is a lower
// limit.
#include <stepcast/trace/trace.hpp>

#include <string_view>

namespace stepcast {

[[nodiscard]] bool names_half_precision(std::string_view kernel);
/// Share of the time of all kernels but collectives, 0 to 1; 0 of a trace without kernels.
[[nodiscard]] double half_precision_share(const Trace&);

}  // namespace stepcast
