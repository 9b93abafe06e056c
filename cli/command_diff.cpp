// stepcast diff: what takes longer in the second of two recordings, and is it noise.
#include "command.hpp"
#include "documents.hpp"
#include "files.hpp"
#include "input.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/baseline/step_difference.hpp>

#include <memory>

namespace stepcast::cli {
namespace {

struct DiffFlags {
  std::string before, after;
  InputFlags input;
  OutputFlags output;
};

/// The one trace of a file.
Trace trace_in(const std::string& file, const DiffFlags& flags) {
  Documents documents = documents_of({file}, flags.input.strict, flags.input.kernels);
  if (documents.traces.size() != 1)
    throw InputError(shown_name(file), "one trace", documents.profile ? "a profile" : "several",
                     documents.profile ? "compare two profiles with 'stepcast predict'" : "give one rank of each run");
  return std::move(documents.traces.front());
}

ExitCode diff(const DiffFlags& flags) {
  check_outputs(flags.output, {}, {flags.before, flags.after});
  const Trace before = trace_in(flags.before, flags), after = trace_in(flags.after, flags);
  const StepDifference difference = difference_of(before, after);
  write_output(flags.output.path, [&](std::ostream& out) { report_of(flags.output).difference(out, difference); });
  return answered;
}

Action add_diff_flags(CLI::App& app) {
  auto flags = std::make_shared<DiffFlags>();
  app.add_option("BEFORE", flags->before, "A trace, plain or gzip")->required();
  app.add_option("AFTER", flags->after, "The trace to compare with it: the same rank of the other run")->required();
  add_reading_flags(app, flags->input);
  add_output_flags(app, flags->output);
  return [flags] { return diff(*flags); };
}

}  // namespace

const Verb diff_verb = {"diff", "Say what takes longer in the second of two recordings, and whether that is noise",
                        "stepcast diff before.json.gz after.json.gz", add_diff_flags};

}  // namespace stepcast::cli
