// Half precision by the names of kernels as libraries write them.
#include <stepcast/extraction/half_precision.hpp>

#include <doctest/doctest.h>

namespace stepcast {

namespace {

void add_event(Trace& trace, EventKind kind, std::int64_t duration, const char* name) {
  Event e;
  e.kind = kind;
  e.duration_ns = duration;
  trace.strings.emplace_back(name);
  e.name = static_cast<StringId>(trace.strings.size() - 1);
  trace.events.push_back(e);
}

}  // namespace

TEST_CASE("half precision: products, attention and element-wise kernels name their type") {
  for (const char* name :
       {"nvjet_tst_256x128_64x4_1x2_h_bz_coopA_TNT", "nvjet_hsh_128x64", "nvjet_qqtst_128x256",
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "ampere_fp16_s16816gemm_fp16_256x64_nn",
        "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn", "cutlass_80_wmma_tensorop_f16_s161616gemm_f16_32x32",
        "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>>",
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::Half>>",
        "void cutlass::device_kernel<flash::FlashAttnBwdPreprocess<cutlass::bfloat16_t, float>>",
        "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_f16_"})
    CHECK_MESSAGE(names_half_precision(name), name);
  for (const char* name :
       {"nvjet_sss_128x64", "ampere_sgemm_128x64_nn", "cutlass_80_tensorop_s1688gemm_128x128_tn",
        "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32", "ampere_scudnn_128x64_relu_medium_nn_v1",
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
        "triton_poi_fused__to_copy_permute_t_8", "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true>"})
    CHECK_MESSAGE(!names_half_precision(name), name);
}

TEST_CASE("half precision: the share is that of the time of kernels, without collectives and copies") {
  Trace trace;
  const auto add = [&](EventKind kind, std::int64_t duration, const char* name) {
    add_event(trace, kind, duration, name);
  };
  CHECK(half_precision_share(trace) == 0);
  add(EventKind::kernel, 300, "ampere_bf16_s16816gemm_bf16_128x128");
  add(EventKind::kernel, 100, "ampere_sgemm_128x64_nn");
  add(EventKind::kernel, 1000, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL");
  add(EventKind::copy, 1000, "Memcpy HtoD bf16");
  add(EventKind::host_op, 1000, "aten::bfloat16");
  CHECK(half_precision_share(trace) == doctest::Approx(0.75));
}

TEST_CASE("TF32: products of tensor cores on four-byte operands, by their kernels' names") {
  for (const char* name :
       {"sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32", "cutlass_80_tensorop_s1688gemm_128x128_tn",
        "cutlass3x_sm90_tensorop_s64x128x8tf32gemm_f32_f32_f32_f32_f32_128x128x32",
        "sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x32"})
    CHECK_MESSAGE(names_tf32(name), name);
  for (const char* name :
       {"ampere_sgemm_128x64_nn", "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8",
        "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>",
        "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_TNT"})
    CHECK_MESSAGE(!names_tf32(name), name);
  Trace trace;
  trace.tracks = {{0, 7, true, 0}};
  const auto add = [&](EventKind kind, std::int64_t duration, const char* name) {
    add_event(trace, kind, duration, name);
  };
  add(EventKind::kernel, 500, "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>");
  add(EventKind::host_op, 500, "aten::mm");
  CHECK(tf32_share(TraceIndex(trace)) == 0);
  add(EventKind::kernel, 300, "cutlass_80_tensorop_s1688gemm_128x256_nt_align1");
  add(EventKind::kernel, 100, "ampere_sgemm_128x64_nn");
  CHECK(tf32_share(TraceIndex(trace)) == doctest::Approx(0.75));
}

}  // namespace stepcast
