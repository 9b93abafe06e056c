#pragma once
// Room formats/nsys: the parts of the reader of Nsight Systems reports.
//
// Example: the rows of CUPTI_ACTIVITY_KIND_KERNEL become kernels, those of NVTX_EVENTS annotations.
//
// It may include base, encodings, trace and formats/shared.
//
// NsysProcess: the trace of one process of an Nsight Systems report, under construction.
//
// A report holds all processes of a machine in the same tables; correlation ids, event ids and streams are each
// process's own. Not modelled: CPU samples, operating-system calls, network and file metrics.
#include <stepcast/formats/shared/stream_waits.hpp>
#include <stepcast/trace/trace_draft.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace stepcast {

class NsysProcess {
 public:
  NsysProcess(std::string_view source, std::int64_t pid) : draft_(source), pid_(pid) {}

  struct DeviceRecord {
    std::int64_t start_ns = 0, end_ns = 0;
    std::int64_t device = 0, context = -1, stream = 0, correlation = -1;
    EventKind kind = EventKind::kernel;
  };
  struct EventRecord {
    std::int64_t device = 0, context = -1, stream = 0, correlation = -1, marker = -1;
  };

  void add_call(std::int64_t thread, std::int64_t start_ns, std::int64_t end_ns, std::int64_t correlation,
                std::string_view api_name);
  void add_device_work(const DeviceRecord&, std::string_view name);
  void add_record(const EventRecord&);           ///< cudaEventRecord
  void add_synchronization(const EventRecord&);  ///< a wait of any kind; its call says which
  void add_range(std::int64_t thread, std::int64_t start_ns, std::int64_t end_ns, std::string_view text, bool nested);
  void add_overhead(std::int64_t thread, std::int64_t start_ns, std::int64_t end_ns, std::string_view name);
  void name_thread(std::int64_t thread, std::string_view name);

  [[nodiscard]] Trace& trace() { return draft_.trace(); }
  [[nodiscard]] std::int64_t pid() const { return pid_; }
  [[nodiscard]] std::size_t device_events() const { return work_.size(); }
  /// The device that did most of the work; -1: none.
  [[nodiscard]] std::int64_t device() const;
  /// The finished trace with its dependencies; the report says what the process lacks.
  [[nodiscard]] Trace finish();

 private:
  struct Call {
    std::int64_t start_ns = 0;
    std::uint32_t event = no_index;
  };
  struct Work {
    std::uint32_t event = no_index;
    std::uint32_t stream = 0;
  };
  std::uint32_t stream_number(const EventRecord&);
  std::uint32_t host_track(std::int64_t thread) { return draft_.track(pid_, thread, false); }
  void link_waits();
  void set_device_clock();
  void say_what_is_missing();

  TraceDraft draft_;
  std::int64_t pid_ = 0;
  std::unordered_map<std::int64_t, Call> calls_;  ///< the calls by their correlation
  std::vector<Work> work_;
  std::vector<EventRecord> records_, synchronizations_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::uint32_t> streams_;
  std::map<std::int64_t, std::int64_t> context_of_device_;
  std::map<std::int64_t, std::size_t> work_of_device_;
  std::size_t operators_ = 0, ranges_ = 0, collectives_ = 0, whole_graphs_ = 0;
};

/// "cudaLaunchKernel_ptsz_v7000" -> "cudaLaunchKernel".
[[nodiscard]] std::string_view api_name(std::string_view recorded);

}  // namespace stepcast
