// Launches, records and waits as one list of calls, in the order in which the host made them.
#include <stepcast/formats/kineto/sync_records.hpp>
#include <stepcast/formats/shared/stream_waits.hpp>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace stepcast {
namespace {

using Kind = StreamCall::Kind;

class Calls {
 public:
  explicit Calls(const Trace& trace) : trace_(trace) {
    for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
      const Event& event = trace.events[i];
      if (event.kind == EventKind::runtime_call && event.correlation >= 0) hosts_.emplace(event.correlation, i);
    }
    for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
      const Event& event = trace.events[i];
      if (!is_device_work(event.kind)) continue;
      if (const auto host = hosts_.find(event.correlation); host != hosts_.end()) add_work(i, host->second);
    }
  }

  std::vector<StreamCall> with(std::span<const SyncRecord> records) {
    for (const SyncRecord& record : records) add(record);
    return std::move(calls_);
  }

 private:
  void add_work(std::uint32_t work, std::uint32_t host) {
    const Track& track = trace_.tracks[trace_.events[work].track];
    StreamCall call;
    call.kind = Kind::work;
    call.host_ns = trace_.events[host].start_ns;
    call.device_ns = trace_.events[work].start_ns;
    call.stream = stream(track.process, track.thread);
    call.event = work;
    calls_.push_back(call);
  }

  void add(const SyncRecord& record) {
    const auto host = hosts_.find(record.correlation);
    StreamCall call;
    call.host_ns = host == hosts_.end() ? record.start_ns : trace_.events[host->second].start_ns;
    const bool host_waits = record.kind != SyncKind::stream_for_event;
    if (host_waits) {
      if (host == hosts_.end() || trace_.text(trace_.events[host->second].name).ends_with("Query")) return;
      call.event = host->second;
    }
    switch (record.kind) {
      case SyncKind::stream_for_event:
      case SyncKind::host_for_event:
        if (record.marked_by < 0 || (!host_waits && record.stream < 0)) return;
        add_mark(record);
        call.kind = host_waits ? Kind::host_waits_for_event : Kind::stream_wait;
        call.marker = record.marked_by;
        if (!host_waits) call.stream = stream(record.device, record.stream);
        calls_.push_back(call);
        return;
      case SyncKind::host_for_stream:
        call.kind = Kind::host_waits_for_stream;
        call.stream = stream(record.device, record.stream);
        calls_.push_back(call);
        return;
      case SyncKind::host_for_device:
        call.kind = Kind::host_waits_for_stream;
        for (const auto& [key, number] : streams_) {
          if (key.first != record.device) continue;
          call.stream = number;
          calls_.push_back(call);
        }
    }
  }

  // The record itself: a call that names no stream, so it is told by the waits for it.
  void add_mark(const SyncRecord& record) {
    const auto host = hosts_.find(record.marked_by);
    if (host == hosts_.end() || record.waited_stream < 0 || std::exchange(marked_[record.marked_by], true)) return;
    StreamCall call;
    call.kind = Kind::record;
    call.host_ns = trace_.events[host->second].start_ns;
    call.stream = stream(record.device, record.waited_stream);
    call.marker = record.marked_by;
    calls_.push_back(call);
  }

  std::uint32_t stream(std::int64_t device, std::int64_t id) {
    return streams_.try_emplace({device, id}, static_cast<std::uint32_t>(streams_.size())).first->second;
  }

  const Trace& trace_;
  std::unordered_map<std::int64_t, std::uint32_t> hosts_;  ///< by correlation
  std::unordered_map<std::int64_t, bool> marked_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> streams_;
  std::vector<StreamCall> calls_;
};

}  // namespace

std::vector<Dependency> dependencies_of(const Trace& trace, std::span<const SyncRecord> records) {
  if (records.empty()) return {};
  return stream_waits(Calls(trace).with(records)).dependencies;
}

}  // namespace stepcast
