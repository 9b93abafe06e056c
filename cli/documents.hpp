#pragma once
// Documents: what the input files hold together: the traces of a run's ranks, or one profile.
//
// A file is a trace, a part of one, an archive of traces, an execution trace that is joined with the trace of its run,
// a table of layers, or a profile that stepcast wrote. What was repaired or left out is said on stderr.
#include <stepcast/format.hpp>
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

/// Throws InputError for files that cannot be read or do not belong together. `kernels`: a file of rules for the names
/// of kernels (kernel_table.hpp) to put in front of the shipped ones, or empty.
[[nodiscard]] Documents documents_of(const std::vector<std::string>& files, bool strict,
                                     const std::string& kernels = {});
/// What one file holds, a profile that stepcast wrote included. Throws InputError.
[[nodiscard]] Reading reading_of_file(const std::string& file, const ReadOptions&);
/// Gives the traces the rules of this file, if it has a name. Throws InputError.
void use_kernel_rules(const std::string& file, std::vector<Trace>& traces);

}  // namespace stepcast::cli
