#pragma once
// Help: the pages of --help, wrapped at the width of a terminal.
#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast::cli {

[[nodiscard]] std::shared_ptr<CLI::FormatterBase> help_formatter();

/// The lines of a verb's examples: commands as people paste them, broken with a backslash, and prose.
[[nodiscard]] std::vector<std::string> example_lines(std::string_view example, std::size_t width);
/// The description of a flag with what the parser knows beside it: "(required)", "(not with --all)".
[[nodiscard]] std::string description_of(const CLI::Option&);

}  // namespace stepcast::cli
