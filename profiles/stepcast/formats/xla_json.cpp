// XLA JSON: what TensorFlow's and JAX's profiler writes for its trace viewer (<host>.trace.json.gz).
//
//   {"displayTimeUnit": "ns", "metadata": {...}, "traceEvents": [
//     {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
//     {"ph": "X", "pid": 1, "tid": 13, "ts": 1147.67, "dur": 0.874, "name": "fusion.3",
//      "args": {"hlo_op": "fusion.3", "correlation_id": "18", ...}}, ..., {}]}
//
// Microseconds, fractions down to picoseconds, rounded to nanoseconds at both ends; every argument is a string; the
// last element is an empty object. The viewer's converter stops at a million events and leaves the line of asynchronous
// operations out: xplane.pb of the same run has everything. Written by trace_events_to_json.cc of XLA's profiler (tsl,
// xprof).
#include <stepcast/base/decimal.hpp>
#include <stepcast/base/error.hpp>
#include <stepcast/formats/shared/chrome_events.hpp>
#include <stepcast/formats/shared/chrome_writer.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/formats/xla/xla_planes.hpp>

#include <algorithm>
#include <charconv>
#include <string>

namespace stepcast::format::xla_json {
namespace {

constexpr std::uint64_t event_cap = 1'000'000;  // kMaxEvents in trace_container / trace_viewer conversion

bool recognises(std::string_view head) { return chrome_writer_of(head) == ChromeWriter::xla; }

// Microseconds to whole picoseconds; false where that is out of range.
bool picoseconds(std::string_view json, std::int64_t& ps) {
  const std::string_view text = content_of(json);
  const std::size_t at = std::min(text.find_first_of("eE"), text.size());
  std::string_view power = text.substr(std::min(at + 1, text.size()));
  if (power.starts_with('+')) power.remove_prefix(1);
  int exponent = 0;
  std::from_chars(power.data(), power.data() + power.size(), exponent);
  if (exponent < -100 || exponent > 100) return false;
  const std::string thousandfold = std::string(text.substr(0, at)) + "e" + std::to_string(exponent + 3);
  return read_microseconds(thousandfold, ps) == Parsed::fine;
}

class XlaJsonReader {
 public:
  XlaJsonReader(const Source& source, const ReadOptions& options)
      : source_(source), options_(options), repairs_(source, options), times_(source) {}

  std::vector<Trace> read() {
    const ChromeWalk walk =
        walk_chrome_trace(source_, options_, repairs_, {[this](const ChromeEvent& e) { add(e); }, {}});
    if (slices_ == 0)
      throw InputError(source_.name, "events on a host or a device", "metadata only",
                       "the profiler ran while nothing was executed");
    if (!walk.closed) repairs_.say("truncated tail: closing bracket missing");
    times_.report(repairs_);
    repairs_.count(negative_, "event dropped", "events dropped", "negative duration");
    if (planes_.size() == 0)
      throw InputError(source_.name, "events on a host or a device", "Python frames or events without a time only");
    ReadReport report;
    describe(report, walk, repairs_, "xla-json", "TensorFlow or JAX profiler (trace.json)",
             "steps, kernels and collectives of TensorFlow and JAX; gradients are not marked in it");
    report.events_left_out = planes_.left_out();
    report.missing = {"asynchronous operations (the file leaves them out; xplane.pb has them)"};
    if (slices_ == event_cap)
      report.missing.push_back("events beyond the first million, at which the writer stops: give xplane.pb instead");
    return planes_.traces(source_.name, report);
  }

 private:
  void add(const ChromeEvent& event) {
    if (event.kind() == 'M') return add_name(event);
    if (event.kind() != 'X') return;
    ++slices_;
    XlaEvent out;
    if (!times_.start(event, out.start_ns) || !times_.duration(event, out.duration_ns)) return;
    if (out.duration_ns < 0) {
      ++negative_;
      return;
    }
    round_both_ends(event, out);
    out.line = line_of(event);
    out.name = planes_.json_text(content_of(event.name));
    if (!event.arguments.empty()) {
      out.correlation = integer_member(event.arguments, "correlation_id");
      out.step = integer_member(event.arguments, "step_num");
      out.operation = planes_.json_text(content_of_member(event.arguments, "hlo_op"));
      out.text = planes_.json_text(content_of_member(event.arguments, "long_name"));
    }
    planes_.add(out);
  }

  // What follows another operation must not seem to begin within it: that would be the body of a loop.
  static void round_both_ends(const ChromeEvent& event, XlaEvent& out) {
    std::int64_t start_ps = 0, duration_ps = 0;
    constexpr std::int64_t latest_ps = std::int64_t{1} << 61;
    if (!picoseconds(event.start, start_ps) || !picoseconds(event.duration, duration_ps)) return;
    if (start_ps < 0 || start_ps > latest_ps || duration_ps > latest_ps) return;
    const auto nanoseconds = [](std::int64_t ps) { return (ps + 500) / 1000; };
    out.duration_ns = nanoseconds(start_ps + duration_ps) - out.start_ns;
  }

  std::uint32_t line_of(const ChromeEvent& event) {
    std::int64_t process = -1, thread = -1;
    if (!read_id(event.process, process)) process = -1;
    if (!read_id(event.thread, thread)) thread = -1;
    return planes_.line(process, thread);
  }

  void add_name(const ChromeEvent& event) {
    const std::string_view name = content_of_member(event.arguments, "name");
    std::int64_t process = -1;
    if (name.empty() || !read_id(event.process, process)) return;
    if (event.name == "\"process_name\"") planes_.name_plane(process, name);
    if (event.name == "\"thread_name\"") planes_.name_line(line_of(event), name);
  }

  const Source& source_;
  const ReadOptions& options_;
  Repairs repairs_;
  ChromeTimes times_;
  XlaPlanes planes_;
  std::uint64_t slices_ = 0, negative_ = 0;
};

Reading read(const Source& source, const ReadOptions& options) {
  Reading reading;
  reading.traces = XlaJsonReader(source, options).read();
  return reading;
}

}  // namespace

Format record() {
  return {"xla-json", "TensorFlow and JAX profiler: trace.json of the trace viewer",
          "openxla/xprof, trace_events_to_json.cc; tensorflow/core/profiler", recognises, read};
}

}  // namespace stepcast::format::xla_json
