#pragma once
// Room encodings: what files are made of (gzip, tar, JSON, protobuf, SQLite), not what they mean.
//
//   bytes of run.tar.gz -> inflate -> archive -> rank0.json -> JSON -> strings and numbers
//
// It may include base.
//
// Source: the bytes of one file and the name to use in messages. The library never opens a file.
//
// Invariant: nothing is kept of a source after the call that was given it. Example: `Source{"rank0.json.gz", bytes}`.
// Not modelled: streams; a file is mapped or read as a whole by whoever opens it.
#include <cstddef>
#include <functional>
#include <span>
#include <string>

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

}  // namespace stepcast
