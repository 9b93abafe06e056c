// Event names: prefix, suffix and substring tables of host events; see event_names.hpp.
#include <stepcast/base/words.hpp>
#include <stepcast/trace/event_names.hpp>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <utility>

namespace stepcast::naming {
namespace {

using Words = std::initializer_list<std::string_view>;

constexpr std::string_view node_wrapper = "autograd::engine::evaluate_function: ";

bool is_any(std::string_view name, Words words) { return std::find(words.begin(), words.end(), name) != words.end(); }

/// "AddmmBackward0": a node class of the generated autograd code, or of a user's autograd.Function.
bool names_backward_node(std::string_view name) {
  while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back()))) name.remove_suffix(1);
  return name.ends_with("Backward") || name.ends_with("CopyBackwards") || name.ends_with("CopySlices");
}

bool names_communication(std::string_view name) {
  return starts_with_any(name, {"c10d::",
                                "nccl:",
                                "gloo:",
                                "mpi:",
                                "ucc:",
                                "xccl:",
                                "hccl:",
                                "ccl:",
                                "record_param_comms",
                                "torch_ccl::",
                                "oneccl_bindings_for_pytorch::",
                                "Hccl",
                                "symm_mem::",
                                "deep_ep::",
                                "c10d_functional::",
                                "_c10d_functional::",
                                "torch.distributed.ddp.reducer::",
                                "torch::distributed::reducer::",
                                "aten::flatten_dense_tensors",
                                "aten::unflatten_dense_tensors"});
}

bool names_container(std::string_view name) {
  return starts_with_any(name, {"ProfilerStep", "DistributedDataParallel.forward",
                                "nn.Module: ", "Torch-Compiled Region", "FullyShardedDataParallel.forward"});
}

Role role_of(std::string_view name) {
  const bool wrapped = name.starts_with(node_wrapper);
  const std::string_view node = wrapped ? name.substr(node_wrapper.size()) : name;
  if (is_any(node, {"torch::autograd::AccumulateGrad", "struct torch::autograd::AccumulateGrad", "AccumulateGrad"}))
    return wrapped ? Role::accumulate_node : Role::accumulate;
  if (wrapped || names_backward_node(node)) return Role::backward_node;
  if (names_communication(name)) return Role::communication;
  if (name.starts_with("FSDP::")) return Role::sharding;
  if (names_container(name)) return Role::container;
  if (name.starts_with("Optimizer.step")) return Role::optimizer;
  if (name.starts_with("Optimizer.zero_grad") || name == "aten::zero_") return Role::zero_grad;
  if (name.starts_with("enumerate(DataLoader)")) return Role::loader;
  const bool runtime = starts_with_any(name, {"cuda", "hip", "cu", "musa"});
  // Of SYCL the runtime's names; the driver's calls (ze...) are within them.
  const bool sycl = starts_with_any(name, {"urEnqueue", "piEnqueue", "piextUSMEnqueue"});
  if (runtime && contains_any(name, {"StreamSynchronize", "DeviceSynchronize", "EventSynchronize"}))
    return Role::blocking_call;
  if (is_any(name, {"urQueueFinish", "urEventWait", "piQueueFinish", "piEventsWait"})) return Role::blocking_call;
  if ((runtime || sycl) && contains_any(name, {"Launch", "Memcpy", "Memset"})) return Role::launch_call;
  return Role::plain;
}

}  // namespace

std::vector<NameFacts> facts_of_names(const Trace& trace) {
  std::vector<NameFacts> facts(trace.strings.size());
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const std::string_view name = trace.strings[i];
    facts[i].role = role_of(name);
    facts[i].view =
        is_any(short_name(name), {"t",        "transpose",  "permute",    "view",   "reshape",   "expand",  "to",
                                  "_to_copy", "detach",     "contiguous", "clone",  "unsqueeze", "squeeze", "slice",
                                  "select",   "as_strided", "flatten",    "unbind", "split",     "chunk"});
    facts[i].copies = is_any(operator_key(name), {"copy", "foreachcopy", "cat", "chunkcat", "chunkcatmixeddtype",
                                                  "splitwithsizescopy", "allgathercopyin"});
  }
  const KernelTable& table = trace.kernels ? *trace.kernels : shipped_kernel_table();
  std::vector<bool> seen(facts.size(), false);
  for (const Event& e : trace.events) {
    if (e.kind != EventKind::kernel || seen[e.name]) continue;
    seen[e.name] = true;
    const KernelRule* rule = table.rule_of(trace.text(e.name));
    facts[e.name].rule = rule;
    if (rule != nullptr) facts[e.name].work = rule->kind;
  }
  return facts;
}

std::string short_name(std::string_view name) {
  if (const std::size_t colons = name.rfind("::"); colons != std::string_view::npos) name.remove_prefix(colons + 2);
  while (name.size() > 1 && name.back() == '_') name.remove_suffix(1);
  return std::string(name);
}

std::string operator_key(std::string_view name) {
  if (name.starts_with(node_wrapper)) name.remove_prefix(node_wrapper.size());
  if (names_backward_node(name)) {
    while (std::isdigit(static_cast<unsigned char>(name.back()))) name.remove_suffix(1);
    if (name.ends_with("Backward")) name.remove_suffix(8);
  }
  std::string key;
  for (const char c : short_name(name))
    if (c != '_') key += lower_case(c);
  return key;
}

std::string collective_operation(std::string_view name) {
  // As readers of parameter servers name them; inside other names the words mean anything.
  for (const std::string_view server : {"push_pull", "push", "pull"})
    if (name == server) return std::string(server);
  std::string low;
  for (const char c : name)
    if (c != '_' && c != '-') low += lower_case(c);
  // The longer word first: "reduce" is part of "allreduce" and of "reducescatter". PyTorch's "reducer" is no operation.
  static constexpr std::pair<std::string_view, std::string_view> words[] = {{"batchisendirecv", "sendrecv"},
                                                                            {"sendrecv", "sendrecv"},
                                                                            {"collectivepermute", "sendrecv"},
                                                                            {"ppermute", "sendrecv"},
                                                                            {"reducescatter", "reducescatter"},
                                                                            {"allreduce", "allreduce"},
                                                                            {"allgather", "allgather"},
                                                                            {"alltoall", "alltoall"},
                                                                            {"all2all", "alltoall"},
                                                                            {"broadcast", "broadcast"},
                                                                            {"barrier", "barrier"},
                                                                            {"gather", "gather"},
                                                                            {"scatter", "scatter"},
                                                                            {"isend", "send"},
                                                                            {"irecv", "recv"},
                                                                            {"send", "send"},
                                                                            {"recv", "recv"},
                                                                            {"receive", "recv"}};
  for (const auto& [word, operation] : words)
    if (low.find(word) != std::string::npos) return std::string(operation);
  for (std::size_t at = low.find("reduce"); at != std::string::npos; at = low.find("reduce", at + 1))
    if (low.compare(at, 9, "reducer::") != 0) return "reduce";
  return low.ends_with(":coalesced") ? "sendrecv" : "";
}

CopyWay copy_way(std::string_view name) {
  if (contains_any(name, {"HtoD", "HostToDevice", "H2D", "HOST_TO_DEVICE"})) return CopyWay::from_host;
  if (contains_any(name, {"DtoH", "DeviceToHost", "D2H", "DEVICE_TO_HOST"})) return CopyWay::to_host;
  if (contains_any(name, {"DtoD", "DeviceToDevice", "D2D", "DEVICE_TO_DEVICE"})) return CopyWay::on_device;
  return CopyWay::unknown;
}

bool is_sharding(std::string_view name) { return starts_with_any(name, {"FSDP::", "FullyShardedDataParallel._"}); }

bool is_replica_forward(std::string_view name) { return name.starts_with("DistributedDataParallel.forward"); }

bool is_metrics(std::string_view name) {
  if (name.find("Metric") != std::string_view::npos) return true;
  const std::size_t at = name.find("metric");  // a word of its own: not "symmetric"
  return at != std::string_view::npos && (at == 0 || std::isalpha(static_cast<unsigned char>(name[at - 1])) == 0);
}

GroupKind group_kind(std::string_view description) {
  bool tensor = false;
  std::string word;
  const auto says_data = [&] {
    tensor = tensor || is_any(word, {"tensor", "tp", "sequence", "sp", "context", "cp", "ulysses"});
    return is_any(word, {"data", "dp", "ddp", "fsdp", "hsdp", "shard", "replicate"});
  };
  for (const char c : description) {
    if (std::isalpha(static_cast<unsigned char>(c))) {
      word += lower_case(c);
      continue;
    }
    if (says_data()) return GroupKind::data;  // context parallel ranks share the model with them ("mesh_dp_shard_cp")
    word.clear();
  }
  if (says_data()) return GroupKind::data;
  return tensor ? GroupKind::tensor : GroupKind::unknown;
}

bool is_reduction(std::string_view operation) { return is_any(operation, {"allreduce", "reducescatter", "reduce"}); }

}  // namespace stepcast::naming
