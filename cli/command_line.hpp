#pragma once
// Command line: verbs, flags and values of the program as data, as its parser has them.
#include "values.hpp"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace stepcast::cli {

struct FlagWords {
  std::vector<std::string> names;  ///< with hyphens, short ones first; of an argument its name
  std::string value;               ///< what its value is called; empty: a flag without a value
  std::string description;
  const ValueKind* kind = nullptr;  ///< null: nothing is known of its value
  bool repeated = false, required = false;

  [[nodiscard]] const std::string& name() const { return names.back(); }
  /// Files complete the value, or words do.
  [[nodiscard]] bool files() const { return kind && kind->files; }
  [[nodiscard]] std::vector<std::string> words() const;
  [[nodiscard]] bool several() const { return kind && kind->several; }
};

struct VerbWords {
  std::string name, summary;
  std::vector<FlagWords> flags, arguments;
};

/// What the parser `program` knows.
[[nodiscard]] std::vector<VerbWords> command_line_of(const CLI::App& program);
/// The flags of the program itself.
[[nodiscard]] std::vector<FlagWords> flags_of(const CLI::App& app);

/// Scripts that complete command lines (completion.cpp) and the manual page (manual.cpp).
[[nodiscard]] std::string bash_completion(const CLI::App& program);
[[nodiscard]] std::string zsh_completion(const CLI::App& program);
[[nodiscard]] std::string fish_completion(const CLI::App& program);
[[nodiscard]] std::string manual_page(const CLI::App& program);

}  // namespace stepcast::cli
