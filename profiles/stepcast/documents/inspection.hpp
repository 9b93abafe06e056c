#pragma once
// Inspection: what each of several input files holds, or why it cannot be read.
//
// Small values only: a trace is summed up and let go, so that a folder of traces is inspected in the memory of the
// largest. Not modelled: what the files mean together (ranks of one run, an execution trace with its times).
#include <stepcast/anatomy/trace_summary.hpp>
#include <stepcast/formats/shared/format.hpp>
#include <stepcast/trace/execution_trace.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct InspectedTrace {
  TraceSummary summary;
  ReadReport report;
  std::array<std::size_t, 4> dependencies{};  ///< how many there are of each DependencyKind
  std::size_t forward_backward = 0, groups = 0, host_tracks = 0, device_tracks = 0;
};

struct InspectedExecution {
  std::string source, schema;
  std::int64_t rank = -1;
  std::size_t nodes = 0, with_shapes = 0, collectives = 0, groups = 0;
  ReadReport report;
};

struct InspectedFile {
  std::string name;
  std::vector<InspectedTrace> traces;
  std::vector<Profile> profiles;
  std::vector<InspectedExecution> executions;
  std::vector<std::string> refused;  ///< the file, or members of the archive that it is, and why
};

struct Inspection {
  std::vector<InspectedFile> files;
  bool in_full = false;  ///< for text: everything that is known, not one line a trace

  [[nodiscard]] bool all_read() const;
};

[[nodiscard]] InspectedFile inspected(std::string name, const Reading&);

/// "their arguments", "the shapes around them", ...: whence the bytes of collectives, for people.
[[nodiscard]] std::string_view words_of(BytesSource);
/// "0 %", "<0.1 %", "2.5 %": few digits, but never 0 for a share that is not.
[[nodiscard]] std::string share_text(double share);
/// "a-long-na....json": at most `width` characters, the middle left out; UTF-8 is not cut within a character.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t width);

}  // namespace stepcast
