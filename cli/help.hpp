#pragma once
// Help: the pages of --help, wrapped at the width of a terminal.
#include <CLI/CLI.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast::cli {

[[nodiscard]] std::shared_ptr<CLI::FormatterBase> help_formatter();

/// The flags that are added while it lives stand together in the help, below its name.
class HelpGroup {
 public:
  HelpGroup(CLI::App& app, const char* name) : app_(app), first_(app.get_options().size()), name_(name) {}
  HelpGroup(const HelpGroup&) = delete;
  HelpGroup& operator=(const HelpGroup&) = delete;
  ~HelpGroup();

 private:
  CLI::App& app_;
  std::size_t first_;
  const char* name_;
};

/// The lines of a verb's examples: commands as people paste them, broken with a backslash, and prose.
[[nodiscard]] std::vector<std::string> example_lines(std::string_view example, std::size_t width);
/// The description of a flag with what the parser knows beside it: "(required)", "(not with --all)".
[[nodiscard]] std::string description_of(const CLI::Option&);

}  // namespace stepcast::cli
