// stepcast export: traces, or a planned job, in a format that other tools read; one file a rank.
#include "asked.hpp"
#include "command.hpp"
#include "documents.hpp"
#include "files.hpp"
#include "input.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/documents/chakra_export.hpp>
#include <stepcast/question/question.hpp>
#include <stepcast/report/text/table.hpp>
#include <stepcast/simulators/planned_job.hpp>

#include <memory>
#include <ostream>
#include <set>

namespace stepcast::cli {
namespace {

struct ExportFlags {
  InputFlags input;
  ClusterFlags cluster;
  std::string prefix, format = "chakra", step, plan;
};

/// The rank that each trace says it is; without a word of theirs, their number.
std::vector<std::int64_t> ranks_of(const std::vector<Trace>& traces) {
  std::vector<std::int64_t> ranks;
  std::set<std::int64_t> seen;
  for (const Trace& trace : traces) {
    const std::int64_t rank = trace.rank >= 0 ? trace.rank : static_cast<std::int64_t>(ranks.size());
    if (!seen.insert(rank).second)
      throw InputError(trace.source, "one trace for each rank", "a second trace of rank " + std::to_string(rank));
    ranks.push_back(rank);
  }
  return ranks;
}

std::string time_text(std::int64_t ns) { return text_of(Seconds(static_cast<double>(ns) * 1e-9)); }

/// What is said of a job that nobody ran, where the recorded one is asked for.
void refuse_plan_flags(const ExportFlags& flags) {
  const ClusterFlags& c = flags.cluster;
  const std::string level = c.level.empty() ? "" : c.level.front(), same = c.same_device ? "yes" : "";
  for (const auto& [flag, value] :
       {std::pair{"--model", &flags.input.model}, std::pair{"--device", &flags.input.device},
        std::pair{"--batch", &flags.input.batch}, std::pair{"--cluster", &c.cluster},
        std::pair{"--workers", &c.workers}, std::pair{"--per-node", &c.per_node}, std::pair{"--network", &c.network},
        std::pair{"--level", &level}, std::pair{"--inside", &c.inside}, std::pair{"--collective", &c.collective},
        std::pair{"--same-device", &same}, std::pair{"--faster-compute", &c.faster_compute}})
    if (!value->empty())
      throw InputError(flag, "a planned job", "the recorded one", "give --plan, such as --plan ddp --workers 64");
}

/// The files of a planned job: of every rank the same trace, and the network beside them.
ExitCode export_plan(const ExportFlags& flags) {
  if (!flags.step.empty()) throw InputError("--step", "a recorded job, whose step it names", "--plan");
  const Plan plan = plan_of(flags.plan);
  if (plan.layout)
    throw InputError("--plan", "a plan that divides the batch alone, of which all ranks do the same", flags.plan,
                     "the ranks of a layout differ, which is not written yet");
  const Asked asked = asked_of(flags.input, flags.cluster, {}, {.step_of_worker = true});
  if (asked.check.models_another_job()) {
    note("not here: " + asked.check.caution() + "; the planned job would be another one");
    return answer_is_no;
  }
  const PreparedQuestion question(asked.question);
  const Cluster& cluster = question.cluster();
  constexpr std::int64_t most_files = 16384;
  if (cluster.workers() > most_files)
    throw InputError("--workers", "at most " + std::to_string(most_files) + " ranks, a file each",
                     std::to_string(cluster.workers()));
  const Answer<PlannedJob> job = planned_job(*question.profile(), cluster, plan.strategy);
  if (!job) {
    note("not here: " + job.reason());
    return answer_is_no;
  }
  std::vector<std::pair<std::string, const std::string*>> files;
  for (std::int64_t rank = 0; rank < cluster.workers(); ++rank)
    files.emplace_back(flags.prefix + "." + std::to_string(rank) + ".et", &job->execution_trace);
  files.emplace_back(flags.prefix + ".network.yml", &job->network);
  files.emplace_back(flags.prefix + ".system.json", &job->system);
  files.emplace_back(flags.prefix + ".memory.json", &job->memory);
  for (const auto& [name, text] : files) {
    refuse_overwriting(name, files_of(flags.input, flags.cluster));
    check_writable(name);
  }
  for (const auto& [name, text] : files) write_output(name, [&](std::ostream& out) { out << *text; });
  for (const std::string& remark : job->remarks) note(remark);
  write_output("-", [&](std::ostream& out) {
    write_labelled(out, "ranks",
                   flags.prefix + ".0.et to " + flags.prefix + "." + std::to_string(cluster.workers() - 1) +
                       ".et: " + counted(static_cast<std::int64_t>(job->nodes), "node") + " each, " +
                       counted(static_cast<std::int64_t>(job->collectives), "collective"));
    write_labelled(out, "predicted",
                   text_of(job->compute) + " of compute, " + text_of(job->communication) + " of communication");
    write_labelled(out, "network", flags.prefix + ".network.yml, .system.json and .memory.json, for ASTRA-sim 2");
  });
  return answered;
}

ExitCode export_traces(const ExportFlags& flags) {
  if (flags.format != "chakra") throw InputError("--format", "chakra", in_quotes(flags.format));
  if (flags.prefix.empty() || flags.prefix == "-" || flags.prefix.ends_with('/'))
    throw InputError("-o", "a prefix for the files, PREFIX.<rank>.et", in_quotes_or_nothing(flags.prefix));
  if (!flags.plan.empty()) return export_plan(flags);
  refuse_plan_flags(flags);
  if (flags.input.files.empty()) throw InputError("export", "traces, or --plan and the job that it plans", "nothing");
  const std::int64_t step = flags.step.empty() ? -1 : integer_of(flags.step, "--step", 0, 1'000'000'000'000);
  const Documents documents = documents_of(flags.input.files, flags.input.strict);
  if (documents.profile) throw InputError(flags.input.files.front(), "traces", "a profile, which has no events");
  const std::vector<std::int64_t> ranks = ranks_of(documents.traces);
  const auto name_of_rank = [&](std::size_t i) { return flags.prefix + "." + std::to_string(ranks[i]) + ".et"; };
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    refuse_overwriting(name_of_rank(i), flags.input.files);
    check_writable(name_of_rank(i));
  }
  // All or nothing: files of some ranks alone would be taken for the whole run.
  std::vector<ChakraExport> exports;
  for (const Trace& trace : documents.traces) exports.push_back(chakra_export_of(trace, step));
  using enum TextTable::Align;
  TextTable table({{"file", flexible}, {"nodes", right}, {"host", right}, {"device", right}, {"communication", right}});
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const ChakraExport& written = exports[i];
    write_output(name_of_rank(i), [&](std::ostream& out) { out << written.bytes; });
    for (const std::string& remark : written.remarks) note(documents.traces[i].source + ": " + remark);
    table.add_row({name_of_rank(i), std::to_string(written.nodes), time_text(written.host_ns),
                   time_text(written.device_ns),
                   time_text(written.communication_ns) + " in " + std::to_string(written.communication_nodes)});
  }
  write_output("-", [&](std::ostream& out) { table.write(out); });
  return answered;
}

Action add_export_flags(CLI::App& app) {
  auto flags = std::make_shared<ExportFlags>();
  app.add_option("TRACE", flags->input.files, "Traces, plain or gzip (ranks of one run)");
  app.add_option("-o,--output", flags->prefix, "Prefix of the files: PREFIX.<rank>.et")->required();
  app.add_option("--format", flags->format, "Format of the files (default chakra, the input of ASTRA-sim)");
  app.add_option("--step", flags->step, "Only the annotated step of this number");
  app.add_flag("--strict", flags->input.strict, "Refuse a damaged trace, do not repair it");
  app.add_option(
      "--plan", flags->plan,
      "Write the job under this plan instead: every rank of --workers, and the cluster as ASTRA-sim's network");
  app.add_option("--model", flags->input.model,
                 "With --plan: shipped list that names a trace's tensors, or a description");
  app.add_option("--device", flags->input.device, "With --plan: device of a described model, or a JSON file");
  app.add_option("--batch", flags->input.batch, "With --plan: samples of a worker in each step");
  ClusterFlags& cluster = flags->cluster;
  app.add_option("--cluster", cluster.cluster,
                 "With --plan: shipped cluster, 8xp5 for so many machines, or a JSON file");
  app.add_option("--workers", cluster.workers, "With --plan: devices of the cluster in all");
  app.add_option("--per-node", cluster.per_node, "With --plan: devices per machine (default 1)");
  app.add_option("--network", cluster.network, "With --plan: link between machines");
  app.add_option("--level", cluster.level, "With --plan: a level of that network; again: the next one out")
      ->allow_extra_args(false);
  app.add_option("--inside", cluster.inside, "With --plan: link between devices of a machine");
  app.add_option("--collective", cluster.collective, "With --plan: all-reduce algorithm, or table (measured)");
  add_device_flags(app, cluster);
  return [flags] { return export_traces(*flags); };
}

}  // namespace

const Verb export_verb = {
    "export", "Write traces, or a planned job, as Chakra execution traces for ASTRA-sim",
    "stepcast export rank0.json.gz rank1.json.gz -o run --format chakra --step 2\n"
    "  stepcast export trace.json.gz --plan ddp --workers 64 --per-node 8 --network 400Gb/s -o job",
    add_export_flags};

}  // namespace stepcast::cli
