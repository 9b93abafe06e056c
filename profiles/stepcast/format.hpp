#pragma once
// Formats: the open family of trace readers. A reader is a record: name, summary, sniff, read.
//
// The library never opens a file: a reader takes the bytes of one (plain or gzip) and the name to use in messages.
// Invariant: a reader either returns a Trace that satisfies trace.hpp, saying in its report what was missing, assumed
// and repaired, or throws InputError; it never returns numbers from a file that it did not understand.
#include <stepcast/trace.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace stepcast {

/// The bytes of one input file. The span must outlive the call; nothing is kept.
struct Source {
  std::string name;                  ///< for messages
  std::span<const std::byte> bytes;  ///< as stored: plain or gzip
};

struct ReadOptions {
  bool strict = false;  ///< refuse damaged input instead of repairing it and saying so
  /// Called now and then with the share of the input consumed, 0..1; may be empty.
  std::function<void(double)> progress;
};

struct Format {
  std::string_view name;  ///< "kineto"
  std::string_view summary;
  std::string_view reference;  ///< who writes it, where it is described
  /// True when the first decompressed bytes look like this format.
  bool (*recognises)(std::string_view head);
  /// Throws InputError.
  Trace (*read)(const Source&, const ReadOptions&);
};

/// All formats, in the order in which they are tried (formats/formats.inc).
[[nodiscard]] std::span<const Format> formats();

/// Reads a trace in whichever format recognises it. Throws InputError for empty, unknown or unusable input.
[[nodiscard]] Trace trace_of(const Source&, const ReadOptions& = {});

}  // namespace stepcast
