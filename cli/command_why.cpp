// stepcast why: for which rank the others wait, since when, and what held it up.
#include "command.hpp"
#include "documents.hpp"
#include "files.hpp"
#include "input.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/baseline/self_check.hpp>

#include <memory>

namespace stepcast::cli {
namespace {

struct WhyFlags {
  InputFlags input;
  OutputFlags output;
};

ExitCode why(const WhyFlags& flags) {
  check_outputs(flags.output, {}, flags.input.files);
  const Documents documents = documents_of(flags.input.files, flags.input.strict, flags.input.kernels);
  const SelfCheck check = lateness_of(documents);
  write_output(flags.output.path, [&](std::ostream& out) { report_of(flags.output).lateness(out, check); });
  return answered;
}

Action add_why_flags(CLI::App& app) {
  auto flags = std::make_shared<WhyFlags>();
  app.add_option("TRACE", flags->input.files, "Traces of the ranks of one run, plain or gzip")->required();
  add_reading_flags(app, flags->input);
  add_output_flags(app, flags->output);
  return [flags] { return why(*flags); };
}

}  // namespace

const Verb why_verb = {"why", "Say for which rank the others wait, in which steps, and what held it up",
                       "stepcast why rank*.json.gz", add_why_flags};

}  // namespace stepcast::cli
