#pragma once
// Documents: what the input files hold together: the traces of a run's ranks, or one profile.
//
// A file is a trace, an archive of traces, an execution trace that is joined with the trace of its run, a table of
// layers, or a profile that stepcast wrote. What was repaired or left out is said on stderr.
#include <stepcast/profile.hpp>
#include <stepcast/trace.hpp>

#include <optional>
#include <string>
#include <vector>

namespace stepcast::cli {

struct Documents {
  std::vector<Trace> traces;
  std::optional<Profile> profile;  ///< then there are no traces
};

/// Throws InputError for files that cannot be read or do not belong together.
[[nodiscard]] Documents documents_of(const std::vector<std::string>& files, bool strict);

}  // namespace stepcast::cli
