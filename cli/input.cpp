// The flags that most verbs share, and what they ask for: traces, a profile, a cluster, output files.
#include "input.hpp"

#include "described.hpp"
#include "documents.hpp"
#include "files.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/question/question.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <iostream>
#include <memory>
#include <optional>

namespace stepcast::cli {
namespace {

ProfileOptions options_of(const InputFlags& flags) {
  double samples = 0;
  if (!flags.batch.empty()) {
    samples = number_of(flags.batch, "--batch");
    if (samples <= 0) throw InputError("--batch", "a positive number of samples", flags.batch);
    if (samples > 1e12) throw InputError("--batch", "at most 1e12 samples", flags.batch);
  }
  return profile_options_of(is_described(flags) ? "" : flags.model, samples, "--model");
}

std::optional<Cluster> cluster_in_file(const std::string& name) {
  if (!looks_like_file(name) || shipped_cluster(name)) return std::nullopt;
  return cluster_of_json(FileBytes(name).text(), shown_name(name));
}

DeviceAssumption assumption_of(const ClusterFlags& flags) {
  DeviceAssumption assumed{.same_device = flags.same_device};
  if (flags.faster_compute.empty()) return assumed;
  assumed.faster_compute = number_of(flags.faster_compute, "--faster-compute");
  if (assumed.faster_compute <= 0) throw InputError("--faster-compute", "a positive factor", flags.faster_compute);
  return assumed;
}

}  // namespace

void note(std::string_view text) { std::cerr << "stepcast: note: " << text << '\n'; }

void add_input_flags(CLI::App& app, InputFlags& flags) {
  app.add_option("TRACE", flags.files, "Traces, plain or gzip (ranks of one run), or a profile");
  app.add_option("--model", flags.model,
                 "Shipped list that names a trace's tensors; or, without a trace, a description: "
                 "gpt:hidden=4096,layers=32,heads=32,seq=2048");
  app.add_option("--device", flags.device, "Device of a described model (list devices) or a JSON file");
  app.add_option("--batch", flags.batch, "Samples of a worker in each step, where the trace does not say");
  add_reading_flags(app, flags);
}

void add_reading_flags(CLI::App& app, InputFlags& flags) {
  app.add_option("--kernels", flags.kernels, "Rules for names of kernels (JSON), before the shipped ones");
  app.add_flag("--strict", flags.strict, "Refuse a damaged trace, do not repair it");
}

void add_cluster_flags(CLI::App& app, ClusterFlags& flags) {
  app.add_option("--cluster", flags.cluster, "Shipped cluster (list clusters) or a JSON file");
  app.add_option("--workers", flags.workers, "Devices of the cluster in all");
  app.add_option("--per-node", flags.per_node, "Devices per machine (default 1)");
  app.add_option("--network", flags.network, "Link between machines: 25GbE, \"100 Gb/s\"");
  app.add_option("--inside", flags.inside, "Link between devices of a machine: 250GB/s (default 20GB/s: PCIe 4.0 x16)");
  app.add_option("--servers", flags.servers, "Extra machines for parameter servers");
  app.add_option("--device-memory", flags.device_memory, "Memory of a device: 80GB");
  app.add_option("--collective", flags.collective, "All-reduce algorithm, or table (measured)");
  app.add_option("--slow-worker", flags.slow_worker, "One worker computes this many times as long: 1.3");
  app.add_option("--late-worker", flags.late_worker, "One worker starts each step later: \"5 ms\"");
  app.add_option("--degraded-link", flags.degraded_link, "One worker has this share of its link: 0.5");
  app.add_option("--jitter", flags.jitter,
                 "Random slowness of all workers, relative to compute: 0.05 or exponential:0.05");
  app.add_option("--switch", flags.aggregation, "A switch that adds up gradients, and the program that it runs");
  add_pipeline_file_flag(app, flags.pipeline);
  add_device_flags(app, flags);
}

void add_device_flags(CLI::App& app, ClusterFlags& flags) {
  app.add_flag("--same-device", flags.same_device, "Keep traced compute times though the device differs");
  app.add_option("--faster-compute", flags.faster_compute,
                 "Divide traced compute times by this factor, for another device");
}

void add_output_flags(CLI::App& app, OutputFlags& flags) {
  app.add_option("-o,--output", flags.path, "Write to this file; - is standard output");
  app.add_flag("--json", flags.json, "Write JSON instead of text");
}

const Report& report_of(const OutputFlags& flags) { return *report_named(flags.json ? "json" : "text"); }

namespace {

/// One device's share of the described model, by its roofline.
Profile described_profile(const InputFlags& flags, const Cluster& cluster) {
  const double samples = options_of(flags).batch_samples;
  return described_profile(model_shape_of(flags.model), device_of_description(flags, cluster),
                           samples > 0 ? samples : 1);
}

Documents traced_documents(const InputFlags& flags) {
  (void)options_of(flags);  // wrong flags are told before a large file is read
  return documents_of(flags.files, flags.strict, flags.kernels);
}

}  // namespace

Profile profile_of(const InputFlags& flags, const Cluster& cluster) {
  if (is_described(flags)) return described_profile(flags, cluster);
  const Documents documents = traced_documents(flags);
  return profile_of(documents, options_of(flags), "--model");
}

Input input_of(const InputFlags& flags, const Cluster& cluster) {
  if (is_described(flags)) return {described_profile(flags, cluster), {{}, "the model is described, not traced"}};
  const Documents documents = traced_documents(flags);
  return {profile_of(documents, options_of(flags), "--model"), self_check_of(documents)};
}

void check_outputs(const OutputFlags& output, const std::string& timeline, const std::vector<std::string>& inputs) {
  if (timeline == "-" && (output.path.empty() || output.path == "-"))
    throw InputError("--timeline", "a file, since the result goes to standard output", "-");
  refuse_overwriting(output.path, inputs);
  refuse_overwriting(timeline, inputs);
  check_writable(output.path);
  check_writable(timeline);
  if (is_same_file(timeline, output.path))
    throw InputError("--timeline", "another file than the result's", "'" + timeline + "' for both");
}

std::vector<std::string> files_of(const InputFlags& input, const ClusterFlags& cluster) {
  std::vector<std::string> files = input.files;
  for (const std::string& file : {cluster.cluster, cluster.pipeline.file, input.device})
    if (!file.empty()) files.push_back(file);
  return files;
}

Cluster cluster_of(const ClusterFlags& flags) { return stepcast::cluster_of(flags, cluster_in_file(flags.cluster)); }

void add_change_flag(CLI::App& app, ClusterFlags& flags) {
  app.add_option("--what", flags.what, "Predict the step after what-ifs in order, such as 'batch(to=128)+amp'");
}

Scenario changes_of(const ClusterFlags& flags) { return flags.what.empty() ? Scenario{} : scenario_of(flags.what); }

Profile profile_on(const Cluster& cluster, Profile profile, const ClusterFlags& flags) {
  const std::optional<InputPipeline> pipeline = pipeline_of(flags.pipeline);
  profile = fed(stepcast::profile_on(cluster, std::move(profile), assumption_of(flags)), pipeline, cluster);
  const Scenario changes = changes_of(flags);
  if (changes.empty()) return profile;
  if (!plan_after(changes, PlanSpec{}).collective.empty())
    throw InputError("--what", "changes of the step", "one of the collective",
                     "name the collective behind each plan: 'ddp@ring'");
  Question question{.profile = std::move(profile), .cluster = cluster};
  question.changes = changes;
  question.pipeline = pipeline;
  Answer<Profile> changed = PreparedQuestion(std::move(question)).profile();
  if (!changed) throw InputError("--what", "changes that this step can take", changed.reason());
  return *std::move(changed);
}

}  // namespace stepcast::cli
