// XlaPlanes: one trace after the other, each of the events of a device and of the host lines that serve it.
#include <stepcast/base/decimal.hpp>
#include <stepcast/base/error.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/formats/shared/tensor_steps.hpp>
#include <stepcast/formats/xla/hlo_text.hpp>
#include <stepcast/formats/xla/xla_lanes.hpp>
#include <stepcast/formats/xla/xla_planes.hpp>
#include <stepcast/trace/trace_draft.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace stepcast {
namespace {

bool is_runtime_call(std::string_view name) {
  return starts_with_any(name, {"cuda", "hip", "cuLaunch", "cuMem", "cuStream", "cuEvent", "cuCtx", "cuGraph"});
}

}  // namespace

// The making of one trace.
class XlaPlanes::Placing {
 public:
  Placing(XlaPlanes& planes, std::string_view source, std::int64_t device, bool first)
      : planes_(planes), device_(device), first_(first), draft_(source) {}

  Trace trace(const ReadReport& report, bool numbered) {
    draft_.trace().report = report;
    for (const XlaEvent& event : planes_.events_) look_at(event);
    for (const XlaEvent& event : planes_.events_) add(event);
    join_pieces();
    finish(numbered);
    return draft_.finish();
  }

 private:
  // What must be known of the device before its first event is placed.
  void look_at(const XlaEvent& event) {
    const Line& line = planes_.lines_[event.line];
    const Plane& plane = planes_.planes_[line.plane];
    if (plane.apart) ++apart_[plane.name];
    has_host_steps_ = has_host_steps_ || (event.step >= 0 && line.kind == LineKind::host && !plane.apart);
    if (line.plane != device_) return;
    has_step_line_ = has_step_line_ || (line.kind == LineKind::steps && !plane.has_streams);
    if (line.kind != LineKind::asynchronous || !line.works) return;
    for (const StringId half : {event.name, event.operation}) halves_.insert(planes_.strings_[half]);
    halves_.emplace(planes_.instruction_of(event).name);
    halves_.erase(std::string());
  }

  void add(const XlaEvent& event) {
    const Line& line = planes_.lines_[event.line];
    const Plane& plane = planes_.planes_[line.plane];
    if (plane.apart || (plane.on_device ? line.plane != device_ : !is_here(line, event))) return;
    const std::string& name = planes_.strings_[event.name];
    if (line.kind == LineKind::steps) return plane.has_streams ? add_piece(event) : mark_step(number_of(name), event);
    if (event.step >= 0 && !plane.on_device && !has_step_line_) mark_step(event.step, event);
    Event out;
    out.start_ns = event.start_ns;
    out.duration_ns = event.duration_ns;
    out.correlation = event.correlation > 0 ? event.correlation : -1;
    out.name = draft_.text(name);
    out.kind = kind_of(line, plane, event, name);
    const bool beside = line.kind == LineKind::asynchronous && line.works;
    out.track = beside ? lane_track(line, lanes_[event.line].take(out.start_ns, out.end_ns()))
                       : track_of(event.line, line, plane);
    const bool operation = line.works && line.kind == LineKind::operations;
    if (operation && place_half(event, name, out)) return;
    if (out.kind == EventKind::host_op || out.kind == EventKind::kernel) add_collective(event, name, out);
    if (beside && out.kind == EventKind::kernel && out.collective == no_index) out.kind = EventKind::copy;
    const std::uint32_t index = draft_.add(out);
    if (operation) enclose(event.line, index, out);
  }

  // What runs beside other operations has two instructions on their line: one that starts it, in no time, and one that
  // waits. It runs from the beginning of the one to the end of the other, which is what the asynchronous line shows;
  // where a file leaves that line out, it is made of the two. Counted as well, they would be the same collective again.
  bool place_half(const XlaEvent& event, const std::string& name, Event& out) {
    const HloInstruction& instruction = planes_.instruction_of(event);
    const HloPart part = hlo_part(name, instruction);
    if (part == HloPart::whole) return false;
    const auto starts = part == HloPart::done ? names_of_start(name, instruction) : std::array{name, name};
    const auto is_shown = [&](const std::string& half) { return halves_.contains(half); };
    if (!is_shown(name) && std::ranges::none_of(starts, is_shown)) {
      if (part == HloPart::start) return start_collective(event, name, out);
      const auto start = start_of(starts);
      if (start == started_.end()) return false;
      Event& begun = draft_[start->second.event];
      begun.duration_ns = event.start_ns + event.duration_ns - begun.start_ns;
      lanes_[event.line].give_back(start->second.lane, begun.end_ns());
      started_.erase(start);
    }
    out.kind = EventKind::device_annotation;
    draft_.add(out);
    enclose(event.line, no_index, out);
    return true;
  }

  bool start_collective(const XlaEvent& event, const std::string& name, Event& out) {
    add_collective(event, name, out);
    if (out.collective == no_index) return false;
    const std::size_t lane = lanes_[event.line].take(out.start_ns, XlaLanes::open_end);
    out.track = lane_track(planes_.lines_[event.line], lane);
    started_.emplace(name, Started{draft_.add(out), lane});
    return true;
  }

  std::uint32_t lane_track(const Line& line, std::size_t lane) {
    const std::int64_t device = std::max<std::int64_t>(planes_.planes_[line.plane].ordinal, 0);
    return draft_.track(device, line.id, true, "asynchronous " + std::to_string(lane + 1));
  }

  struct Started {
    std::uint32_t event;
    std::size_t lane;
  };
  using StartedByName = std::multimap<std::string, Started>;
  // The wait takes the start as its operand; where the text is missing or another, the two are numbered alike.
  [[nodiscard]] static std::array<std::string, 2> names_of_start(std::string_view name, const HloInstruction& done) {
    const std::string_view operand = done.operands.substr(done.operands.rfind('%') + 1);  // npos + 1 = 0
    std::string alike(name);
    if (const std::size_t at = alike.find("-done"); at != std::string::npos) alike.replace(at, 5, "-start");
    return {std::string(operand.substr(0, operand.find_first_of(" ,)"))), alike};
  }
  [[nodiscard]] StartedByName::iterator start_of(const std::array<std::string, 2>& names) {
    for (const std::string& begins : names)
      if (const auto start = started_.lower_bound(begins); start != started_.end() && start->first == begins)
        return start;
    return started_.end();
  }

  // Steps are for all; other host events for the devices that their thread serves.
  [[nodiscard]] bool is_here(const Line& line, const XlaEvent& event) const {
    if (event.step >= 0) return true;
    return line.devices.empty() ? first_ : std::ranges::find(line.devices, device_) != line.devices.end();
  }

  /// "12", "train 12"; else the number of the steps so far.
  [[nodiscard]] std::int64_t number_of(std::string_view name) const {
    std::int64_t number = -1;
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    return read_integer(name.substr(digits), number) == Parsed::fine ? number : steps_;
  }

  // Where there are streams, the line of steps is made of the groups of their kernels: a new piece begins wherever a
  // kernel of another step comes between. The annotations of the host, which those groups come from, say more.
  void add_piece(const XlaEvent& event) {
    if (has_host_steps_) return;
    const std::string& name = planes_.strings_[event.name];
    if (name.empty() || name.back() < '0' || name.back() > '9') return mark_step(steps_, event);
    const std::int64_t end_ns = event.start_ns + event.duration_ns;
    const auto [piece, is_new] = pieces_.try_emplace(event.name, event.start_ns, end_ns);
    if (!is_new) piece->second.second = std::max(piece->second.second, end_ns);
  }
  void join_pieces() {
    std::vector<std::pair<std::pair<std::int64_t, std::int64_t>, StringId>> steps;
    for (const auto& [name, piece] : pieces_) steps.emplace_back(piece, name);
    std::ranges::sort(steps);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      auto [start_ns, end_ns] = steps[i].first;
      if (i + 1 < steps.size()) end_ns = std::min(end_ns, steps[i + 1].first.first);
      add_step(draft_, number_of(planes_.strings_[steps[i].second]), start_ns, end_ns);
      ++steps_;
    }
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
    return EventKind::kernel;
  }

  std::uint32_t track_of(std::uint32_t index, const Line& line, const Plane& plane) {
    const auto [known, is_new] = tracks_.try_emplace(index, no_index);
    if (!is_new) return known->second;
    known->second = plane.on_device ? draft_.track(std::max<std::int64_t>(plane.ordinal, 0),
                                                   line.stream >= 0 ? line.stream : line.id, true, line.name)
                                    : draft_.track(line.plane, line.id, false, line.name);
    return known->second;
  }

  void add_collective(const XlaEvent& event, std::string_view name, Event& out) {
    const std::string_view operation = planes_.strings_[event.operation];
    const bool on_device = out.kind == EventKind::kernel;
    const HloInstruction instruction = on_device ? planes_.instruction_of(event) : HloInstruction();
    if (on_device && hlo_part(name, instruction) == HloPart::done) return;
    std::string what = on_device ? hlo_collective(name) : tensorflow_collective(name);
    for (const std::string_view said : {operation, instruction.opcode})
      if (on_device && what.empty()) what = hlo_collective(said);
    if (what.empty()) return;
    CollectiveArguments arguments;
    arguments.name = draft_.text(what);
    HloElements elements = hlo_elements(instruction);
    if (what == "allreduce" || what == "sendrecv" || what == "alltoall") elements.in = elements.out;
    // What a fusion takes in is more than what it scatters, and what it gives is only a part of that.
    if (what == "reducescatter" && hlo_collective(instruction.opcode).empty()) elements = {};
    if (what == "collective" || (what == "reducescatter" && elements.in < 0)) elements = {};
    if (elements.out >= 0) {
      arguments.in_elements = elements.in;
      arguments.out_elements = elements.out;
      arguments.dtype = draft_.text(elements.type);
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
    if (index != no_index) open.push_back(index);
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
    for (const auto& [name, events] : apart_)
      report.missing.push_back("what \"" + name + "\" did: " + counted(std::int64_t(events), "event") + " left out");
    if (!started_.empty())
      report.missing.push_back("the ends of collectives that were started: " + std::to_string(started_.size()));
    if (trace.collectives.size() > sized_) report.missing.push_back("sizes of the collectives");
    if (trace.rank < 0) report.missing.push_back("rank and world size");
    report.python_frames = first_ ? planes_.python_frames_ : 0;
  }

  XlaPlanes& planes_;
  std::int64_t device_;
  bool first_, has_step_line_ = false, has_host_steps_ = false;
  TraceDraft draft_;
  std::map<std::uint32_t, std::uint32_t> tracks_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> open_;
  std::set<std::string, std::less<>> halves_;  ///< instructions whose operation the asynchronous line shows
  StartedByName started_;                      ///< collectives whose end has not been met, oldest first
  std::map<std::uint32_t, XlaLanes> lanes_;    ///< by line
  std::map<std::string, std::uint64_t> apart_;
  std::map<StringId, std::pair<std::int64_t, std::int64_t>> pieces_;  ///< of steps by name: from, to
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
                     events_.empty() ? "Python frames or events without a time only"
                                     : "only views derived from them or cores beside them");
  return traces;
}

}  // namespace stepcast
