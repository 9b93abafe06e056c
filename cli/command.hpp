#pragma once
// Commands: one verb a file. A verb adds its flags to a parser and says what to run once they are parsed.
//
// Invariant: results go to stdout or the file of -o, diagnostics to stderr; what a verb returns is the exit code.
#include <CLI/CLI.hpp>

#include <functional>
#include <span>
#include <string_view>

namespace stepcast::cli {

/// Exit codes of the program.
enum ExitCode : int {
  answered = 0,
  answer_is_no = 1,  ///< the question was understood and the answer is no: an inapplicable plan
  input_error = 2,   ///< usage or input error; one line on stderr says which
  internal_error = 3,
};

using Action = std::function<ExitCode()>;

struct Verb {
  std::string_view name;
  std::string_view summary;
  std::string_view example;  ///< shown by --help
  Action (*add_flags)(CLI::App&);
};

extern const Verb explain_verb, diff_verb, why_verb, recommend_verb, compare_verb, predict_verb, replay_verb,
    profile_verb, calibrate_verb, validate_verb, list_verb, whatif_verb, inspect_verb, export_verb, sweep_verb,
    report_verb, completion_verb, manual_verb;
/// All verbs in the order of the help.
[[nodiscard]] std::span<const Verb* const> verbs();

}  // namespace stepcast::cli
