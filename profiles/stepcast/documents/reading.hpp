#pragma once
// Reading: what a file holds, in whichever format recognises it.
//
// Every format is asked in turn (formats/formats.inc) and exactly one recognises a file; a tar archive is read member
// by member. Example: `Trace trace = trace_of({"rank0.json.gz", bytes});`. Not modelled: several files that belong
// together (documents.hpp).
#include <stepcast/formats/shared/format.hpp>

#include <span>

namespace [[gnu::visibility("default")]] stepcast {

/// All formats, in the order in which they are tried (formats/formats.inc).
[[nodiscard]] std::span<const Format> formats();

/// Reads a file, or every member of a tar archive, in whichever format recognises it. Throws InputError for empty,
/// unknown or unusable input, and for an archive without a single readable member.
[[nodiscard]] Reading reading_of(const Source&, const ReadOptions& = {});
/// The one trace that a file holds. Throws InputError as above and when the file holds anything else.
[[nodiscard]] Trace trace_of(const Source&, const ReadOptions& = {});

}  // namespace stepcast
