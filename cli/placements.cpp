// Placements: what recommend does for unequal devices.
#include "described.hpp"
#include "files.hpp"
#include "layouts.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/baseline/recorded_refusals.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <utility>

namespace stepcast::cli {
namespace {

void refuse_cluster_flags(const ClusterFlags& flags) {
  const std::string pipeline = flags.pipeline.file, level = flags.level.empty() ? "" : flags.level.front();
  for (const auto& [flag, value] : {std::pair{"--cluster", &flags.cluster},
                                    std::pair{"--workers", &flags.workers},
                                    std::pair{"--network", &flags.network},
                                    std::pair{"--level", &level},
                                    std::pair{"--per-node", &flags.per_node},
                                    std::pair{"--inside", &flags.inside},
                                    std::pair{"--servers", &flags.servers},
                                    std::pair{"--device-memory", &flags.device_memory},
                                    std::pair{"--collective", &flags.collective},
                                    std::pair{"--slow-worker", &flags.slow_worker},
                                    std::pair{"--late-worker", &flags.late_worker},
                                    std::pair{"--degraded-link", &flags.degraded_link},
                                    std::pair{"--background", &flags.background},
                                    std::pair{"--connection", &flags.connection},
                                    std::pair{"--jitter", &flags.jitter},
                                    std::pair{"--loss", &flags.loss},
                                    std::pair{"--stalls", &flags.stalls},
                                    std::pair{"--rto", &flags.rto},
                                    std::pair{"--overlay", &flags.overlay},
                                    std::pair{"--iterations", &flags.iterations},
                                    std::pair{"--switch", &flags.aggregation},
                                    std::pair{"--nccl-algo", &flags.nccl_algo},
                                    std::pair{"--nccl-proto", &flags.nccl_proto},
                                    std::pair{"--input", &pipeline},
                                    std::pair{"--beside", &flags.beside},
                                    std::pair{"--beside-model", &flags.beside_model},
                                    std::pair{"--beside-batch", &flags.beside_batch}})
    if (!value->empty())
      throw InputError(flag, "either equal devices, or --devices", "both", "the file of --devices has the links");
}

struct Subject {
  Workload workload;
  double batch = 0;  ///< samples, of the trace
};
Answer<Subject> subject_of(const InputFlags& input, const ClusterFlags& cluster) {
  if (!cluster.what.empty())
    throw InputError("--what", "equal devices", "--devices", "'stepcast whatif -o' writes the profile after a change");
  if (is_described(input) && !cluster.faster_compute.empty())
    throw InputError("--faster-compute", "a trace, whose times it changes", "a described model");
  if (is_described(input) && !input.step.empty())
    throw InputError("--step", "a trace, whose profiler slows its step down", "a described model");
  if (is_described(input) && !input.parameters.empty())
    throw InputError("--parameters", "a trace without shapes", "a described model, which has its own");
  if (is_described(input)) return Subject{workload_of(model_shape_of(input.model), device_of_description(input)), 0};
  const Profile profile = profile_on(Cluster{}, input_of(input).profile, cluster);
  const std::optional<Device> device = roofline_of(input, profile);
  const Answer<Workload> workload = workload_of(profile, device ? &*device : nullptr);
  if (!workload) return Inapplicable{workload.reason()};
  return Subject{*workload, profile.batch_samples};
}

std::int64_t batch_of(const InputFlags& input, const LayoutFlags& flags, double traced) {
  constexpr std::int64_t most = 1'000'000'000;
  if (!flags.global_batch.empty() && !input.batch.empty())
    throw InputError("--batch", "either the samples of a step, or --global-batch", "both");
  if (!flags.global_batch.empty()) return integer_of(flags.global_batch, "--global-batch", 1, most);
  if (!input.batch.empty()) return integer_of(input.batch, "--batch", 1, most);
  if (traced >= 1) return static_cast<std::int64_t>(traced);
  throw InputError("--global-batch", "samples a step on all devices", "nothing");
}

PlacementOptions placement_options_of(const LayoutFlags& flags, const LayoutSpace& space) {
  PlacementOptions options;
  if (!flags.adatopk.empty()) {
    options.ratio = number_of(flags.adatopk, "--adatopk");
    if (!(options.ratio >= 1 && options.ratio <= 1e6))
      throw InputError("--adatopk", "a ratio from 1 to 1e6", in_quotes(flags.adatopk));
  }
  if (space.schedules.size() > 1) throw InputError("--schedule", "one schedule, beside --devices", "several");
  if (!space.schedules.empty()) options.schedule = space.schedules.front();
  return options;
}

std::vector<std::string> inputs_of(const InputFlags& input, const ClusterFlags& cluster, const LayoutFlags& flags) {
  std::vector<std::string> files = files_of(input, cluster);
  files.push_back(flags.devices);
  return files;
}

void refuse_recorded(const InputFlags& input) {
  if (input.recorded) throw recorded_refusal::of_placement("--recorded");
}

}  // namespace

ExitCode predict_placement(const InputFlags& input, const ClusterFlags& cluster, const LayoutFlags& flags,
                           const std::string& text, const OutputFlags& output, const std::string& timeline) {
  refuse_recorded(input);
  const PlacementPlan plan = placement_plan_of(text);
  if (flags.devices.empty())
    throw InputError("--devices", "the unequal devices that the placement counts", "nothing", "name their file");
  refuse_cluster_flags(cluster);
  check_outputs(output, timeline, inputs_of(input, cluster, flags));
  const UnequalCluster devices = unequal_cluster_of_json(FileBytes(flags.devices).text(), shown_name(flags.devices));
  const Answer<Subject> subject = subject_of(input, cluster);
  if (!subject) return refuse_layout(text, subject.reason(), output);
  const std::int64_t batch = batch_of(input, flags, subject->batch);
  const Answer<PlacementChoice> choice = given_placement(subject->workload, devices, batch, plan);
  if (!choice) return refuse_layout(text, choice.reason(), output);
  if (!timeline.empty()) {
    const Answer<PlacementTimeline> detail = placement_timeline(choice->placement, choice->options);
    if (!detail) throw InputError("--timeline", "a placement with a timeline", detail.reason());
    write_output(timeline, [&](std::ostream& out) {
      report_named("perfetto")
          ->placement_timeline(out,
                               {subject->workload, devices, *detail, plan_of(*choice), choice->placement.iteration});
    });
  }
  write_output(output.path, [&](std::ostream& out) {
    report_of(output).placement(out, {subject->workload, devices, batch, *choice});
  });
  return answered;
}

ExitCode recommend_placement(const InputFlags& input, const ClusterFlags& cluster, const LayoutFlags& flags,
                             const OutputFlags& output) {
  refuse_recorded(input);
  refuse_cluster_flags(cluster);
  refuse_search_flags(flags, "--devices", {"--schedule", "--micro-batch"});
  const LayoutSpace space = space_of(flags);
  const PlacementOptions options = placement_options_of(flags, space);
  refuse_overwriting(output.path, inputs_of(input, cluster, flags));
  const UnequalCluster devices = unequal_cluster_of_json(FileBytes(flags.devices).text(), shown_name(flags.devices));
  const Answer<Subject> subject = subject_of(input, cluster);
  if (!subject) return refuse_layout("a pipeline over unequal devices", subject.reason(), output);
  const std::int64_t batch = batch_of(input, flags, subject->batch);
  const Answer<PlacementChoice> choice = best_placement(subject->workload, devices, batch, space.micro_batch, options);
  if (!choice) return refuse_layout("a pipeline over unequal devices", choice.reason(), output);
  write_output(output.path, [&](std::ostream& out) {
    report_of(output).placement(out, {subject->workload, devices, batch, *choice});
  });
  return answered;
}

}  // namespace stepcast::cli
