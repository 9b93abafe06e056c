#include "documents.hpp"

#include "input.hpp"
#include "progress.hpp"

namespace stepcast::cli {

OpenFiles::OpenFiles(const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    const FileBytes& file = files_.emplace_back(path);
    sources_.push_back({shown_name(path), file.bytes(), [&file](std::size_t count) { file.release(count); }});
  }
}

std::vector<std::string> named(const std::string& file) {
  return file.empty() ? std::vector<std::string>{} : std::vector{file};
}

Documents documents_of(const std::vector<std::string>& files, bool strict, const std::string& kernels) {
  const OpenFiles opened(files), rules(named(kernels));
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
