// stepcast validate: predictions against what others measured; fails when a case does.
#include "command.hpp"
#include "files.hpp"
#include "input.hpp"
#include "progress.hpp"

#include <stepcast/page/validation_html.hpp>
#include <stepcast/report/validation_report.hpp>
#include <stepcast/validation/validation.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>

namespace stepcast::cli {
namespace {

struct ValidateFlags {
  std::vector<std::string> suites, case_files;
  std::string root = ".", page;
  bool in_full = false;
  OutputFlags output;
};

std::vector<ValidationSuite> suites_of(const ValidateFlags& flags) {
  std::vector<std::string> names = flags.suites;
  if (names.empty() && flags.case_files.empty()) names = shipped_suite_names();
  std::vector<ValidationSuite> suites;
  for (const std::string& name : names) suites.push_back(shipped_suite(name));
  for (const std::string& path : flags.case_files)
    suites.push_back(suite_of_json(FileBytes(path).text(), shown_name(path)));
  return suites;
}

ExitCode validate(const ValidateFlags& flags) {
  std::vector<SuiteResult> results;
  {
    Progress progress("validating");
    ValidationOptions options;
    options.file = [&](const std::string& path) -> std::optional<std::string> {
      const std::filesystem::path full = std::filesystem::path(flags.root) / path;
      if (!std::filesystem::exists(full)) return std::nullopt;
      return std::string(FileBytes(full.string()).text());
    };
    options.progress = [&](double share) { progress.show(share); };
    results = validated(suites_of(flags), options);
  }
  write_output(flags.output.path, [&](std::ostream& out) {
    if (flags.output.json) write_validation_json(out, results);
    else write_validation_text(out, results, flags.in_full);
  });
  if (!flags.page.empty()) write_output(flags.page, [&](std::ostream& out) { write_validation_html(out, results); });
  const bool failed =
      std::any_of(results.begin(), results.end(), [](const SuiteResult& r) { return r.statistics.failed > 0; });
  return failed ? answer_is_no : answered;
}

Action add_validate_flags(CLI::App& app) {
  auto flags = std::make_shared<ValidateFlags>();
  app.add_option("SUITE", flags->suites, "Suites to run (default: all that are shipped)");
  app.add_option("--cases", flags->case_files, "Run the cases of this file (stepcast.cases/1)")
      ->expected(1)
      ->take_all();
  app.add_option("--root", flags->root, "Where files that cases name are looked for (default: here)");
  app.add_option("--html", flags->page, "Also write a page: predicted against measured, errors by method and scale");
  app.add_flag("--long", flags->in_full, "Every case, not only those that failed");
  add_output_flags(app, flags->output);
  return [flags] { return validate(*flags); };
}

}  // namespace

const Verb validate_verb = {"validate", "Compare predictions with published and measured step times",
                            "stepcast validate survey --long", add_validate_flags};

}  // namespace stepcast::cli
