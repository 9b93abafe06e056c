// KernelTable: which rule a kernel name meets, and the strict reading of a user's rules.
#include <stepcast/trace/event_names.hpp>
#include <stepcast/trace/kernel_table.hpp>

#include "helpers/hand_trace.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>

namespace stepcast {
namespace {

std::string class_of(std::string_view kernel) {
  const KernelRule* rule = shipped_kernel_table().rule_of(kernel);
  return rule == nullptr ? "none" : std::string(name_of(rule->kind));
}
std::string operation_of(std::string_view kernel) {
  const KernelRule* rule = shipped_kernel_table().rule_of(kernel);
  if (rule == nullptr || rule->kind != KernelClass::collective) return "no collective";
  return rule->operation.empty() ? naming::collective_operation(kernel) : rule->operation;
}

TEST_CASE("shipped rules: collectives of libraries and of hand") {
  const struct {
    const char *kernel, *operation;
  } cases[] = {
      {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "allreduce"},
      {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "allreduce"},
      {"void ncclAllReduceRingLLKernel_sum_f16(ncclColl)", "allreduce"},
      {"ncclDevKernel_Reduce_Sum_bf16_RING_LL", "reduce"},
      {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reducescatter"},
      {"ncclDevKernel_AllGather_RING_LL", "allgather"},
      {"ncclKernel_Broadcast_RING_LL_Sum_int8_t", "broadcast"},
      {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "sendrecv"},
      {"ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", ""},
      {"mscclKernel_Sum_float_LL_false", ""},
      {"void mscclpp::allreduce7<float>", "allreduce"},
      {"void deep_ep::intranode::dispatch<8, 768, 8192>", "alltoall"},
      {"void deep_ep::internode_ll::combine<true, 5, 7168, 9>", "alltoall"},
      {"deep_ep::intranode::barrier<8>", "barrier"},
      {"void internode::dispatch<false, 8, false, 18432, 24>(int4*, float*, long*)", "alltoall"},
      {"void internode::notify_dispatch<false, 8>(int const*, int*, int)", "alltoall"},
      {"void internode::cached_notify<false, 16384>(int, int, int)", "alltoall"},
      {"void uccl::internode::combine<false, 8, __nv_bfloat16>(int4*)", "alltoall"},
      {"void intranode::cached_notify_combine<8>(void**, int*)", "alltoall"},
      {"EpDispatchIntraNodeKernel_bf16", "alltoall"},
      {"void hybrid_ep::combine_kernel<64, 4, 2>", "alltoall"},
      {"void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>", "allreduce"},
      {"one_shot_all_reduce_kernel", "allreduce"},
      {"two_shot_all_reduce_kernel_inplace", "allreduce"},
      {"void c10d::symmetric_memory::barrier_kernel(unsigned int**)", "barrier"},
      {"void c10d::intra_node_comm::oneShotAllReduceKernel<8u, true>", "allreduce"},
      {"nvshmemi_alltoall_on_stream_kernel", "alltoall"},
      {"nvshmem_barrier_all", "barrier"},
      {"void tensorrt_llm::kernels::ar_fusion::allreduce_fusion_kernel_oneshot_lamport", "allreduce"},
      {"kuserbuffers_pushsend", "send"},
      {"hcom_allReduce__123_0", "allreduce"},
      {"hcom_receive__5", "recv"},
      {"oneccl_reduce_scatter_ring", "reducescatter"},
      {"all-reduce-start.12", "allreduce"},
      {"collective-permute.3", "sendrecv"},
      {"my_triton_all_to_all_kernel", "alltoall"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.kernel);
    CHECK(operation_of(c.kernel) == c.operation);
  }
}

TEST_CASE("shipped rules: compute, and names that only look like collectives") {
  const struct {
    const char *kernel, *kind;
  } cases[] = {
      {"volta_sgemm_64x64_tn", "gemm"},
      {"implicit_convolve_sgemm_nchw", "gemm"},
      {"sm80_xmma_fprop_implicit_gemm_f32f32_nhwc", "gemm"},
      {"void flash_fwd_kernel<...>", "gemm"},
      {"Cijk_Ailk_Bljk_SB_MT64x64", "gemm"},
      {"void at::native::vectorized_elementwise_kernel<4>", "memory"},
      {"void at::native::reduce_kernel<512, 1>", "memory"},
      {"void at::native::(anonymous namespace)::indexSelectLargeIndex", "memory"},
      {"nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "gemm"},
      {"_ZN7cutlass13device_kernelIN2at4cuda6detail25enable_3x_kernel_for_sm9xINS_4gemm6kernel13GemmUniversalINS5_"
       "17Group",
       "gemm"},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_cga1x1x1_kernel0_0",
       "gemm"},
      {"void cudnn::fusion::compute_dot_do_o_specialized<true, 128>(void const*)", "memory"},
      {"void pytorch_flash::flash_bwd_convert_dq_kernel<Flash_bwd_kernel_traits<64, 128, 128> >", "memory"},
      {"void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float, float, 32u>", "memory"},
      {"void at::native::detail::chunk_cat_cuda_kernel<float, c10::BFloat16>(c10::BFloat16**)", "memory"},
      {"void at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortOnesweepKernel<at_cuda_detail::cub>", "memory"},
      {"void at::native::(anonymous namespace)::compute_grad_weight<float, long>(long const*)", "memory"},
      {"void cublasLt::splitKreduce_kernel<32, 16, int, float>", "memory"},
      {"void cublasLt::epilogue::impl::globalKernel<8, 32, float, float, float, true, true, 1>(int)", "none"},
      {"triton_poi_fused_all_gather_into_tensor_wait_tensor_3", "memory"},
      {"triton_red_fused_all_reduce_sum_1", "memory"},
      {"triton_tem_fused_mm_reduce_scatter_0", "gemm"},
      {"deep_ep::layout::get_dispatch_layout<256, 4>", "memory"},
      {"void internode::get_dispatch_layout<256, 32, 8>", "memory"},
      {"nobody_knows", "none"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.kernel);
    CHECK(class_of(c.kernel) == c.kind);
  }
}

TEST_CASE("operations of host events, by all the names that frameworks give them") {
  const struct {
    const char *name, *operation;
  } cases[] = {{"c10d::allreduce_", "allreduce"},
               {"c10d::allreduce_coalesced_", "allreduce"},
               {"allreduce_coalesced", "allreduce"},
               {"nccl:all_reduce", "allreduce"},
               {"_c10d_functional::all_gather_into_tensor", "allgather"},
               {"_allgather_base", "allgather"},
               {"c10d::_reduce_scatter_base_", "reducescatter"},
               {"reduce_scatter_tensor_coalesced", "reducescatter"},
               {"all_to_allv", "alltoall"},
               {"c10d::alltoall_base_", "alltoall"},
               {"broadcast", "broadcast"},
               {"_broadcast_oop", "broadcast"},
               {"c10d::reduce_", "reduce"},
               {"gather", "gather"},
               {"c10d::scatter_", "scatter"},
               {"gloo:send", "send"},
               {"nccl:recv 1->0", "recv"},
               {"c10d::recv_any_source_", "recv"},
               {"isend", "send"},
               {"irecv", "recv"},
               {"batch_isend_irecv", "sendrecv"},
               {"nccl:coalesced", "sendrecv"},
               {"c10d::barrier", "barrier"},
               {"monitored_barrier", "barrier"},
               {"HOROVOD_ALLREDUCE", "allreduce"},
               {"hcom_allReduce_", "allreduce"},
               {"torch::distributed::reducer::mul_out", ""},
               {"wait", ""},
               {"init", ""},
               {"aten::add", ""}};
  for (const auto& c : cases) {
    CAPTURE(c.name);
    CHECK(naming::collective_operation(c.name) == c.operation);
  }
}

TEST_CASE("a user's rules stand before the shipped ones, and the trace carries them") {
  const KernelTable own = kernel_table_of_json(R"({"schema": "stepcast.kernels/1", "rules": [
      {"prefix": "Acme_", "contains": ["ring", "Sum"], "class": "collective", "operation": "allreduce"},
      {"contains": "ncclDevKernel_Generic", "class": "other"}]})",
                                               "own.json");
  const KernelTable all = own.before(shipped_kernel_table());
  REQUIRE(all.rule_of("acme_RING_sum_f32") != nullptr);
  CHECK(all.rule_of("acme_RING_sum_f32")->operation == "allreduce");
  CHECK(all.rule_of("acme_ring_f32") == nullptr);
  CHECK(all.rule_of("my_acme_ring_sum") == nullptr);  // a prefix stands at the beginning
  CHECK(all.rule_of("ncclDevKernel_Generic")->kind == KernelClass::other);
  CHECK(all.rule_of("ncclDevKernel_AllReduce")->kind == KernelClass::collective);

  test::HandTrace hand;
  hand.kernel(0, 0, 1, 7, "acme_ring_sum", 2, 3);
  Trace trace = hand.trace();
  const auto work = [&] { return naming::facts_of_names(trace)[trace.events.back().name].work; };
  CHECK(work() == KernelClass::other);
  trace.kernels = std::make_shared<const KernelTable>(all);
  CHECK(work() == KernelClass::collective);
}

TEST_CASE("faulty rules are refused with their place and what was meant") {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      (void)kernel_table_of_json(text, "own.json");
    } catch (const InputError& error) { return error.what(); }
    return "accepted";
  };
  const auto with_rule = [](const std::string& rule) {
    return R"({"schema": "stepcast.kernels/1", "rules": [{"contains": "a", "class": "gemm"}, )" + rule + "]}";
  };
  const struct {
    std::string text, says;
  } cases[] = {
      {"{", "own.json@"},
      {"[]", "own.json#: expected an object, found []"},
      {"{}", "own.json#/schema: expected 'stepcast.kernels/1', found nothing"},
      {R"({"schema": "stepcast.kernels/2", "rules": []})", "found 'stepcast.kernels/2'"},
      {R"({"schema": "stepcast.kernels/1"})", "own.json#/rules: expected a list of rules"},
      {R"({"schema": "stepcast.kernels/1", "rules": []})", "own.json#/rules"},
      {R"({"schema": "stepcast.kernels/1", "rule": []})", "did you mean 'rules'?"},
      {with_rule("7"), "own.json#/rules/1: expected an object"},
      {with_rule(R"({"class": "gemm"})"), "'prefix', 'contains' or both"},
      {with_rule(R"({"contains": [], "class": "gemm"})"), "own.json#/rules/1/contains"},
      {with_rule(R"({"contains": [""], "class": "gemm"})"), "own.json#/rules/1/contains"},
      {with_rule(R"({"contains": "a", "class": "gem"})"), "did you mean 'gemm'?"},
      {with_rule(R"({"contains": "a"})"), "own.json#/rules/1/class"},
      {with_rule(R"({"containts": "a", "class": "gemm"})"), "did you mean 'contains'?"},
      {with_rule(R"({"prefix": 3, "class": "gemm"})"), "own.json#/rules/1/prefix"},
      {with_rule(R"({"prefix": "a", "class": "gemm", "operation": "allreduce"})"), "only for class 'collective'"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.text);
    CHECK_MESSAGE(refusal(c.text).find(c.says) != std::string::npos, refusal(c.text));
  }
}

}  // namespace
}  // namespace stepcast
