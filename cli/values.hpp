#pragma once
// Values: what the values of flags and arguments are called in the help, and which of them are known in advance.
//
// One table for all verbs, by the name of the flag: a flag means the same wherever it stands. Help, the manual page and
// the completion of shells are made from it and from the parser, so that none of them gets stale; a flag that it does
// not name shows as TEXT and is found by a test.
#include <CLI/CLI.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace stepcast::cli {

struct ValueKind {
  std::string_view name;  ///< "CLUSTER"
  /// Null when no value is known in advance.
  std::vector<std::string> (*words)() = nullptr;
  bool files = false;    ///< a file will do
  bool several = false;  ///< words with commas between them
  bool open = true;      ///< other values than the words will do

  /// Its name in the help: of a few words the words themselves, "grid|bayesian".
  [[nodiscard]] std::string shown() const;
};

/// Null for a flag without a value and for one that the table does not know.
[[nodiscard]] const ValueKind* kind_of(const CLI::Option&);
/// Gives the values of all flags their names in the help.
void name_values(CLI::App& verb);

/// What `stepcast list` lists (command_list.cpp).
[[nodiscard]] std::vector<std::string> list_topics();

}  // namespace stepcast::cli
