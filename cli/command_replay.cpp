// stepcast replay: the self-check, rebuilt against measured step time.
#include "command.hpp"
#include "files.hpp"
#include "input.hpp"

#include <memory>

namespace stepcast::cli {
namespace {

struct Flags {
  InputFlags input;
  OutputFlags output;
};

ExitCode replay(const Flags& flags) {
  refuse_overwriting(flags.output.path, flags.input.files);
  const SelfCheck check = self_check_of(flags.input);
  write_output(flags.output.path, [&](std::ostream& out) { report_of(flags.output).replay(out, check); });
  return check.worst() ? answered : answer_is_no;
}

Action add_flags(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("TRACE", flags->input.files, "Traces, plain or gzip (ranks of one run)")->required();
  app.add_flag("--strict", flags->input.strict, "Refuse a damaged trace, do not repair it");
  add_output_flags(app, flags->output);
  return [flags] { return replay(*flags); };
}

}  // namespace

const Verb replay_verb = {"replay", "Check the model: rebuild a trace's step from one step, score it on the others",
                          "stepcast replay trace.json.gz", add_flags};

}  // namespace stepcast::cli
