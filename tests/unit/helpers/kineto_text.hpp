#pragma once
// Small Kineto files as text, and traces as text, for the tests of the reader.
#include <stepcast/base/error.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/formats/kineto/kineto_windows.hpp>
#include <stepcast/formats/kineto/trace_builder.hpp>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast::test {

inline Trace read(const std::string& text, bool strict = false) {
  return trace_of({"test.json", std::as_bytes(std::span(text))}, {.strict = strict, .progress = {}});
}

inline std::string error_of(const std::string& text, bool strict = false) {
  try {
    (void)read(text, strict);
  } catch (const InputError& error) { return error.what(); }
  return "";
}

// An operator from `ts` for `dur` microseconds, as 1.12 and later write it.
inline std::string op(const std::string& name, const std::string& ts, const std::string& dur,
                      const std::string& args = "") {
  return R"({"ph": "X", "cat": "cpu_op", "name": ")" + name + R"(", "pid": 7, "tid": 8, "ts": )" + ts + R"(, "dur": )" +
         dur + R"(, "args": {)" + args + "}}";
}

inline std::string file_of(const std::string& events) {
  return R"({"schemaVersion": 1, "traceEvents": [)" + events + "]}";
}

inline bool mentions(const std::vector<std::string>& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

// One line an event: kind name start duration @process/thread[d], then the links that it has.
inline std::string text_of(const Trace& trace) {
  std::ostringstream out;
  for (const Event& e : trace.events) {
    const Track& track = trace.tracks[e.track];
    out << name_of(e.kind) << ' ' << trace.text(e.name) << ' ' << e.start_ns << ' ' << e.duration_ns << " @"
        << track.process << '/' << track.thread << (track.on_device ? "d" : "");
    if (e.correlation >= 0) out << " corr=" << e.correlation;
    if (e.external_id >= 0) out << " ext=" << e.external_id;
    if (e.sequence >= 0) out << " seq=" << e.sequence;
    if (e.forward_thread >= 0) out << " fwd=" << e.forward_thread;
    if (e.shapes) out << ' ' << trace.text(e.shapes);
    if (e.types) out << ' ' << trace.text(e.types);
    out << '\n';
  }
  return out.str();
}

// Reads the events of `text` with the given sizes; the report is left out.
inline Trace read_in_windows(const std::string& text, WindowSizes sizes) {
  const std::size_t key = text.find("\"traceEvents\"");
  const std::size_t begin = text.find('[', key == std::string::npos ? 0 : key) + 1;
  PlainText plain(std::as_bytes(std::span(text).subspan(begin)));
  JsonText json(plain);
  TraceBuilder builder("test", false, 0);
  (void)read_events(json, builder, "test", {}, sizes);
  return builder.finish({}, text.size());
}

inline bool kineto_recognises(const Source& source) {
  PlainText plain(source.bytes);
  std::string head(1u << 16, '\0');
  head.resize(plain.read(head));
  return std::ranges::find(formats(), "kineto", &Format::name)->recognises(head);
}

inline std::vector<std::string> sorted_lines(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::ranges::sort(lines);
  return lines;
}

inline std::string plain_text_of(const Source& source) {
  PlainText plain(source.bytes);
  std::string text(1u << 27, '\0');
  text.resize(plain.read(text));
  return text;
}

}  // namespace stepcast::test
