// Inspection: from what a reader gave to the few numbers that are shown.
#include <stepcast/base/words.hpp>
#include <stepcast/documents/inspection.hpp>

#include <algorithm>
#include <utility>

namespace stepcast {
namespace {

InspectedTrace inspected(const Trace& trace) {
  InspectedTrace out;
  out.summary = summary_of(trace);
  out.report = trace.report;
  for (const Dependency& d : trace.dependencies) ++out.dependencies[static_cast<std::size_t>(d.kind)];
  out.forward_backward = trace.forward_backward.size();
  out.groups = trace.groups.size();
  for (const Track& track : trace.tracks) ++(track.on_device ? out.device_tracks : out.host_tracks);
  return out;
}

InspectedExecution inspected(const ExecutionTrace& execution) {
  InspectedExecution out;
  out.source = execution.source;
  out.schema = execution.schema;
  out.rank = execution.rank;
  out.nodes = execution.nodes.size();
  out.with_shapes = static_cast<std::size_t>(
      std::ranges::count_if(execution.nodes, [](const ExecutionNode& n) { return !n.input_shapes.empty(); }));
  out.collectives = execution.collectives.size();
  out.groups = execution.groups.size();
  out.report = execution.report;
  return out;
}

/// True within a character of several bytes.
bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0u) == 0x80u; }

}  // namespace

InspectedFile inspected(std::string name, const Reading& reading) {
  InspectedFile out;
  out.name = std::move(name);
  for (const Trace& trace : reading.traces) out.traces.push_back(inspected(trace));
  out.profiles = reading.profiles;
  for (const ExecutionTrace& execution : reading.executions) out.executions.push_back(inspected(execution));
  out.refused = reading.refused;
  return out;
}

bool Inspection::all_read() const {
  return std::ranges::all_of(files, [](const InspectedFile& file) { return file.refused.empty(); });
}

std::string_view words_of(BytesSource source) {
  switch (source) {
    case BytesSource::metadata:
      return "their arguments";
    case BytesSource::execution_trace:
      return "the execution trace";
    case BytesSource::shapes:
      return "the shapes of their operators";
    case BytesSource::gradients:
      return "the gradients before them";
    case BytesSource::unknown:
      break;
  }
  return "nothing";
}

std::string share_text(double share) {
  if (share <= 0) return "0 %";
  return share < 0.0005 ? "<0.1 %" : percent(share);
}

std::string shortened(std::string_view text, std::size_t width) {
  constexpr std::string_view gap = "...";
  if (text.size() <= width) return std::string(text);
  if (width <= gap.size()) return std::string(text.substr(0, width));
  std::size_t head = (width - gap.size() + 1) / 2, tail = text.size() - (width - gap.size() - head);
  while (head > 0 && continues(text[head])) --head;
  while (tail < text.size() && continues(text[tail])) ++tail;
  return std::string(text.substr(0, head)) + std::string(gap) + std::string(text.substr(tail));
}

}  // namespace stepcast
