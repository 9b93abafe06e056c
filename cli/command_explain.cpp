// stepcast TRACE, or stepcast explain TRACE: what ran, where its step's time goes, and what to do about it.
#include "command.hpp"
#include "documents.hpp"
#include "files.hpp"
#include "input.hpp"

#include <stepcast/baseline/explanation.hpp>
#include <stepcast/replay/pipelined/pipeline_replay.hpp>

#include <memory>

namespace stepcast::cli {
namespace {

struct ExplainFlags {
  InputFlags input;
  OutputFlags output;
};

ExitCode explain(const ExplainFlags& flags) {
  check_outputs(flags.output, {}, flags.input.files);
  const ProfileOptions options = profile_options_of(flags.input);
  const Documents documents = documents_of(flags.input.files, flags.input.strict, flags.input.kernels);
  const Report& report = report_of(flags.output);
  if (is_pipelined(documents.traces)) {
    const Answer<PipelineReplay> passes = pipeline_replay_of(documents.traces);
    if (!passes) throw InputError(documents.traces.front().source, "a pipelined job with whole steps", passes.reason());
    write_output(flags.output.path, [&](std::ostream& out) { report.pipeline_replay(out, *passes); });
    return answered;
  }
  const Explanation explanation = explanation_of(documents, options);
  write_output(flags.output.path, [&](std::ostream& out) { report.explanation(out, explanation); });
  return answered;
}

Action add_explain_flags(CLI::App& app) {
  auto flags = std::make_shared<ExplainFlags>();
  app.add_option("TRACE", flags->input.files, "Traces, plain or gzip (ranks of one run)")->required();
  app.add_option("--parameters", flags->input.parameters,
                 "How many parameters are trained, where the trace has no shapes: 350M, 1.5B");
  add_reading_flags(app, flags->input);
  add_output_flags(app, flags->output);
  return [flags] { return explain(*flags); };
}

}  // namespace

const Verb explain_verb = {"explain", "Where a traced step's time goes, and what to do (needs no verb)",
                           "stepcast trace.json.gz  # the same as 'stepcast explain trace.json.gz'\n"
                           "  stepcast explain rank*.json.gz --json  # all ranks: also who is late",
                           add_explain_flags};

}  // namespace stepcast::cli
