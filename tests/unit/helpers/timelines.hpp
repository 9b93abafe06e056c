#pragma once
// For tests of readers: text in, a trace, its events as lines, or the message of the refusal out.
#include <stepcast/base/error.hpp>
#include <stepcast/documents/reading.hpp>

#include <algorithm>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace stepcast::test {

inline Trace read(const std::string& text) { return trace_of({"test.json", std::as_bytes(std::span(text))}); }
inline Trace read_strictly(const std::string& text) {
  return trace_of({"test.json", std::as_bytes(std::span(text))}, {.strict = true, .progress = {}});
}
inline std::vector<Trace> traces_in(const std::string& text, const std::string& name = "test.json") {
  return reading_of({name, std::as_bytes(std::span(text))}).traces;
}

template <class Use>
std::string error_of(const Use& use) {
  try {
    use();
  } catch (const InputError& error) { return error.what(); }
  return "";
}
inline std::string refusal_of(const std::string& text) {
  return error_of([&] { (void)reading_of({"test.json", std::as_bytes(std::span(text))}); });
}
inline std::string refusal_of_strict(const std::string& text) {
  return error_of([&] { (void)read_strictly(text); });
}

inline bool mentions(const std::vector<std::string>& lines, const std::string& text) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

/// How many events bear this name.
inline std::size_t named(const Trace& trace, std::string_view name) {
  return static_cast<std::size_t>(
      std::ranges::count_if(trace.events, [&](const Event& event) { return trace.text(event.name) == name; }));
}

/// One line an event: kind name start duration @process/thread[d], then the collective or the operation that it is.
inline std::string lines_of(const Trace& trace) {
  std::ostringstream out;
  for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    const Track& track = trace.tracks[event.track];
    out << name_of(event.kind) << ' ' << trace.text(event.name) << ' ' << event.start_ns << ' ' << event.duration_ns
        << " @" << track.process << '/' << track.thread << (track.on_device ? "d" : "");
    if (event.correlation >= 0) out << " corr=" << event.correlation;
    if (event.collective != no_index) {
      const CollectiveArguments& c = trace.collectives[event.collective];
      out << ' ' << trace.text(c.name);
      if (c.in_elements >= 0) out << ' ' << c.in_elements << ' ' << trace.text(c.dtype);
      if (c.group_size >= 0) out << " group=" << c.group_size;
      if (c.source_rank >= 0 || c.destination_rank >= 0) out << ' ' << c.source_rank << "->" << c.destination_rank;
    }
    for (const OperationArguments& o : trace.operations)
      if (o.event == i) out << " step=" << o.step << " mb=" << o.micro_batch << " stage=" << o.stage;
    out << '\n';
  }
  return out.str();
}

}  // namespace stepcast::test
