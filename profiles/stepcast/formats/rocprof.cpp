// rocprof: the Chrome trace of ROCm's profilers of the first two generations (results.json of rocprof --hip-trace).
//
//   {"ph": "X", "name": "elementwise_kernel", "pid": "8", "tid": "1", "ts": "773902406300", "dur": "5",
//    "args": {"BeginNs": "773902406300661", "EndNs": "773902406305941", "dev-id": "2", "queue-id": "0", ...}}
//
// Processes are kinds of activity ("CPU HIP API", "COPY", "GPU2", "GPU Barriers2", "Markers and Ranges"); every number
// is a string; packets that make a queue wait stand next to the kernels and are none; the exact times are the
// nanoseconds in the arguments. A flow "dep" joins a HIP call with what it launched: by a time within the call, and by
// the microsecond at which the work starts. Written by tblextr.py and sqlitedb.py in ROCm/rocprofiler.
#include <stepcast/base/decimal.hpp>
#include <stepcast/formats/shared/chrome_events.hpp>
#include <stepcast/formats/shared/chrome_writer.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/formats/shared/tensor_steps.hpp>
#include <stepcast/trace/steps.hpp>
#include <stepcast/trace/trace_draft.hpp>

#include <iterator>
#include <map>
#include <tuple>

namespace stepcast::format::rocprof {
namespace {

bool recognises(std::string_view head) { return chrome_writer_of(head) == ChromeWriter::rocprof; }

class RocprofReader {
 public:
  RocprofReader(const Source& source, const ReadOptions& options)
      : source_(source), options_(options), repairs_(source, options), times_(source), draft_(source.name) {}

  Trace read() {
    const ChromeWalk walk =
        walk_chrome_trace(source_, options_, repairs_, {[this](const ChromeEvent& e) { add(e); }, {}});
    require_events(draft_, source_.name, "a rocprof trace with calls or kernels", "none");
    if (!walk.closed) repairs_.say("truncated tail: closing bracket missing");
    times_.report(repairs_);
    repairs_.count(negative_, "event dropped", "events dropped", "a negative or impossible duration");
    place_events();
    link();
    ReadReport& report = draft_.trace().report;
    describe(report, walk, repairs_, "rocprof", "rocprof (ROCm 4 to 6)",
             "kernels, copies and HIP calls; layers need PyTorch's own profiler");
    report.missing.insert(report.missing.end(),
                          {"operators", "shapes", "sizes of the collectives", "rank and world size", "device name"});
    if (links_.empty()) report.missing.push_back("correlation of launches and device work");
    Trace trace = draft_.finish();
    if (steps_of(trace).empty()) trace.report.missing.push_back("step annotations");
    return trace;
  }

 private:
  void add(const ChromeEvent& event) {
    const std::string_view raw = content_of(event.name);
    std::int64_t process = -1;
    if (!read_id(event.process, process)) process = -1;
    switch (event.kind()) {
      case 'M':
        if (raw == "process_name") names_[process] = draft_.json_text(content_of_member(event.arguments, "name"));
        return;
      case 's':
      case 't':
      case 'f':
        return add_flow(event, process);
      case 'X':
        return add_slice(event, process, raw);
      default:
        return;
    }
  }

  void add_slice(const ChromeEvent& event, std::int64_t process, std::string_view raw) {
    Event out;
    const bool exact = read_integer(content_of_member(event.arguments, "BeginNs"), out.start_ns) == Parsed::fine;
    std::int64_t end = 0, thread = -1;
    if (exact && read_integer(content_of_member(event.arguments, "EndNs"), end) == Parsed::fine) {
      constexpr std::int64_t latest = std::int64_t{1} << 61;
      if (out.start_ns < 0 || out.start_ns > latest || end > latest || end < -latest ||
          end - out.start_ns > longest_slice_ns) {
        ++negative_;
        return;
      }
      out.duration_ns = end - out.start_ns;
    } else if (!times_.start(event, out.start_ns) || !times_.duration(event, out.duration_ns)) {
      return;
    }
    if (out.duration_ns < 0) {
      ++negative_;
      return;
    }
    if (draft_.size() >= most_timeline_events) {
      ++draft_.trace().report.events_left_out;
      return;
    }
    if (!read_id(event.thread, thread)) thread = -1;
    out.name = draft_.json_text(raw);
    out.track = draft_.track(process, thread, false);
    std::int64_t microseconds = 0;
    const std::uint32_t index = draft_.add(out);
    rows_.push_back({process, integer_member(event.arguments, "dev-id"), integer_member(event.arguments, "queue-id"),
                     integer_member(event.arguments, "stream-id")});
    if (!read_id(event.start, microseconds)) return;
    // Of calls that begin in the same microsecond the outer one launches.
    const auto start = starts_.try_emplace({process, thread, microseconds}, index).first;
    if (draft_[start->second].duration_ns < out.duration_ns) start->second = index;
  }

  void add_flow(const ChromeEvent& event, std::int64_t process) {
    std::int64_t id = -1, thread = -1, time = 0;
    if (!read_id(event.id, id) || !read_id(event.thread, thread) || !read_id(event.start, time)) return;
    Flow& flow = flows_[id];
    (event.kind() == 's' ? flow.from : flow.to) = Place{process, thread, time};
  }

  // Processes may be named after their slices: what they are is decided when all names are known.
  void place_events() {
    for (std::uint32_t i = 0; i < draft_.size(); ++i) {
      const Row& row = rows_[i];
      const auto name = names_.find(row.process);
      const std::string process = name == names_.end() ? "" : draft_.text_of(name->second);
      Event& event = draft_[i];
      if (process.starts_with("GPU") && draft_.text_of(event.name) == "<barrier packet>") {
        event.kind = EventKind::synchronization;
        event.track = draft_.track(row.device, row.stream >= 0 ? row.stream : row.queue, true, "barriers");
      } else if (process.starts_with("GPU") || process.starts_with("COPY")) {
        event.kind = process.starts_with("GPU") ? EventKind::kernel : EventKind::copy;
        // Copies have a queue of their own.
        const bool copies = process.starts_with("COPY");
        const std::int64_t stream = copies ? -1 : row.stream >= 0 ? row.stream : row.queue;
        event.track = draft_.track(row.device, stream, true, copies ? "copies" : "");
      } else if (process.find("API") != std::string::npos) {
        event.kind = EventKind::runtime_call;
      } else if (process.find("Marker") != std::string::npos) {
        event.kind = EventKind::annotation;
      } else {
        ++draft_.trace().report.events_unclassified;
        draft_.trace().report.unclassified_ns += event.duration_ns;
      }
    }
  }

  using Place = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // process, thread, microseconds
  using Starts = std::map<Place, std::uint32_t>;

  // The innermost call that was running on this thread at that time. Calls nest a few levels deep at most.
  [[nodiscard]] std::uint32_t call_at(const Place& place) {
    constexpr int most_nested = 64;
    auto call = starts_.upper_bound(place);
    for (int i = 0; i < most_nested && call != starts_.begin(); ++i) {
      const auto [process, thread, start] = (--call)->first;
      if (process != std::get<0>(place) || thread != std::get<1>(place)) break;
      std::int64_t since = 0;
      if (__builtin_sub_overflow(std::get<2>(place), start, &since)) break;
      if (since <= draft_[call->second].duration_ns / 1000 + 1) return call->second;
    }
    return no_index;
  }

  void link() {
    for (const auto& [id, flow] : flows_) {
      const std::uint32_t call = call_at(flow.from);
      const auto work = starts_.find(flow.to);
      if (call == no_index || work == starts_.end()) continue;
      const std::int64_t correlation = static_cast<std::int64_t>(links_.size()) + 1;
      // One call may launch several pieces of work.
      const auto [known, is_new] = links_.try_emplace(call, correlation);
      draft_[call].correlation = draft_[work->second].correlation = known->second;
    }
  }

  struct Flow {
    Place from{-1, -1, -1}, to{-1, -1, -1};
  };
  struct Row {
    std::int64_t process, device, queue, stream;
  };
  const Source& source_;
  const ReadOptions& options_;
  Repairs repairs_;
  ChromeTimes times_;
  TraceDraft draft_;
  std::map<std::int64_t, StringId> names_;
  std::vector<Row> rows_;  ///< of each event
  Starts starts_;
  std::map<std::int64_t, Flow> flows_;
  std::map<std::uint32_t, std::int64_t> links_;  ///< HIP call -> correlation
  std::uint64_t negative_ = 0;
};

Reading read(const Source& source, const ReadOptions& options) {
  Reading reading;
  reading.traces.push_back(RocprofReader(source, options).read());
  return reading;
}

}  // namespace

Format record() {
  return {"rocprof", "rocprof v1 and v2: HIP calls, copies and kernels (results.json)",
          "ROCm/rocprofiler, bin/tblextr.py", recognises, read};
}

}  // namespace stepcast::format::rocprof
