// XlaPlanes: lines to kinds, host lines to devices, then one trace after the other.
#include <stepcast/decimal.hpp>
#include <stepcast/error.hpp>
#include <stepcast/event_names.hpp>
#include <stepcast/formats/parts/tensor_steps.hpp>
#include <stepcast/formats/parts/xla_planes.hpp>
#include <stepcast/trace_draft.hpp>
#include <stepcast/words.hpp>

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>

namespace stepcast {
namespace {

// The digits behind a mark, or -1: "/device:GPU:3" behind "GPU:", "Stream #17(Kernel)" behind '#'.
std::int64_t number_behind(std::string_view text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return -1;
  std::int64_t value = -1;
  const char* const first = text.data() + at + mark.size();
  const auto [end, error] = std::from_chars(first, text.data() + text.size(), value);
  return error == std::errc() && value >= 0 ? value : -1;
}

// HLO names its collectives "all-reduce.5", "%all-gather-start.1 = ..."; kernels are named by the library.
std::string collective_of(std::string_view name) {
  if (name.starts_with('%')) name.remove_prefix(1);
  if (name.starts_with("nccl") || name.starts_with("rccl")) return naming::collective_operation(name);
  if (!starts_with_any(name, {"all-reduce", "reduce-scatter", "all-gather", "all-to-all", "ragged-all-to-all",
                              "collective-permute", "collective-broadcast"}))
    return "";
  if (name.find("-done") != std::string_view::npos) return "";  // the wait for what "-start" began
  if (name.starts_with("collective-permute")) return "sendrecv";
  std::string plain;
  for (const char c : name)
    if (c != '-') plain += c;
  return naming::collective_operation(plain);
}

// TensorFlow's operators on the host: "CollectiveReduceV2", "replica_1/NcclAllReduce:NcclAllReduce". Compiler passes
// ("all-reduce-combiner") run on the host too.
std::string host_collective_of(std::string_view name) {
  if (const std::size_t colon = name.rfind(':'); colon != std::string_view::npos) name.remove_prefix(colon + 1);
  if (name == "NcclAllReduce" || name.starts_with("CollectiveReduce")) return "allreduce";
  if (name.starts_with("CollectiveGather")) return "allgather";
  if (name.starts_with("CollectiveBcast") || name.starts_with("NcclBroadcast")) return "broadcast";
  if (name.starts_with("CollectiveAllToAll")) return "alltoall";
  return "";
}

// The type and the elements of the result in "%all-reduce = f32[5,1024]{1,0} all-reduce(...)"; of a tuple the sum if it
// is of one type. -1: not said.
struct Result {
  std::string_view type;
  std::int64_t elements = -1;
};
Result result_of(std::string_view instruction) {
  const std::size_t equals = instruction.find(" = ");
  if (equals == std::string_view::npos) return {};
  std::string_view rest = instruction.substr(equals + 3);
  const bool tuple = rest.starts_with('(');
  rest = rest.substr(0, tuple ? rest.find(") ") : rest.find(' '));
  Result sum;
  for (std::size_t open = rest.find('['); open != std::string_view::npos; open = rest.find('[', open + 1)) {
    std::size_t first = open;
    while (first > 0 && std::isalnum(static_cast<unsigned char>(rest[first - 1]))) --first;
    const std::string_view type = rest.substr(first, open - first);
    if (type.empty() || (!sum.type.empty() && type != sum.type)) return {};
    std::int64_t product = 1;
    const char* at = rest.data() + open + 1;
    for (const char* const end = rest.data() + rest.size(); at < end && *at != ']';) {
      std::int64_t dimension = 0;
      const auto [next, error] = std::from_chars(at, end, dimension);
      if (error != std::errc() || dimension < 0 || __builtin_mul_overflow(product, dimension, &product)) return {};
      at = next < end && *next == ',' ? next + 1 : next;
    }
    sum.type = type;
    if (__builtin_add_overflow(std::max<std::int64_t>(sum.elements, 0), product, &sum.elements)) return {};
  }
  return sum;
}

bool is_runtime_call(std::string_view name) {
  return starts_with_any(name, {"cuda", "hip", "cuLaunch", "cuMem", "cuStream", "cuEvent", "cuCtx", "cuGraph"});
}

}  // namespace

std::uint32_t XlaPlanes::line(std::int64_t plane, std::int64_t line) {
  const auto [found, is_new] = line_of_.try_emplace({plane, line}, static_cast<std::uint32_t>(lines_.size()));
  if (is_new) {
    lines_.emplace_back();
    lines_.back().plane = plane;
    lines_.back().id = line;
    planes_.try_emplace(plane);
  }
  return found->second;
}

void XlaPlanes::describe_plane(std::int64_t plane, std::string_view device, std::int64_t memory_bytes) {
  if (!device.empty()) planes_[plane].device = device;
  if (memory_bytes > 0) planes_[plane].memory_bytes = memory_bytes;
}

void XlaPlanes::add(const XlaEvent& event) {
  if (strings_[event.name].starts_with('$')) {
    ++python_frames_;  // "$profiler.py:101 start_trace"
  } else if (events_.size() >= most_timeline_events) {
    ++left_out_;
  } else {
    events_.push_back(event);
  }
}

void XlaPlanes::classify_lines() {
  for (auto& [id, plane] : planes_) {
    const std::size_t device = plane.name.find("/device:");
    plane.on_device = device != std::string::npos;
    if (!plane.on_device) continue;
    plane.ordinal = number_behind(std::string_view(plane.name).substr(device + 8), ":");
  }
  for (Line& line : lines_) {
    Plane& plane = planes_[line.plane];
    if (!plane.on_device) continue;
    const std::string_view name = line.name;
    if (starts_with_any(name, {"Stream #", "stream #"})) line.kind = LineKind::stream;
    else if (name == "XLA Ops") line.kind = LineKind::operations;
    else if (name.starts_with("Async")) line.kind = LineKind::asynchronous;
    else if (name == "Steps") line.kind = LineKind::steps;
    else if (starts_with_any(name,
                             {"XLA ", "Framework", "TensorFlow", "Source", "Overlay", "Launch Stats", "SparseCore"}))
      line.kind = LineKind::view;
    else line.kind = LineKind::unknown;
    plane.has_streams |= line.kind == LineKind::stream;
    plane.has_operations |= line.kind == LineKind::operations;
  }
  for (Line& line : lines_) {
    const Plane& plane = planes_[line.plane];
    line.works = line.kind == LineKind::stream || (line.kind == LineKind::operations && !plane.has_streams) ||
                 (line.kind == LineKind::asynchronous && !plane.has_streams) ||
                 (line.kind == LineKind::unknown && !plane.has_streams && !plane.has_operations);
  }
}

std::vector<std::int64_t> XlaPlanes::working_devices() const {
  std::set<std::int64_t> working;
  for (const XlaEvent& event : events_)
    if (lines_[event.line].works) working.insert(lines_[event.line].plane);
  return {working.begin(), working.end()};
}

void XlaPlanes::assign_host_lines() {
  std::unordered_map<std::int64_t, std::int64_t> device_of;
  for (const XlaEvent& event : events_)
    if (event.correlation > 0 && lines_[event.line].works)
      device_of.emplace(event.correlation, lines_[event.line].plane);
  for (const XlaEvent& event : events_) {
    Line& line = lines_[event.line];
    if (line.kind != LineKind::host || event.correlation <= 0) continue;
    const auto device = device_of.find(event.correlation);
    if (device != device_of.end() && std::ranges::find(line.devices, device->second) == line.devices.end())
      line.devices.push_back(device->second);
  }
}

// The making of one trace.
class XlaPlanes::Placing {
 public:
  Placing(XlaPlanes& planes, std::string_view source, std::int64_t device, bool first)
      : planes_(planes), device_(device), first_(first), draft_(source) {}

  Trace trace(const ReadReport& report, bool numbered) {
    draft_.trace().report = report;
    has_step_line_ = std::ranges::any_of(planes_.events_, [&](const XlaEvent& e) {
      return planes_.lines_[e.line].plane == device_ && planes_.lines_[e.line].kind == LineKind::steps;
    });
    for (const XlaEvent& event : planes_.events_) add(event);
    finish(numbered);
    return draft_.finish();
  }

 private:
  void add(const XlaEvent& event) {
    const Line& line = planes_.lines_[event.line];
    const Plane& plane = planes_.planes_[line.plane];
    if (plane.on_device ? line.plane != device_ : !is_here(line, event)) return;
    const std::string& name = planes_.strings_[event.name];
    if (line.kind == LineKind::steps) {
      std::int64_t number = -1;
      if (read_integer(name, number) != Parsed::fine) number = steps_;
      return mark_step(number, event);
    }
    if (event.step >= 0 && !plane.on_device && !has_step_line_) mark_step(event.step, event);
    Event out;
    out.start_ns = event.start_ns;
    out.duration_ns = event.duration_ns;
    out.correlation = event.correlation > 0 ? event.correlation : -1;
    out.name = draft_.text(name);
    out.kind = kind_of(line, plane, event, name);
    out.track = track_of(event.line, line, plane);
    if (out.kind == EventKind::host_op || out.kind == EventKind::kernel) add_collective(event, name, out);
    const std::uint32_t index = draft_.add(out);
    if (line.works && line.kind == LineKind::operations) enclose(event.line, index, out);
  }

  // Steps are for all; other host events for the devices that their thread serves.
  [[nodiscard]] bool is_here(const Line& line, const XlaEvent& event) const {
    if (event.step >= 0) return true;
    return line.devices.empty() ? first_ : std::ranges::find(line.devices, device_) != line.devices.end();
  }

  void mark_step(std::int64_t number, const XlaEvent& event) {
    add_step(draft_, number, event.start_ns, event.start_ns + event.duration_ns);
    ++steps_;
  }

  [[nodiscard]] static EventKind kind_of(const Line& line, const Plane& plane, const XlaEvent& event,
                                         std::string_view name) {
    if (!plane.on_device) {
      if (is_runtime_call(name)) return EventKind::runtime_call;
      return event.step >= 0 || event.duration_ns == 0 ? EventKind::annotation : EventKind::host_op;
    }
    if (!line.works) return EventKind::device_annotation;
    if (starts_with_any(name, {"Memcpy", "MemCpy", "__amd_rocclr_copy"})) return EventKind::copy;
    if (starts_with_any(name, {"Memset", "__amd_rocclr_fill"})) return EventKind::fill;
    if (line.kind == LineKind::asynchronous && collective_of(name).empty()) return EventKind::copy;
    return EventKind::kernel;
  }

  std::uint32_t track_of(std::uint32_t index, const Line& line, const Plane& plane) {
    const auto [known, is_new] = tracks_.try_emplace(index, no_index);
    if (!is_new) return known->second;
    const std::int64_t stream = line.kind == LineKind::stream ? number_behind(line.name, "#") : -1;
    known->second = plane.on_device ? draft_.track(std::max<std::int64_t>(plane.ordinal, 0),
                                                   stream >= 0 ? stream : line.id, true, line.name)
                                    : draft_.track(line.plane, line.id, false, line.name);
    return known->second;
  }

  void add_collective(const XlaEvent& event, std::string_view name, Event& out) {
    const std::string_view operation = planes_.strings_[event.operation];
    std::string what = out.kind == EventKind::kernel ? collective_of(name) : host_collective_of(name);
    if (what.empty() && out.kind == EventKind::kernel) what = collective_of(operation);
    if (what.empty()) return;
    CollectiveArguments arguments;
    arguments.name = draft_.text(what);
    const Result result = result_of(planes_.strings_[event.text != 0 ? event.text : event.name]);
    if (result.elements >= 0) {
      arguments.out_elements = result.elements;
      arguments.dtype = draft_.text(result.type);
      if (what == "allreduce" || what == "sendrecv" || what == "alltoall") arguments.in_elements = result.elements;
      ++sized_;
    }
    out.collective = static_cast<std::uint32_t>(draft_.trace().collectives.size());
    draft_.trace().collectives.push_back(arguments);
  }

  // On a line of operations a loop and its body both occupy the device: only the innermost count.
  void enclose(std::uint32_t line, std::uint32_t index, const Event& event) {
    std::vector<std::uint32_t>& open = open_[line];
    while (!open.empty() && draft_[open.back()].end_ns() <= event.start_ns) open.pop_back();
    if (!open.empty() && draft_[open.back()].end_ns() >= event.end_ns() && event.duration_ns > 0) {
      draft_[open.back()].kind = EventKind::device_annotation;
      draft_[open.back()].collective = no_index;
    }
    open.push_back(index);
  }

  void finish(bool numbered) {
    Trace& trace = draft_.trace();
    ReadReport& report = trace.report;
    const auto plane = planes_.planes_.find(device_);
    if (plane != planes_.planes_.end()) {
      trace.device_name = plane->second.device;
      trace.device_memory_bytes = plane->second.memory_bytes;
      if (numbered) {
        trace.rank = plane->second.ordinal;
        report.assumed.push_back("a trace for each device that worked; the device's number stands for the rank");
      }
    } else {
      report.missing.push_back("device activity");
    }
    if (steps_ == 0) report.missing.push_back("step annotations (StepTraceAnnotation)");
    if (trace.collectives.size() > sized_) report.missing.push_back("sizes of the collectives");
    if (trace.rank < 0) report.missing.push_back("rank and world size");
    report.python_frames = first_ ? planes_.python_frames_ : 0;
  }

  XlaPlanes& planes_;
  std::int64_t device_;
  bool first_, has_step_line_ = false;
  TraceDraft draft_;
  std::map<std::uint32_t, std::uint32_t> tracks_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> open_;
  std::int64_t steps_ = 0;
  std::size_t sized_ = 0;
};

std::vector<Trace> XlaPlanes::traces(std::string_view source, const ReadReport& report) {
  classify_lines();
  std::vector<std::int64_t> devices = working_devices();
  assign_host_lines();
  std::vector<Trace> traces;
  std::ranges::stable_sort(events_, [](const XlaEvent& x, const XlaEvent& y) {
    return x.start_ns != y.start_ns ? x.start_ns < y.start_ns : x.duration_ns > y.duration_ns;
  });
  const bool numbered = devices.size() > 1;
  constexpr std::int64_t no_device = -1;
  if (devices.empty()) devices.push_back(no_device);
  constexpr std::size_t most_devices = 1024;  // of one machine: each gets a trace, for which all events are looked at
  if (devices.size() > most_devices)
    throw InputError(std::string(source), "at most 1024 devices", std::to_string(devices.size()));
  for (std::size_t i = 0; i < devices.size(); ++i) {
    Trace trace = Placing(*this, source, devices[i], i == 0).trace(report, numbered);
    if (!trace.events.empty()) traces.push_back(std::move(trace));
  }
  if (traces.empty())
    throw InputError(std::string(source), "events on a host or a device",
                     events_.empty() ? "Python frames or events without a time only" : "views derived from them only");
  return traces;
}

}  // namespace stepcast
