#include "asked.hpp"

#include "beside.hpp"
#include "described.hpp"
#include "files.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/baseline/as_traced.hpp>
#include <stepcast/baseline/recorded_refusals.hpp>
#include <stepcast/calibration/measured_steps.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/cluster/links_of_trace.hpp>
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/question/measured.hpp>
#include <stepcast/roofline/model_shape.hpp>
#include <stepcast/roofline/usual_batch.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepcast::cli {
namespace {

/// Flags that change a trace are refused where there is none, not ignored.
void refuse_flags_of_traces(const ClusterFlags& flags) {
  if (!flags.faster_compute.empty())
    throw InputError("--faster-compute", "a trace, whose times it changes", "a described model",
                     "give another --device");
  if (pipeline_of(flags.pipeline)) throw InputError("--input", "a trace", "a described model");
}

/// What changes a job needs a profile of it.
void refuse_changes(const ClusterFlags& flags, const std::string& why_none) {
  const auto refuse = [&](const char* flag) {
    throw InputError(flag, "a trace that gives a profile, which it changes", "one that does not", why_none);
  };
  if (!flags.what.empty()) refuse("--what");
  if (pipeline_of(flags.pipeline)) refuse("--input");
  if (!flags.faster_compute.empty()) refuse("--faster-compute");
}

std::string names_of(std::span<const Plan> plans) {
  std::string names;
  for (const Plan& plan : plans) add_to_list(names, in_quotes(text_of(plan)));
  return names;
}

/// The steps of --measured, of a question that knows its model, devices and batch.
std::vector<MeasuredStep> measured_steps_of(const std::vector<std::string>& said, const StepDefaults& defaults) {
  std::vector<MeasuredStep> steps;
  for (const std::string& text : said) {
    if (is_measured_step(text)) {
      steps.push_back(measured_step_of(text, "--measured", defaults));
      continue;
    }
    const std::vector<MeasuredStep> table = measured_steps_of_csv(FileBytes(text).text(), shown_name(text), defaults);
    steps.insert(steps.end(), table.begin(), table.end());
  }
  return steps;
}

[[noreturn]] void refuse_unknown_batch() {
  throw InputError("--global-batch", "samples a step on all devices", "nothing", "or give --batch on each worker");
}

}  // namespace

void refuse_unused_flags(const ClusterFlags& flags, std::span<const Plan> plans) {
  if (plans.empty()) return;
  const auto any = [&](const auto& holds) { return std::any_of(plans.begin(), plans.end(), holds); };
  const auto needs = [&](std::string_view what) {
    return any([&](const Plan& plan) {
      const std::vector<std::string_view> all = requirements_of(plan.strategy);
      return std::find(all.begin(), all.end(), what) != all.end();
    });
  };
  if (!flags.aggregation.empty() && !needs("programmable switch"))
    throw InputError("--switch", "a plan whose all-reduce runs on it, such as 'ddp@switchml'", names_of(plans));
  if (!flags.servers.empty() && !needs("servers"))
    throw InputError("--servers", "a plan that uses servers, such as 'wfbp_ps'", names_of(plans));
  const auto mixes = [](const Plan& plan) { return plan.strategy.strategy->name == "overlay"; };
  if (!flags.overlay.empty() && !any(mixes))
    throw InputError("--overlay", "the plan 'overlay', whose models travel along it", names_of(plans));
  const bool by_default = any([](const Plan& plan) {
    return plan.layout || (collective_of(plan.strategy).empty() && plan.strategy.strategy->needs != "servers");
  });
  if (!flags.collective.empty() && !by_default)
    throw InputError("--collective", "a plan that all-reduces and names no algorithm itself", names_of(plans));
}

std::vector<std::string> files_of(const InputFlags& input, const ClusterFlags& cluster, const LayoutFlags& layout) {
  std::vector<std::string> files = files_of(input, cluster);
  for (const std::string& text : layout.measured)
    if (!is_measured_step(text)) files.push_back(text);
  return files;
}

namespace {

/// Nobody says a machine or a link.
bool says_no_cluster(const ClusterFlags& flags) {
  return flags.cluster.empty() && flags.workers.empty() && flags.per_node.empty() && flags.network.empty() &&
         flags.inside.empty() && flags.level.empty() && flags.overlay.empty();
}

/// The machines that the job was traced on, with what else is said of a cluster. Throws InputError for a worker alone,
/// and where the trace does not show its links, or else gives a worker alone.
Cluster cluster_of_trace(const InputFlags& input, const ClusterFlags& flags, const Input& read, bool or_alone) {
  std::int64_t workers = std::max<std::int64_t>(read.profile.traced_workers, std::ssize(read.check.ranks));
  if (read.check.recorded) workers = std::max(workers, read.check.recorded->workers);
  const char* how = "give --cluster NAME, or --workers N --per-node G --network 25GbE";
  if (workers < 2 && or_alone) return {};
  if (workers < 2) throw InputError("", "a cluster", "none", how);
  Answer<Cluster> own = traced_cluster(read.profile, workers, read.machine_devices);
  if (!own && or_alone) return {};
  if (!own) throw InputError("", "a cluster", "none, and " + own.reason(), how);
  const std::optional<Device> device = device_of(input, *own);
  return with_device(cluster_of(flags, *std::move(own)), device);
}

/// A stage of a pipeline has a part of the model alone.
bool is_stage(const Profile& profile) {
  return std::ranges::any_of(profile.collectives,
                             [](const ObservedCollective& c) { return c.role == CollectiveRole::pipeline; });
}

}  // namespace

Asked asked_of(const InputFlags& asked_input, const ClusterFlags& flags, const LayoutFlags& layout,
               const AskedOptions& options) {
  InputFlags input = asked_input;
  check_beside_flags(flags);
  const bool described = is_described(input);
  const std::string framework = launch_framework_of(layout.framework, "--framework");
  if (described) input.model = model_run_by(input.model, framework);
  if (!described && !layout.measured.empty())
    throw InputError("--measured", "a described model, whose device it corrects", "a trace",
                     "its own step is measured; --step says how long one takes without the profiler");
  if (input.recorded && options.layouts) throw recorded_refusal::of_layouts("--recorded");
  const bool batch_open = described && input.batch.empty() && layout.global_batch.empty();
  const bool shares_out = batch_open && flags.what.empty() && !options.step_of_worker;
  if (described && (options.layouts || shares_out)) {
    refuse_flags_of_traces(flags);
    if (!layout.global_batch.empty() && !input.batch.empty())
      throw InputError("--batch", "either the samples of a worker, or --global-batch", "both");
  }
  const bool as_traced = !options.cluster && !described && !input.files.empty() && says_no_cluster(flags);
  Cluster cluster;
  if (options.cluster) cluster = *options.cluster;
  else if (!as_traced) cluster = cluster_for(input, flags);
  Input read = input_of(input, cluster, options.input);
  if (as_traced) cluster = cluster_of_trace(input, flags, read, options.alone_without_links);
  if (options.layouts && is_stage(read.profile))
    throw InputError("the traced job", "a whole model, which layouts divide", "a stage of a pipeline",
                     "describe the model (--model ... --device ...), or trace the job without a pipeline");
  Question question{.cluster = with_links_of(cluster, read.profile),
                    .where_it_ran = as_traced && cluster.workers() > 1};
  if (!read.refusal.empty()) {
    refuse_changes(flags, read.refusal);
    if (!layout.memory.empty())
      throw InputError("--memory", "a trace that gives a profile, which is divided", "one that does not", read.refusal);
    question.profile = std::move(read.profile);
    question.iterations = iterations_of(flags);
    Asked recorded{std::move(question), std::move(read.check), {}, std::move(read.refusal)};
    put_beside(recorded, asked_input, flags);
    return recorded;
  }
  question.pipeline = pipeline_of(flags.pipeline);
  question.memory = memory_options_of(framework);
  ClusterFlags assumed = flags;
  assumed.same_device |= options.across_devices && flags.faster_compute.empty();
  const bool other_device = !cluster.device.empty() && !same_device(cluster.device, read.profile.device);
  if (described && flags.same_device && !other_device)
    throw InputError("--same-device", "a model described on another device than the cluster's",
                     cluster.device.empty() ? "a cluster that names none" : in_quotes(read.profile.device),
                     "leave it out");
  if (described && !assumed.same_device && other_device)
    throw InputError("--device", "the device of the cluster (" + cluster.device + ")", in_quotes(read.profile.device),
                     "leave --device out, or name other machines: --workers N --per-node G --network RATE");
  question.profile = profile_on(cluster, std::move(read.profile), assumed);
  if (described) question.shape = model_shape_of(input.model);
  if (described) question.device = device_of_description(input, cluster);
  else if (!input.device.empty()) question.device = device_of(input, cluster);
  question.changes = changes_of(flags);
  question.iterations = iterations_of(flags);
  if (!layout.global_batch.empty()) question.global_batch = global_batch_of(layout);
  else if (batch_open && (options.layouts || shares_out))
    question.usual_batch = usual_global_batch(*question.shape, question.cluster.workers());
  if (shares_out) question.profile = profile_of_usual_batch(question, one_sample_a_worker);
  if (!layout.memory.empty()) question.memory_cap = memory_cap_of(layout, question.cluster.device_memory);
  const bool batch_known = question.global_batch > 0 || question.profile.batch_samples > 0;
  if (options.layouts && !batch_known && described) refuse_unknown_batch();
  if (!layout.measured.empty()) {
    StepDefaults defaults = step_defaults_of(question, input.model, !input.batch.empty());
    if (options.batch_is_searched) defaults.global_batch = 0;
    std::vector<MeasuredStep> steps = measured_steps_of(layout.measured, defaults);
    question = with_measured_steps(std::move(question), std::move(steps));
  }
  Asked asked{std::move(question), std::move(read.check), std::move(read.recorded)};
  put_beside(asked, asked_input, flags);
  return asked;
}

Prediction recorded_answer(const Asked& asked) {
  const Cluster& cluster = asked.question.cluster;
  const Answer<Prediction> job = asked.check.recorded->on(cluster, asked.question.where_it_ran);
  if (job) return *job;
  const std::string otherwise =
      "'stepcast replay TRACE --what \"network(by=2)\"' makes the links of the recorded step faster, whatever they "
      "carry, and 'stepcast TRACE' says where its time goes";
  throw InputError("cluster '" + cluster.name + "'", "a cluster that can run its collectives", job.reason(),
                   asked.refusal.empty() ? otherwise : asked.refusal);
}

Profile changed_profile(const PreparedQuestion& question, const Scenario& changes) {
  if (!plan_after(changes, PlanSpec{}).collective.empty())
    throw InputError("--what", "changes of the step", "one of the collective",
                     "name the collective behind each plan: 'ddp@ring'");
  if (!question.profile()) throw InputError("--what", "changes that this step can take", question.profile().reason());
  return *question.profile();
}

}  // namespace stepcast::cli
