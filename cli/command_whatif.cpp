// stepcast whatif: the step as it would be after a change that somebody considers making.
//
// Scenarios are texts in the grammar of plans, "batch(to=128)+amp": what they say is what the answer prints and what
// can be pasted again, the order of the changes is visible, options have names, and several scenarios stand side by
// side. One flag per what-if could do none of that, and --batch means the traced batch everywhere else.
#include "command.hpp"
#include "described.hpp"
#include "files.hpp"
#include "input.hpp"
#include "layout_options.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/report/whatif_report.hpp>
#include <stepcast/whatif/input_pipeline.hpp>

#include <memory>
#include <optional>

namespace stepcast::cli {
namespace {

struct WhatifFlags {
  InputFlags input;
  ClusterFlags cluster;
  OutputFlags output;
  std::vector<std::string> scenarios;
  std::string plan, other_batch, other_samples, cache;
  LayoutFlags layout;
};

/// Given when any flag describes a cluster; --faster-compute and --same-device alone do not.
bool names_cluster(const ClusterFlags& flags) {
  return !flags.cluster.empty() || !flags.workers.empty() || !flags.per_node.empty() || !flags.network.empty() ||
         !flags.servers.empty() || !flags.collective.empty();
}

/// --cache 0.6 is short for --what 'input(cache=0.6)'.
Scenario cache_scenario(const WhatifFlags& flags, const std::optional<InputPipeline>& pipeline) {
  if (!pipeline)
    throw InputError("--cache", "the input pipeline that it is part of", "nothing",
                     "give --input FILE, or --dataset 146GB --samples 1281167 --storage 530MB/s --prep 245/s");
  return {whatif_with("input", "cache", cached_share_of(flags.cache, pipeline->data_set))};
}

std::vector<Scenario> scenarios_of(const WhatifFlags& flags, const std::optional<InputPipeline>& pipeline) {
  std::vector<Scenario> scenarios;
  for (const std::string& text : flags.scenarios) scenarios.push_back(scenario_of(text));
  if (!flags.cache.empty()) scenarios.push_back(cache_scenario(flags, pipeline));
  if (scenarios.empty())
    throw InputError("", "a scenario", "none", "give --what 'amp+batch(to=128)'; 'stepcast list whatifs' names them");
  if (!flags.output.path.empty() && scenarios.size() > 1)
    throw InputError("-o", "one scenario, whose profile is written", std::to_string(scenarios.size()) + " of them");
  return scenarios;
}

/// What the flags describe, read once: a pipeline may come from standard input.
struct Place {
  Cluster cluster;
  std::optional<InputPipeline> pipeline;
};
Profile profile_at(const Place& place, Profile profile, ClusterFlags flags) {
  flags.pipeline = {};
  return fed(profile_on(place.cluster, std::move(profile), flags), place.pipeline, place.cluster);
}

/// The traced profile, on the cluster's device if there is one, and with the samples of --other-samples.
std::optional<Profile> other_batch_of(const WhatifFlags& flags, const Place& place) {
  if (flags.other_batch.empty()) {
    if (flags.other_samples.empty()) return std::nullopt;
    throw InputError("--other-samples", "--other-batch beside it", "none");
  }
  InputFlags input = flags.input;
  input.files = {flags.other_batch};
  input.batch = flags.other_samples;
  return profile_at(place, profile_of(input), flags.cluster);
}

Plan whatif_plan_of(const WhatifFlags& flags, bool distributed) {
  if (!distributed && !(flags.plan.empty() && flags.layout.global_batch.empty()))
    throw InputError(flags.plan.empty() ? "--global-batch" : "--plan", "a cluster to run it on", "none",
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

ExitCode whatif(const WhatifFlags& flags) {
  const bool distributed = names_cluster(flags.cluster);
  const Plan plan = whatif_plan_of(flags, distributed);
  const Place place{distributed ? cluster_for(flags.input, flags.cluster) : Cluster{},
                    pipeline_of(flags.cluster.pipeline)};
  const std::vector<Scenario> scenarios = scenarios_of(flags, place.pipeline);
  std::vector<std::string> inputs = files_of(flags.input, flags.cluster);
  if (!flags.other_batch.empty()) inputs.push_back(flags.other_batch);
  refuse_overwriting(flags.output.path, inputs);
  Input input = input_of(flags.input, place.cluster);
  const Profile profile = profile_at(place, std::move(input.profile), flags.cluster);
  Question question{.profile = profile, .cluster = place.cluster};
  question.device = roofline_of(flags.input, profile);
  question.other_batch = other_batch_of(flags, place);
  question.pipeline = place.pipeline;
  if (!flags.layout.global_batch.empty()) question.global_batch = global_batch_of(flags.layout);
  if (plan.layout || question.global_batch > 0) question.cluster = with_device(place.cluster, question.device);
  const WhatIfReport report{profile, distributed ? &place.cluster : nullptr, input.check, plan,
                            whatif_rows(question, scenarios, distributed ? std::optional<Plan>(plan) : std::nullopt)};
  write_answer(flags, report);
  for (const WhatIfRow& row : report.rows)
    if (!row.inapplicable.empty()) return answer_is_no;
  return answered;
}

Action add_whatif_flags(CLI::App& app) {
  auto flags = std::make_shared<WhatifFlags>();
  add_input_flags(app, flags->input);
  app.add_option("--what", flags->scenarios, "What-ifs in order, such as 'batch(to=128)+amp'; again: side by side")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--other-batch", flags->other_batch, "Trace or profile at another batch, to fit batch(to=...)");
  app.add_option("--other-samples", flags->other_samples, "Its samples per worker and step");
  add_cluster_flags(app, flags->cluster);
  add_pipeline_flags(app, flags->cluster.pipeline);
  app.add_option("--cache", flags->cache, "What if memory held this share of the data set (or 64GB): input(cache=...)");
  app.add_option("--plan", flags->plan, "Plan to run on the cluster: [layout(tp=8, ...)/]strategy (default: ddp)");
  add_global_batch_flag(app, flags->layout);
  app.add_option("-o,--output", flags->output.path, "Write the changed profile here; - is standard output");
  app.add_flag("--json", flags->output.json, "Write JSON");
  return [flags] { return whatif(*flags); };
}

}  // namespace

const Verb whatif_verb = {"whatif", "Predict the step after a change: mixed precision, another batch, ...",
                          "stepcast whatif trace.json.gz --what amp --what 'batch(to=64)+amp' --workers 8 "
                          "--network 25GbE",
                          add_whatif_flags};

}  // namespace stepcast::cli
