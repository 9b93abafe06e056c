// The files that the command line names, opened and read together.
#include "documents.hpp"

#include "input.hpp"
#include "progress.hpp"

#include <stepcast/base/error.hpp>

namespace stepcast::cli {

OpenFiles::OpenFiles(const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    const FileBytes& file = files_.emplace_back(path);
    sources_.push_back({shown_name(path), file.bytes(), [&file](std::size_t count) { file.release(count); }});
  }
}

OpenFiles kernel_rules(const std::string& file) {
  if (file.empty()) return OpenFiles({});
  OpenFiles rules({file});
  if (rules.source().bytes.empty())
    throw InputError(shown_name(file), "rules for the names of kernels", "an empty file");
  return rules;
}

Documents documents_of(const std::vector<std::string>& files, bool strict, const std::string& kernels) {
  const OpenFiles opened(files), rules = kernel_rules(kernels);
  Documents documents;
  {
    Progress progress("reading");
    const ReadOptions options{.strict = strict, .progress = [&](double share) { progress.show(share); }};
    documents = stepcast::documents_of(opened.sources(), options, rules.source());
  }
  for (const std::string& text : documents.notes) note(text);
  return documents;
}

}  // namespace stepcast::cli
