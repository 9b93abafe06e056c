#pragma once
// Event names: what the name of a trace event says about its part in a training step.
//
// Frameworks tell by name alone what is a backward node, a collective, the optimizer. This file is the only place that
// knows the names of host events (those of kernels are in a table, kernel_table.hpp); it looks at each distinct string
// of a trace once. Not modelled: what a name cannot say, such as nesting and time.
#include <stepcast/trace/kernel_table.hpp>
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast::naming {

/// The part that a host event plays.
enum class Role : std::uint8_t {
  plain,            ///< an operator or a call like any other
  container,        ///< says where we are, does no work: ProfilerStep, DistributedDataParallel.forward, module scopes
  backward_node,    ///< a node of the autograd graph, alone or wrapped in "evaluate_function"
  accumulate_node,  ///< the wrapper around `accumulate`: hooks run inside it too
  accumulate,       ///< torch::autograd::AccumulateGrad: the gradient of one parameter is ready
  optimizer,        ///< the update of all parameters
  zero_grad,
  loader,         ///< waiting for the next batch
  communication,  ///< collectives, and the packing and unpacking done for them
  sharding,       ///< what FSDP2 does around its collectives: copies in and out, views, waits
  blocking_call,  ///< a runtime call in which the host waits for the device
  launch_call,    ///< a runtime call that may wait when the launch queue is full
};

struct NameFacts {
  Role role = Role::plain;
  KernelClass work = KernelClass::other;  ///< of kernels
  const KernelRule* rule = nullptr;       ///< the rule that says so; null: none does, or no kernel has this name
  bool view = false;                      ///< only reinterprets or casts its input: t, view, to, ...
  bool copies = false;                    ///< moves the bytes of tensors as they are: copy, cat, chunk_cat, ...
};

/// The facts of every string of the trace, by StringId.
[[nodiscard]] std::vector<NameFacts> facts_of_names(const Trace&);
/// "autograd::engine::evaluate_function: NativeBatchNormBackward0" and "aten::native_batch_norm" -> "nativebatchnorm".
[[nodiscard]] std::string operator_key(std::string_view name);
/// "aten::conv2d" -> "conv2d"; without a trailing underscore.
[[nodiscard]] std::string short_name(std::string_view name);
/// "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "gloo:all_reduce", "_allgather_base", "hcom_allReduce_" -> "allreduce",
/// "allgather"; one of allreduce, reducescatter, allgather, alltoall, broadcast, reduce, gather, scatter, send, recv,
/// sendrecv (both, or several in one call) and barrier; push, pull and push_pull, the words of parameter servers, are
/// understood by themselves only. Empty when the name tells no operation.
[[nodiscard]] std::string collective_operation(std::string_view name);
/// FSDP's annotations around what it does itself: "FSDP::all_gather", "FullyShardedDataParallel._pre_forward", ...; not
/// the one around the whole forward pass.
[[nodiscard]] bool is_sharding(std::string_view name);
/// The annotation of DistributedDataParallel around its own work before the forward pass and around that pass.
[[nodiscard]] bool is_replica_forward(std::string_view name);
/// An annotation that speaks of metrics: "## RecMetricModule:compute ##".
[[nodiscard]] bool is_metrics(std::string_view name);

/// What the ranks of a process group share.
enum class GroupKind : std::uint8_t {
  data,    ///< the model: replicas, or owners of its shards
  tensor,  ///< a layer or a sequence: tensor, sequence and context parallelism
  unknown,
};
/// By the description that its maker gave it: "mesh_tp", "TENSOR_MODEL_PARALLEL_GROUP", "mesh_dp_shard_cp", ...
[[nodiscard]] GroupKind group_kind(std::string_view description);
/// Between what a copy moves bytes, where its name says so: "Memcpy HtoD (Pinned -> Device)", "CopyDeviceToHost", ...
enum class CopyWay : std::uint8_t { unknown, from_host, to_host, on_device };
[[nodiscard]] CopyWay copy_way(std::string_view name);
/// True for operations that sum over the workers: all-reduce, reduce-scatter, reduce.
[[nodiscard]] bool is_reduction(std::string_view operation);

}  // namespace stepcast::naming
