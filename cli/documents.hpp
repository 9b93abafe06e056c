#pragma once
// Documents: the input files of a command as the sources of a library that opens none.
//
// Files are mapped; what was repaired or left out is said on stderr, and how far reading got is shown there.
#include "files.hpp"

#include <stepcast/documents/documents.hpp>

#include <deque>
#include <span>
#include <string>
#include <vector>

namespace stepcast::cli {

/// Files that are open, and their bytes as sources, in their order.
class OpenFiles {
 public:
  /// Throws InputError when one of them cannot be read.
  explicit OpenFiles(const std::vector<std::string>& files);
  OpenFiles(OpenFiles&&) = default;
  OpenFiles& operator=(OpenFiles&&) = delete;
  [[nodiscard]] std::span<const Source> sources() const { return sources_; }
  /// The first of them; one without bytes when there are none.
  [[nodiscard]] Source source() const { return sources_.empty() ? Source{} : sources_.front(); }

 private:
  std::deque<FileBytes> files_;
  std::vector<Source> sources_;
};

/// The file of --kernels, or none when it was not given. Throws InputError for an empty file as well.
[[nodiscard]] OpenFiles kernel_rules(const std::string& file);

/// Throws InputError for files that cannot be read or do not belong together. `kernels`: a file of rules for the names
/// of kernels to put in front of the shipped ones, or empty.
[[nodiscard]] Documents documents_of(const std::vector<std::string>& files, bool strict,
                                     const std::string& kernels = {});

}  // namespace stepcast::cli
