// NsysProcess: events by table, operators out of PyTorch's NVTX ranges, waits by event id.
#include <stepcast/base/words.hpp>
#include <stepcast/encodings/json_text.hpp>
#include <stepcast/formats/nsys/nsys_process.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_set>

namespace stepcast {
namespace {

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// Calls that put a kernel, a copy or a fill on a stream, each leaving a device record with the same correlation.
bool is_kernel_launch(std::string_view name) {
  return starts_with_any(name,
                         {"cudaLaunch", "cuLaunchKernel", "cuLaunchCooperative", "cudaGraphLaunch", "cuGraphLaunch"});
}

/// What torch.autograd.profiler.emit_nvtx writes: "aten::conv2d, seq = 12, op_id = 34, sizes = [[64, 3], []]".
struct OperatorRange {
  std::string_view name, sizes;
  std::int64_t sequence = -1;
  bool is_operator = false;
};

OperatorRange operator_range(std::string_view text) {
  OperatorRange range;
  const std::size_t name_end = std::min({text.find(", seq = "), text.find(", op_id = "), text.find(", sizes = ")});
  range.name = text.substr(0, name_end);
  range.is_operator =
      name_end < text.size() || starts_with_any(text, {"aten::", "c10d::", "autograd::engine::", "torch::autograd::"});
  if (const std::size_t at = text.find(", seq = "); at != std::string_view::npos)
    std::from_chars(text.data() + at + 8, text.data() + text.size(), range.sequence);
  if (const std::size_t at = text.find(", sizes = "); at != std::string_view::npos) {
    range.sizes = text.substr(at + 10);
    range.sizes = range.sizes.substr(0, range.sizes.find(", input_op_ids = "));
  }
  return range;
}

std::string percent_text(std::size_t part, std::size_t whole) {
  if (100 * part < whole) return "less than 1 %";
  return std::to_string((100 * part + whole / 2) / whole) + " %";
}

std::string milliseconds(std::int64_t ns) {
  const std::int64_t us = ns / 1000, rest = us < 0 ? -(us % 1000) : us % 1000;
  const std::string digits = std::to_string(1000 + rest).substr(1);
  return (us < 0 && us / 1000 == 0 ? "-" : "") + std::to_string(us / 1000) + "." + digits;
}

}  // namespace

std::string_view api_name(std::string_view recorded) {
  const std::size_t version = recorded.rfind("_v");
  if (version != std::string_view::npos && recorded.size() - version >= 6 && is_digits(recorded.substr(version + 2)))
    recorded = recorded.substr(0, version);
  for (const std::string_view suffix : {"_ptsz", "_ptds"})
    if (recorded.ends_with(suffix)) recorded.remove_suffix(suffix.size());
  return recorded;
}

void NsysProcess::add_call(std::int64_t thread, std::int64_t start_ns, std::int64_t end_ns, std::int64_t correlation,
                           std::string_view name) {
  Event event;
  event.kind = EventKind::runtime_call;
  event.start_ns = start_ns;
  event.duration_ns = end_ns - start_ns;
  event.correlation = correlation;
  event.name = draft_.text(api_name(name));
  event.track = host_track(thread);
  const std::uint32_t index = draft_.add(event);
  if (correlation > 0) calls_.try_emplace(correlation, Call{start_ns, index});
}

std::uint32_t NsysProcess::stream_number(const EventRecord& at) {
  const auto number = static_cast<std::uint32_t>(streams_.size());
  return streams_.try_emplace({at.device, at.context, at.stream}, number).first->second;
}

void NsysProcess::add_device_work(const DeviceRecord& record, std::string_view name) {
  Event event;
  event.kind = record.kind;
  event.start_ns = record.start_ns;
  event.duration_ns = record.end_ns - record.start_ns;
  event.correlation = record.correlation;
  event.name = draft_.text(name);
  // Streams are numbered within a context; the first context of a device needs no label.
  const std::int64_t first_context = context_of_device_.try_emplace(record.device, record.context).first->second;
  const bool other_context = record.context != first_context;
  event.track = draft_.track(record.device, record.stream, true,
                             other_context ? "context " + std::to_string(record.context) : std::string());
  const std::uint32_t stream = stream_number({record.device, record.context, record.stream, -1, -1});
  work_.push_back({draft_.add(event), stream});
  ++work_of_device_[record.device];
  whole_graphs_ += name.starts_with("CUDA graph ");
  collectives_ += name.find("nccl") != std::string_view::npos;
}

void NsysProcess::add_record(const EventRecord& record) { records_.push_back(record); }
void NsysProcess::add_synchronization(const EventRecord& record) { synchronizations_.push_back(record); }

void NsysProcess::add_range(std::int64_t thread, std::int64_t start_ns, std::int64_t end_ns, std::string_view text,
                            bool nested) {
  std::string readable(text);
  repair_utf8(readable.data(), readable.size());
  const OperatorRange range = operator_range(readable);
  Event event;
  event.kind = range.is_operator ? EventKind::host_op : EventKind::annotation;
  event.start_ns = start_ns;
  event.duration_ns = end_ns - start_ns;
  event.name = draft_.text(range.name);
  event.sequence = range.sequence;
  event.shapes = draft_.text(range.sizes);
  // Ranges that a handle ends may overlap one another; on the thread's own track they would break its nesting.
  event.track = nested ? host_track(thread) : draft_.track(pid_, thread, false, "NVTX start-end ranges");
  draft_.add(event);
  ++ranges_;
  operators_ += range.is_operator;
}

void NsysProcess::add_overhead(std::int64_t thread, std::int64_t start_ns, std::int64_t end_ns, std::string_view name) {
  Event event;
  event.kind = EventKind::other;
  event.start_ns = start_ns;
  event.duration_ns = end_ns - start_ns;
  // The name under which a step disturbed by the profiler is told from others.
  const bool flush = name.find("flush") != std::string_view::npos || name.find("Flush") != std::string_view::npos;
  event.name = draft_.text(flush ? "Buffer Flush" : name);
  event.track = draft_.track(pid_, thread, false, "profiler");
  draft_.add(event);
}

void NsysProcess::name_thread(std::int64_t thread, std::string_view name) {
  std::string readable(name);
  repair_utf8(readable.data(), readable.size());
  draft_.label(host_track(thread), readable);
}

std::int64_t NsysProcess::device() const {
  const auto most = std::ranges::max_element(work_of_device_, {}, [](const auto& entry) { return entry.second; });
  return most == work_of_device_.end() ? -1 : most->first;
}

void NsysProcess::link_waits() {
  std::vector<StreamCall> calls;
  calls.reserve(work_.size() + records_.size() + synchronizations_.size());
  const auto call_of = [this](std::int64_t correlation) -> const Call* {
    const auto found = calls_.find(correlation);
    return found == calls_.end() ? nullptr : &found->second;
  };
  using Kind = StreamCall::Kind;
  for (const Work& work : work_) {
    const Event& event = draft_[work.event];
    if (const Call* call = call_of(event.correlation))
      calls.push_back({Kind::work, call->start_ns, event.start_ns, work.stream, -1, work.event});
  }
  for (const EventRecord& record : records_)
    if (const Call* call = call_of(record.correlation))
      calls.push_back({Kind::record, call->start_ns, 0, stream_number(record), record.marker, no_index});
  for (const EventRecord& wait : synchronizations_) {
    const Call* call = call_of(wait.correlation);
    if (call == nullptr) continue;
    // The recorded type of the synchronisation is not used: exports number it in two ways. The call's name is certain.
    const std::string_view name = draft_.text_of(draft_[call->event].name);
    StreamCall out{Kind::host_waits_for_device, call->start_ns, 0, 0, wait.marker, call->event};
    if (starts_with_any(name, {"cudaStreamWaitEvent", "cuStreamWaitEvent"})) {
      out.kind = Kind::stream_wait;
      out.stream = stream_number(wait);
    } else if (starts_with_any(name, {"cudaEventSynchronize", "cuEventSynchronize"})) {
      out.kind = Kind::host_waits_for_event;
    } else if (starts_with_any(name, {"cudaStreamSynchronize", "cuStreamSynchronize"})) {
      out.kind = Kind::host_waits_for_stream;
      out.stream = stream_number(wait);
    } else if (!starts_with_any(name, {"cudaDeviceSynchronize", "cudaThreadSynchronize", "cuCtxSynchronize"})) {
      continue;
    }
    if (records_.empty() && (out.kind == Kind::stream_wait || out.kind == Kind::host_waits_for_event)) continue;
    calls.push_back(out);
  }
  StreamWaits waits = stream_waits(std::move(calls));
  draft_.trace().dependencies = std::move(waits.dependencies);
  if (waits.unresolved > 0)
    draft_.trace().report.missing.push_back("the record of " + std::to_string(waits.unresolved) +
                                            " awaited events (made before the recording)");
}

/// No work starts before its launch, and none ends after a call that waited for it has returned. Where the second is
/// broken or the first, the report's two clocks are apart, by an amount between the two bounds.
void NsysProcess::set_device_clock() {
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = none, least = -none;
  for (const Work& work : work_)
    if (const auto call = calls_.find(draft_[work.event].correlation); call != calls_.end())
      most = std::min(most, draft_[work.event].start_ns - call->second.start_ns);
  for (const Dependency& d : draft_.trace().dependencies)
    if (d.kind == DependencyKind::host_wait)
      least = std::max(least, draft_[d.before].end_ns() - draft_[d.after].end_ns());
  const bool possible = most == none || least <= most;
  if (most == none || (most >= 0 && least <= 0)) return;
  std::vector<std::string>& said = possible ? draft_.trace().report.repaired : draft_.trace().report.missing;
  if (!possible) {
    said.push_back(
        "one clock for host and device: no shift makes work start after its launch and end before the calls "
        "that waited for it return");
    return;
  }
  const std::int64_t shift = least == -none ? most : least + (most - least) / 2;
  for (const Work& work : work_) draft_[work.event].start_ns -= shift;
  said.push_back("device times moved by " + milliseconds(-shift) +
                 " ms: as recorded, work ended after the calls that waited for it, or began before its launch");
}

void NsysProcess::say_what_is_missing() {
  std::vector<std::string>& missing = draft_.trace().report.missing;
  if (records_.empty() && !synchronizations_.empty())
    missing.push_back("ids of recorded events: waits of one stream for another are not known");
  if (whole_graphs_ > 0)
    missing.push_back("the kernels inside " + std::to_string(whole_graphs_) +
                      " CUDA graph launches (record with --cuda-graph-trace=node)");
  if (collectives_ > 0) missing.push_back("sizes of collectives");
  if (ranges_ == 0) missing.push_back("NVTX ranges: no steps, no phases");
  if (operators_ == 0) missing.push_back("framework operators, input shapes and gradient sizes (no emit_nvtx ranges)");
  std::unordered_set<std::int64_t> seen;
  for (const Work& work : work_) seen.insert(draft_[work.event].correlation);
  std::size_t launches = 0, lost = 0;
  std::int64_t last_seen = std::numeric_limits<std::int64_t>::min();
  std::int64_t first_lost = std::numeric_limits<std::int64_t>::max();
  for (const auto& [correlation, call] : calls_) {
    if (!is_kernel_launch(draft_.text_of(draft_[call.event].name))) continue;
    ++launches;
    if (seen.contains(correlation)) last_seen = std::max(last_seen, call.start_ns);
    if (seen.contains(correlation)) continue;
    first_lost = std::min(first_lost, call.start_ns);
    ++lost;
  }
  if (lost == 0 || work_.empty()) return;
  missing.push_back("the device records of " + std::to_string(lost) + " of " + std::to_string(launches) +
                    " launches (" + percent_text(lost, launches) + ")" +
                    (first_lost > last_seen ? ", all at the end" : "") +
                    ": the device times of their steps are too small");
}

Trace NsysProcess::finish() {
  link_waits();
  set_device_clock();
  say_what_is_missing();
  return draft_.finish();
}

}  // namespace stepcast
