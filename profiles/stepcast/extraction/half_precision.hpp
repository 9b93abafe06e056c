#pragma once
// Half precision: how much of a trace's kernel time is computed in 16 bits or fewer, and how much of that of products
// in TF32, by the kernels' names.
//
//   nvjet_tst_192x192_64x3_2x1_v_bz_coopB_NNN    bf16, since its operands are ("t"; "h" half, "q" 8 bits, "s" single)
//   ampere_bf16_s16816gemm_bf16_128x128_ldg8     bf16
//   ampere_sgemm_128x64_nn                       single
//   sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n       TF32
//   cutlass_80_tensorop_s1688gemm_128x256_nt     TF32: of tensor cores' products of 16 x 8 x 8 elements (PTX ISA,
//                                                mma.m16n8k8) the operands are half precision, which is named, or TF32
//
// Compiled models leave no operator with shapes and types, but their products' kernels name the type. Collectives are
// left out. Not modelled: generated kernels ("triton_poi_fused_..."), whose names tell no type: the share is a lower
// limit.
#include <stepcast/trace/trace_index.hpp>

#include <string_view>

namespace stepcast {

[[nodiscard]] bool names_half_precision(std::string_view kernel);
/// Share of the time of all kernels but collectives, 0 to 1; 0 of a trace without kernels.
[[nodiscard]] double half_precision_share(const Trace&);
[[nodiscard]] bool names_tf32(std::string_view kernel);
/// Share of the time of all kernels of matrix products and convolutions, 0 to 1; 0 of a trace without them.
[[nodiscard]] double tf32_share(const TraceIndex&);

}  // namespace stepcast
