// stepcast export: traces, or a planned job, in a format that other tools read; one file a rank.
#include "asked.hpp"
#include "command.hpp"
#include "documents.hpp"
#include "files.hpp"
#include "input.hpp"
#include "progress.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/documents/chakra_export.hpp>
#include <stepcast/question/question.hpp>
#include <stepcast/report/text/table.hpp>
#include <stepcast/simulators/planned_job.hpp>
#include <stepcast/simulators/planned_layout.hpp>

#include <functional>
#include <memory>
#include <ostream>
#include <set>

namespace stepcast::cli {
namespace {

struct ExportFlags {
  InputFlags input;
  ClusterFlags cluster;
  LayoutFlags layout;
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
        std::pair{"--global-batch", &flags.layout.global_batch}, std::pair{"--same-device", &same},
        std::pair{"--faster-compute", &c.faster_compute}})
    if (!value->empty())
      throw InputError(flag, "a planned job", "the recorded one", "give --plan, such as --plan ddp --workers 64");
}

constexpr std::int64_t most_files = 16384;

/// A file's name and what is written into it.
using Files = std::vector<std::pair<std::string, std::function<std::string()>>>;

/// All or nothing: no file is written before each can be.
void write_files(const ExportFlags& flags, const Files& files) {
  for (const auto& [name, text] : files) {
    refuse_overwriting(name, files_of(flags.input, flags.cluster));
    check_writable(name);
  }
  Progress progress("writing files");
  for (std::size_t i = 0; i < files.size(); ++i) {
    progress.show(static_cast<double>(i) / static_cast<double>(files.size()));
    write_output(files[i].first, [&](std::ostream& out) { out << files[i].second(); });
  }
}

/// Of a planned job or layout, which has to outlive them: the cluster beside the traces.
template <class Job>
void add_network(Files& files, const ExportFlags& flags, const Job& job) {
  files.emplace_back(flags.prefix + ".network.yml", [&job] { return job.network; });
  files.emplace_back(flags.prefix + ".system.json", [&job] { return job.system; });
  files.emplace_back(flags.prefix + ".memory.json", [&job] { return job.memory; });
}

void write_network(std::ostream& out, const ExportFlags& flags) {
  write_labelled(out, "network", flags.prefix + ".network.yml, .system.json and .memory.json, for ASTRA-sim 2");
}

std::string names_of_ranks(const ExportFlags& flags, std::int64_t ranks) {
  return flags.prefix + ".0.et to " + flags.prefix + "." + std::to_string(ranks - 1) + ".et";
}

void refuse_too_many_ranks(const Cluster& cluster) {
  if (cluster.workers() > most_files)
    throw InputError("--workers", "at most " + std::to_string(most_files) + " ranks, a file each",
                     std::to_string(cluster.workers()));
}

/// Of a plan that divides the batch alone: of every rank the same trace, and the network beside them.
ExitCode export_data_parallel(const ExportFlags& flags, const PreparedQuestion& question, const PlanSpec& plan) {
  const Cluster& cluster = question.cluster();
  const Answer<PlannedJob> job = planned_job(*question.profile(), cluster, plan);
  if (!job) {
    note("not here: " + job.reason());
    return answer_is_no;
  }
  Files files;
  for (std::int64_t rank = 0; rank < cluster.workers(); ++rank)
    files.emplace_back(flags.prefix + "." + std::to_string(rank) + ".et", [&] { return job->execution_trace; });
  add_network(files, flags, *job);
  write_files(flags, files);
  for (const std::string& remark : job->remarks) note(remark);
  write_output("-", [&](std::ostream& out) {
    write_labelled(out, "ranks",
                   names_of_ranks(flags, cluster.workers()) + ": " +
                       counted(static_cast<std::int64_t>(job->nodes), "node") + " each, " +
                       counted(static_cast<std::int64_t>(job->collectives), "collective"));
    write_labelled(out, "predicted",
                   text_of(job->compute) + " of compute, " + text_of(job->communication) + " of communication");
    write_network(out, flags);
  });
  return answered;
}

/// Of a layout: each rank's own trace, its groups, and the network.
ExitCode export_layout(const ExportFlags& flags, const PreparedQuestion& question, const LayoutPlan& plan) {
  const Answer<Workload>& workload = question.workload();
  const Answer<PlannedLayout> job = workload
                                        ? planned_layout(*workload, question.cluster(), plan, question.layout_options())
                                        : Answer<PlannedLayout>(Inapplicable{workload.reason()});
  if (!job) {
    note("not here: " + job.reason());
    return answer_is_no;
  }
  Files files;
  for (std::int64_t rank = 0; rank < job->traces.ranks(); ++rank)
    files.emplace_back(flags.prefix + "." + std::to_string(rank) + ".et", [&, rank] { return job->traces.of(rank); });
  files.emplace_back(flags.prefix + ".groups.json", [&] { return job->groups; });
  add_network(files, flags, *job);
  write_files(flags, files);
  for (const std::string& remark : job->remarks) note(remark);
  write_output("-", [&](std::ostream& out) {
    write_labelled(out, "ranks",
                   names_of_ranks(flags, job->traces.ranks()) + ": up to " +
                       counted(static_cast<std::int64_t>(job->most_nodes), "node") + " each, " +
                       counted(static_cast<std::int64_t>(job->most_messages), "message"));
    write_labelled(out, "groups", flags.prefix + ".groups.json: " + counted(job->group_count, "communicator group"));
    write_labelled(out, "predicted",
                   text_of(job->iteration) + " a step; the nodes of one step alone take " + text_of(job->end));
    write_network(out, flags);
  });
  return answered;
}

/// The files of a planned job.
ExitCode export_plan(const ExportFlags& flags) {
  if (!flags.step.empty()) throw InputError("--step", "a recorded job, whose step it names", "--plan");
  const Plan plan = plan_of(flags.plan);
  if (!plan.layout && !flags.layout.global_batch.empty())
    throw InputError("--global-batch", "a plan with a layout, whose pipelines share it out", in_quotes(flags.plan),
                     "--batch says the samples of a worker");
  const Asked asked = asked_of(flags.input, flags.cluster, flags.layout,
                               {.layouts = plan.layout.has_value(), .step_of_worker = !plan.layout});
  if (asked.check.models_another_job()) {
    note("not here: " + asked.check.caution() + "; the planned job would be another one");
    return answer_is_no;
  }
  const PreparedQuestion question(asked.question);
  refuse_too_many_ranks(question.cluster());
  if (plan.layout) return export_layout(flags, question, {*plan.layout, question.after_changes(plan.strategy)});
  return export_data_parallel(flags, question, plan.strategy);
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
      "Write the job under this plan instead, layouts too: every rank of --workers, and the cluster as ASTRA-sim's "
      "network");
  app.add_option("--model", flags->input.model,
                 "With --plan: shipped list that names a trace's tensors, or a description");
  app.add_option("--device", flags->input.device, "With --plan: device of a described model, or a JSON file");
  app.add_option("--batch", flags->input.batch, "With --plan: samples of a worker in each step");
  app.add_option("--global-batch", flags->layout.global_batch,
                 "With --plan and a layout: samples a step on all devices (default: --batch on each worker)");
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
    "  stepcast export trace.json.gz --plan ddp --workers 64 --per-node 8 --network 400Gb/s -o job\n"
    "  stepcast export --model llama3-8b --plan 'layout(tp=2, pp=2, mb=1)/ddp' --cluster 2xdgx-h100 --global-batch 32 "
    "-o job",
    add_export_flags};

}  // namespace stepcast::cli
