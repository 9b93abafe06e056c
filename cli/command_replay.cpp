// stepcast replay: the self-check, rebuilt against measured step time, and both as a timeline; of a pipelined job also
// who is slow, and what its passes would take without that.
#include "command.hpp"
#include "documents.hpp"
#include "edited.hpp"
#include "files.hpp"
#include "input.hpp"

#include <stepcast/replay/replay.hpp>
#include <stepcast/replay/timeline.hpp>
#include <stepcast/report/pipeline_replay_report.hpp>

#include <memory>
#include <vector>

namespace stepcast::cli {
namespace {

struct ReplayFlags {
  InputFlags input;
  OutputFlags output;
  std::string timeline, what;
};

void write_timeline(const std::string& path, const std::vector<Trace>& traces) {
  std::vector<ReplayTimeline> ranks;
  for (const Trace& trace : traces) {
    Answer<ReplayTimeline> timeline = replay_timeline_of(trace);
    if (!timeline) throw InputError("--timeline", "a trace that can be replayed", timeline.reason());
    ranks.push_back(std::move(*timeline));
  }
  write_output(path, [&](std::ostream& out) { report_named("perfetto")->replay_timeline(out, ranks); });
}

template <class T>
T answered_by(Answer<T> answer, const std::vector<Trace>& traces) {
  if (!answer) throw InputError(traces.front().source, "a pipelined job that can be replayed", answer.reason());
  return std::move(*answer);
}

ExitCode replay_pipeline(const ReplayFlags& flags, const std::vector<Trace>& traces) {
  const PipelineReplay result = answered_by(pipeline_replay_of(traces), traces);
  if (!flags.timeline.empty()) {
    const std::vector<ReplayTimeline> workers = answered_by(pipeline_timelines_of(traces), traces);
    write_output(flags.timeline, [&](std::ostream& out) { report_named("perfetto")->replay_timeline(out, workers); });
  }
  write_output(flags.output.path, [&](std::ostream& out) { report_of(flags.output).pipeline_replay(out, result); });
  return answered;
}

ExitCode replay_edited(const ReplayFlags& flags, const std::vector<TaskEdit>& edits, const Documents& documents) {
  const std::vector<EditedReplay> replays = edited_replays(documents, edits);
  if (!flags.timeline.empty()) {
    const std::vector<ReplayTimeline> timelines = edited_timelines(documents, edits);
    write_output(flags.timeline, [&](std::ostream& out) { report_named("perfetto")->replay_timeline(out, timelines); });
  }
  write_output(flags.output.path, [&](std::ostream& out) { report_of(flags.output).replay_edits(out, replays); });
  return answered;
}

ExitCode replay(const ReplayFlags& flags) {
  const std::vector<TaskEdit> edits = flags.what.empty() ? std::vector<TaskEdit>{} : task_edits_of(flags.what);
  check_outputs(flags.output, flags.timeline, flags.input.files);
  const Documents documents = documents_of(flags.input.files, flags.input.strict, flags.input.kernels);
  if (!edits.empty()) return replay_edited(flags, edits, documents);
  if (is_pipelined(documents.traces)) return replay_pipeline(flags, documents.traces);
  const SelfCheck check = self_check_of(documents);
  if (!flags.timeline.empty()) write_timeline(flags.timeline, documents.traces);
  write_output(flags.output.path, [&](std::ostream& out) { report_of(flags.output).replay(out, check); });
  return check.worst() ? answered : answer_is_no;
}

Action add_replay_flags(CLI::App& app) {
  auto flags = std::make_shared<ReplayFlags>();
  app.add_option("TRACE", flags->input.files, "Traces, plain or gzip (ranks of one run)")->required();
  add_reading_flags(app, flags->input);
  app.add_option(
      "--what", flags->what,
      "Schedule the step again after edits of its tasks: 'scale(name=*gemm*, by=0.5)', "
      "'remove(kind=device, phase=after)', 'insert(layer=3, phase=backward, takes=50 us)', and 'network(by=2)' for "
      "all collectives over twice the bandwidth; '+' between them. "
      "Selected by name, row (stream 7), kind (host, device, transfer, gap, latency, turn_around), phase "
      "(before, forward, backward, after) and layer (0..3)");
  app.add_option("--timeline", flags->timeline, "Also write both steps as a trace for ui.perfetto.dev");
  add_output_flags(app, flags->output);
  return [flags] { return replay(*flags); };
}

}  // namespace

const Verb replay_verb = {"replay", "Check the model: rebuild a trace's step from one step, score it on the others",
                          "stepcast replay trace.json.gz --timeline out.json\n"
                          "  stepcast replay trace.json.gz --what 'scale(name=*gemm*|*conv*, by=0.5)'\n"
                          "  stepcast replay pipeline.csv  # which stage of a pipelined job is slow",
                          add_replay_flags};

}  // namespace stepcast::cli
