// stepcast whatif: the step as it would be after a change that somebody considers making.
//
// Scenarios are texts in the grammar of plans, "batch(to=128)+amp": what they say is what the answer prints and what
// can be pasted again, the order of the changes is visible, options have names, and several scenarios stand side by
// side. One flag per what-if could do none of that, and --batch means the traced batch everywhere else.
#include "asked.hpp"
#include "command.hpp"
#include "described.hpp"
#include "documents.hpp"
#include "edited.hpp"
#include "files.hpp"
#include "input.hpp"
#include "layout_options.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/report/whatif_report.hpp>
#include <stepcast/whatif/input_pipeline.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace stepcast::cli {
namespace {

struct WhatifFlags {
  InputFlags input;
  ClusterFlags cluster;
  OutputFlags output;
  std::vector<std::string> scenarios;
  std::string plan, other_batch, other_samples, other_step, cache;
  LayoutFlags layout;
};

/// Given when any flag describes a cluster; --faster-compute and --same-device alone do not.
bool names_cluster(const ClusterFlags& flags) {
  return !flags.cluster.empty() || !flags.workers.empty() || !flags.per_node.empty() || !flags.network.empty() ||
         !flags.level.empty() || !flags.servers.empty() || !flags.collective.empty();
}

/// --cache 0.6 is short for --what 'input(cache=0.6)'.
Scenario cache_scenario(const WhatifFlags& flags, const std::optional<InputPipeline>& pipeline) {
  if (!pipeline)
    throw InputError("--cache", "the input pipeline that it is part of", "nothing",
                     "give --input FILE, or --dataset 146GB --samples 1281167 --storage 530MB/s --prep 245/s");
  return {whatif_with("input", "cache", cached_share_of(flags.cache, pipeline->data_set))};
}

bool edits_tasks(const std::string& text) {
  try {
    return !task_edits_of(text).empty();
  } catch (const InputError&) { return false; }
}

/// Throws InputError, also for edits of recorded tasks.
Scenario scenario_of_layers(const std::string& text) {
  try {
    return scenario_of(text);
  } catch (const InputError&) {
    if (!edits_tasks(text)) throw;
    throw InputError("--what", "a change of the model of layers", in_quotes(text) + ", which edits recorded tasks",
                     "--recorded beside it answers by these");
  }
}

std::vector<Scenario> scenarios_of(const WhatifFlags& flags) {
  std::vector<Scenario> scenarios;
  for (const std::string& text : flags.scenarios) scenarios.push_back(scenario_of_layers(text));
  const std::size_t count = scenarios.size() + (flags.cache.empty() ? 0 : 1);
  if (count == 0)
    throw InputError("", "a scenario", "none", "give --what 'amp+batch(to=128)'; 'stepcast list whatifs' names them");
  if (!flags.output.path.empty() && count > 1)
    throw InputError("-o", "one scenario, whose profile is written", std::to_string(count) + " of them");
  return scenarios;
}

/// What --other-batch names, with the samples of --other-samples, in the step of --other-step.
Profile other_profile_of(const WhatifFlags& flags) {
  InputFlags input = flags.input;
  input.files = {flags.other_batch};
  input.batch = flags.other_samples;
  input.step = flags.other_step;
  try {
    return profile_of(input);
  } catch (const InputError& refusal) {
    if (refusal.where != "--step") throw;
    throw InputError("--other-step", refusal.expected, refusal.found, refusal.hint);
  }
}

/// The same on the question's device and fed as it is.
std::optional<Profile> other_batch_of(const WhatifFlags& flags, const Question& question) {
  if (flags.other_batch.empty()) {
    for (const auto& [flag, value] :
         {std::pair{"--other-samples", &flags.other_samples}, std::pair{"--other-step", &flags.other_step}})
      if (!value->empty()) throw InputError(flag, "--other-batch beside it", "none");
    return std::nullopt;
  }
  Profile profile = profile_on(question.cluster, other_profile_of(flags), flags.cluster);
  if (!question.pipeline) return profile;
  return with_input_pipeline(std::move(profile), *question.pipeline, question.cluster);
}

/// Flags of something that no scenario asks for are refused, not ignored.
void refuse_flags_of_others(const WhatifFlags& flags, const std::vector<Scenario>& scenarios, bool distributed) {
  const auto fits_batch = [](const WhatIfSpec& spec) { return spec.what->name == "batch"; };
  const bool other_batch = std::any_of(scenarios.begin(), scenarios.end(), [&](const Scenario& scenario) {
    return std::any_of(scenario.begin(), scenario.end(), fits_batch);
  });
  if (!flags.other_batch.empty() && !other_batch)
    throw InputError("--other-batch", "a scenario with batch(to=...), which it is fitted to", "none");
  if (!flags.input.device.empty() && !distributed && !is_described(flags.input))
    throw InputError("--device", "a described model, or a cluster of such devices", "a trace alone");
}

/// The plan that is named, else DDP, which what ran takes the place of.
Plan whatif_plan_of(const WhatifFlags& flags, bool distributed) {
  const ClusterFlags& c = flags.cluster;
  for (const auto& [flag, value] :
       {std::pair{"--inside", &c.inside}, std::pair{"--device-memory", &c.device_memory},
        std::pair{"--slow-worker", &c.slow_worker}, std::pair{"--late-worker", &c.late_worker},
        std::pair{"--degraded-link", &c.degraded_link}, std::pair{"--background", &c.background},
        std::pair{"--connection", &c.connection}, std::pair{"--jitter", &c.jitter}, std::pair{"--loss", &c.loss},
        std::pair{"--stalls", &c.stalls}, std::pair{"--rto", &c.rto}, std::pair{"--overlay", &c.overlay},
        std::pair{"--switch", &c.aggregation}, std::pair{"--nccl-algo", &c.nccl_algo},
        std::pair{"--nccl-proto", &c.nccl_proto}})
    if (!distributed && !value->empty())
      throw InputError(flag, "a cluster that it is part of", "none",
                       "give --cluster NAME, or --workers N --network 25GbE");
  return plan_of(flags.plan.empty() ? "ddp" : flags.plan);
}

void write_answer(const WhatifFlags& flags, const WhatIfReport& report) {
  const auto write_report = [&](std::ostream& out) { report_of(flags.output).whatif(out, report); };
  if (flags.output.path.empty()) return write_output("-", write_report);
  const WhatIfRow& row = report.rows.back();
  if (row.profile)
    write_output(flags.output.path, [&](std::ostream& out) { report_named("json")->profile(out, *row.profile); });
  if (!row.profile || flags.output.path != "-") write_output("-", write_report);
}

/// The edits of each scenario. Throws InputError, also for what-ifs of the model of layers.
std::vector<std::vector<TaskEdit>> edits_of(const std::vector<std::string>& texts) {
  if (texts.empty())
    throw InputError("", "edits of recorded tasks", "none", "give --what 'network(by=2)', as of 'stepcast replay'");
  std::vector<std::vector<TaskEdit>> edits;
  for (const std::string& text : texts) try {
      edits.push_back(task_edits_of(text));
    } catch (const InputError& refusal) {
      throw InputError(refusal.where, refusal.expected, refusal.found,
                       (refusal.hint.empty() ? "" : refusal.hint + "; ") +
                           "--recorded takes the edits of 'stepcast replay --what', and no other what-if");
    }
  return edits;
}

/// The recorded step after edits of its tasks: nothing else is known of it, so that all other flags are refused.
ExitCode edit_recorded(const CLI::App& app, const WhatifFlags& flags) {
  constexpr std::array<std::string_view, 6> known{"TRACE", "--what", "--recorded", "--kernels", "--strict", "--json"};
  for (const CLI::Option* option : app.get_options())
    if (option->count() > 0 && std::ranges::find(known, option->get_name()) == known.end())
      throw InputError(option->get_name(), "a what-if of the model of layers", "--recorded beside it",
                       "which edits the tasks of the step as it was recorded, on its own cluster");
  const std::vector<std::vector<TaskEdit>> scenarios = edits_of(flags.scenarios);
  const Documents documents = documents_of(flags.input.files, flags.input.strict, flags.input.kernels);
  std::vector<EditedReplay> replays;
  for (const std::vector<TaskEdit>& edits : scenarios)
    std::ranges::move(edited_replays(documents, edits), std::back_inserter(replays));
  write_output("-", [&](std::ostream& out) { report_of(flags.output).replay_edits(out, replays); });
  return answered;
}

ExitCode whatif(const CLI::App& app, const WhatifFlags& flags) {
  if (flags.input.recorded) return edit_recorded(app, flags);
  bool distributed = names_cluster(flags.cluster);
  Plan plan = whatif_plan_of(flags, distributed);
  if (distributed) refuse_unused_flags(flags.cluster, std::span(&plan, 1));
  std::vector<Scenario> scenarios = scenarios_of(flags);
  refuse_flags_of_others(flags, scenarios, distributed);
  std::vector<std::string> inputs = files_of(flags.input, flags.cluster);
  if (!flags.other_batch.empty()) inputs.push_back(flags.other_batch);
  refuse_overwriting(flags.output.path, inputs);
  AskedOptions options{.layouts = plan.layout || !flags.layout.global_batch.empty(),
                       .step_of_worker = true,
                       .alone_without_links = true};
  const bool described = is_described(flags.input);
  if (!described && !flags.layout.framework.empty())
    throw InputError("--framework", "a described model (--model), whose kernels it chooses", "a trace",
                     "a trace has kernels of its own; compare says what runs its layouts");
  if (!distributed && (flags.input.files.empty() || described)) options.cluster = Cluster{};
  Asked asked = asked_of(flags.input, flags.cluster, flags.layout, options);
  distributed |= asked.question.cluster.workers() > 1;
  if (!distributed && !(flags.plan.empty() && flags.layout.global_batch.empty()))
    throw InputError(flags.plan.empty() ? "--global-batch" : "--plan", "a cluster to run it on",
                     asked.question.profile.described ? "none" : "a trace of one worker, or without links",
                     "give --cluster NAME, or --workers N --network 25GbE");
  if (!flags.cache.empty()) scenarios.push_back(cache_scenario(flags, asked.question.pipeline));
  if (distributed && flags.plan.empty()) plan = asked.check.plan_in_use();
  asked.question.other_batch = other_batch_of(flags, asked.question);
  const auto rows = whatif_rows(asked.question, scenarios, distributed ? std::optional<Plan>(plan) : std::nullopt);
  const WhatIfReport report{*rows.front().profile, distributed ? &asked.question.cluster : nullptr, asked.check, plan,
                            rows};
  if (asked.check.recorded)
    note(
        "no plan stands for the traced job; --recorded edits the tasks of its recorded step, as in --what "
        "'network(by=2)'");
  write_answer(flags, report);
  for (const WhatIfRow& row : report.rows)
    if (!row.inapplicable.empty()) return answer_is_no;
  return answered;
}

Action add_whatif_flags(CLI::App& app) {
  auto flags = std::make_shared<WhatifFlags>();
  add_input_flags(app, flags->input);
  app.add_flag("--recorded", flags->input.recorded,
               "Edit the tasks of the recorded step itself: --what is as of replay, such as 'network(by=2)'");
  app.add_option("--what", flags->scenarios, "What-ifs in order, such as 'batch(to=128)+amp'; again: side by side")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--other-batch", flags->other_batch, "Trace or profile at another batch, to fit batch(to=...)");
  app.add_option("--other-samples", flags->other_samples, "Its samples per worker and step");
  app.add_option("--other-step", flags->other_step, "How long its step takes without the profiler: 204ms");
  add_cluster_flags(app, flags->cluster);
  add_pipeline_flags(app, flags->cluster.pipeline);
  app.add_option("--cache", flags->cache, "What if memory held this share of the data set (or 64GB): input(cache=...)");
  app.add_option("--plan", flags->plan,
                 "Plan to run on the cluster: [layout(tp=8, ...)/]strategy (default: what ran, else ddp)");
  add_global_batch_flag(app, flags->layout);
  add_framework_flag(app, flags->layout);
  app.add_option("-o,--output", flags->output.path, "Write the changed profile here; - is standard output");
  app.add_flag("--json", flags->output.json, "Write JSON");
  return [flags, &app] { return whatif(app, *flags); };
}

}  // namespace

const Verb whatif_verb = {
    "whatif", "Predict the step after a change: mixed precision, another batch, ...",
    "stepcast whatif trace.json.gz --what amp --what 'batch(to=64)+amp' --workers 8 "
    "--network 25GbE\n"
    "  stepcast whatif trace.json.gz --recorded --what 'network(by=2)' --what 'scale(name=*gemm*, by=0.5)'",
    add_whatif_flags};

}  // namespace stepcast::cli
