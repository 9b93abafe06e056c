#pragma once
// Room formats/shared: what a reader of traces is, and what several readers share.
//
//   bytes -> recognises? -> read -> Reading {traces, profiles, execution traces, a report}
//
// It may include base, encodings, profile and trace.
//
// Formats: the open family of trace readers. A reader is a record: name, summary, sniff, read.
//
// A reader takes the bytes of one file (plain or gzip) and the name to use in messages (source.hpp). A file gives timed
// events (one trace for each rank in it), or the costs of layers (a profile), or a graph without times (an execution
// trace, which is joined with the trace of the same run). Invariant: a reader either returns values that satisfy their
// headers, saying in the report what was missing, assumed and repaired, or throws InputError; it never returns numbers
// from a file that it did not understand. Exactly one format recognises a file.
#include <stepcast/encodings/source.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/trace/execution_trace.hpp>
#include <stepcast/trace/trace.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// What one file gave.
struct Reading {
  std::vector<Trace> traces;               ///< one for each rank in the file
  std::vector<Profile> profiles;           ///< costs of layers, from tables that hold no events
  std::vector<ExecutionTrace> executions;  ///< graphs without times
  std::vector<std::string> refused;        ///< members of an archive that could not be read, and why
};

struct Format {
  std::string_view name;  ///< "kineto"
  std::string_view summary;
  std::string_view reference;  ///< who writes it, where it is described
  /// True when the first decompressed bytes look like this format.
  bool (*recognises)(std::string_view head);
  /// Throws InputError.
  Reading (*read)(const Source&, const ReadOptions&);
};

}  // namespace stepcast
