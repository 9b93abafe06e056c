#pragma once
// Formats: the open family of trace readers. A reader is a record: name, summary, sniff, read.
//
// The library never opens a file: a reader takes the bytes of one (plain or gzip) and the name to use in messages. A
// file gives timed events (one trace for each rank in it), or the costs of layers (a profile), or a graph without times
// (an execution trace, which is joined with the trace of the same run). Invariant: a reader either returns values that
// satisfy their headers, saying in the report what was missing, assumed and repaired, or throws InputError; it never
// returns numbers from a file that it did not understand. Exactly one format recognises a file.
#include <stepcast/execution_trace.hpp>
#include <stepcast/profile.hpp>
#include <stepcast/trace.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace [[gnu::visibility("default")]] stepcast {

/// The bytes of one input file. The span must outlive the call; nothing is kept.
struct Source {
  std::string name;                  ///< for messages
  std::span<const std::byte> bytes;  ///< as stored: plain or gzip
  /// Told now and then how many of the bytes will hardly be looked at again; may be empty.
  std::function<void(std::size_t)> release{};
};

struct ReadOptions {
  bool strict = false;  ///< refuse damaged input instead of repairing it and saying so
  /// Called now and then with the share of the input consumed, 0..1; may be empty.
  std::function<void(double)> progress;
  unsigned threads = 0;  ///< that read one file; 0: as many as the machine has cores. Results do not depend on it
  /// Of a longer recording a stretch of whole steps is kept, so that memory is bounded. Told in the report.
  std::size_t most_events = std::size_t{1} << 19;
};

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

/// All formats, in the order in which they are tried (formats/formats.inc).
[[nodiscard]] std::span<const Format> formats();

/// Reads a file, or every member of a tar archive, in whichever format recognises it. Throws InputError for empty,
/// unknown or unusable input, and for an archive without a single readable member.
[[nodiscard]] Reading reading_of(const Source&, const ReadOptions& = {});
/// The one trace that a file holds. Throws InputError as above and when the file holds anything else.
[[nodiscard]] Trace trace_of(const Source&, const ReadOptions& = {});

}  // namespace stepcast
