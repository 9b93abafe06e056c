// The categories of all versions of Kineto, and the process names of traces without categories.
#include <stepcast/formats/kineto/kineto_categories.hpp>

#include <algorithm>
#include <iterator>

namespace stepcast {
namespace {

// The most frequent first; see ActivityType in libkineto, and torch/csrc/autograd/profiler_kineto.cpp of 2021.
constexpr KinetoCategory categories[] = {
    {"cpu_op", EventKind::host_op, false},
    {"kernel", EventKind::kernel, true},
    {"cuda_runtime", EventKind::runtime_call, false},  // also HIP
    {"python_function", EventKind::python, false},
    {"user_annotation", EventKind::annotation, false},
    {"gpu_memcpy", EventKind::copy, true},
    {"gpu_memset", EventKind::fill, true},
    {"gpu_user_annotation", EventKind::device_annotation, true},
    {"cuda_driver", EventKind::runtime_call, false},
    {"cuda_sync", EventKind::synchronization, true},
    {"cuda_event", EventKind::synchronization, true},
    // Until 1.11.
    {"Operator", EventKind::host_op, false},
    {"Runtime", EventKind::runtime_call, false},
    {"Kernel", EventKind::kernel, true},
    {"Memcpy", EventKind::copy, true},
    {"Memset", EventKind::fill, true},
    // Other devices.
    {"mtia_ccp_events", EventKind::kernel, true},
    {"mtia_runtime", EventKind::runtime_call, false},
    {"mtia_workloadd", EventKind::other, false},
    {"mtia_insight", EventKind::other, true},
    {"glow_runtime", EventKind::runtime_call, false},
    {"xpu_runtime", EventKind::runtime_call, false},
    {"xpu_driver", EventKind::runtime_call, false},
    {"xpu_sync", EventKind::synchronization, true},
    {"xpu_scope_profiler", EventKind::other, true},
    {"privateuse1_runtime", EventKind::runtime_call, false},
    {"privateuse1_driver", EventKind::runtime_call, false},
    {"musa_runtime", EventKind::runtime_call, false},
    {"musa_driver", EventKind::runtime_call, false},
    {"musa_sync", EventKind::synchronization, true},
    {"mlu_runtime", EventKind::runtime_call, false},
    {"mlu_memcpy", EventKind::copy, true},
    {"mlu_memset", EventKind::fill, true},
    {"mlu_user_annotation", EventKind::device_annotation, true},
    {"mlu_notifier", EventKind::synchronization, true},
    // Known, but no work.
    {"overhead", EventKind::other, false},
    {"Trace", EventKind::other, false},
    {"external_correlation", EventKind::other, false},
    {"collective_comm", EventKind::other, false},  // a host's log of what its kernels show
    {"cuda_profiler_range", EventKind::other, true},
    {"enqueue", EventKind::other, false},  // Ascend's task queue: within the operator, and on the thread that serves it
    {"dequeue", EventKind::other, false},
    {"GC", EventKind::other, false},      // Python's collector, on a process of its own
    {"hpu_op", EventKind::other, false},  // Gaudi: host calls, copy and network engines; what computes is "kernel"
};

struct ProcessCategory {
  std::string_view process, slice;  ///< beginnings of the names
  KinetoCategory category;
};
// The first that fits. Streams of Ascend also show what the device does to wait; its communication process repeats on
// "planes" what the collectives of a group consist of.
constexpr ProcessCategory processes[] = {
    {"CPU functions", "", {"", EventKind::host_op, false}},
    {"CUDA functions", "Memcpy", {"", EventKind::copy, true}},
    {"CUDA functions", "Memset", {"", EventKind::fill, true}},
    {"CUDA functions", "", {"", EventKind::kernel, true}},
    {"Python", "", {"", EventKind::host_op, false}},
    {"CANN", "", {"", EventKind::runtime_call, false}},
    {"Ascend Hardware", "EVENT_", {"", EventKind::synchronization, true}},
    {"Ascend Hardware", "NOTIFY_", {"", EventKind::synchronization, true}},
    {"Ascend Hardware", "Notify_", {"", EventKind::synchronization, true}},
    {"Ascend Hardware", "MEMCPY_", {"", EventKind::copy, true}},
    {"Ascend Hardware", "Memcpy", {"", EventKind::copy, true}},
    {"Ascend Hardware", "", {"", EventKind::kernel, true}},
    {"Communication", "hcom_", {"", EventKind::kernel, true}},
    {"Communication", "", {"", EventKind::device_annotation, true}},
    {"HCCL", "hcom_", {"", EventKind::kernel, true}},
    {"HCCL", "", {"", EventKind::device_annotation, true}},
    {"Overlap Analysis", "", {"", EventKind::other, true}},
};

constexpr std::string_view launch_arrows[] = {"cpu_to_cuda", "async_npu", "HostToDevice"};

}  // namespace

const KinetoCategory* kineto_category(std::string_view name) {
  const auto found = std::ranges::find(categories, name, &KinetoCategory::name);
  return found == std::end(categories) ? nullptr : &*found;
}

const KinetoCategory* category_of_process(std::string_view process, std::string_view name) {
  for (const ProcessCategory& entry : processes)
    if (process == entry.process && name.starts_with(entry.slice)) return &entry.category;
  return nullptr;
}

bool is_launch_arrow(std::string_view category) {
  return std::ranges::find(launch_arrows, category) != std::end(launch_arrows);
}

}  // namespace stepcast
