// The flags that most verbs share, and what they ask for: traces, a profile, a cluster, output files.
#include "input.hpp"

#include "described.hpp"
#include "documents.hpp"
#include "files.hpp"
#include "help.hpp"

#include <stepcast/base/printable.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/baseline/recorded_refusals.hpp>
#include <stepcast/baseline/self_check.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/question/question.hpp>
#include <stepcast/ranks/transfer_times.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

namespace stepcast::cli {
namespace {}  // namespace

ProfileOptions profile_options_of(const InputFlags& flags) {
  double samples = 0;
  if (!flags.batch.empty()) {
    samples = number_of(flags.batch, "--batch");
    if (samples <= 0) throw InputError("--batch", "a positive number of samples", flags.batch);
    if (samples > 1e12) throw InputError("--batch", "at most 1e12 samples", flags.batch);
  }
  double parameters = 0;
  if (!flags.parameters.empty()) {
    parameters = large_number_of(flags.parameters, "--parameters");
    if (!(parameters >= 1 && parameters <= 1e14))
      throw InputError("--parameters", "from 1 to 1e14 of them", flags.parameters);
    if (!flags.model.empty())
      throw InputError("--parameters", "either a number of parameters, or a model that has them", "both");
  }
  return stepcast::profile_options_of(is_described(flags) ? "" : flags.model, samples, parameters, "--model");
}

namespace {

std::optional<Cluster> cluster_in_file(const std::string& name) {
  if (!looks_like_file(name) || shipped_cluster(name)) return std::nullopt;
  return cluster_of_json(FileBytes(name).text(), shown_name(name));
}

DeviceAssumption assumption_of(const ClusterFlags& flags) {
  DeviceAssumption assumed{.same_device = flags.same_device};
  if (flags.faster_compute.empty()) return assumed;
  assumed.faster_compute = number_of(flags.faster_compute, "--faster-compute");
  if (!(assumed.faster_compute >= 1e-3 && assumed.faster_compute <= 1e3))
    throw InputError("--faster-compute", "a factor from 0.001 to 1000", flags.faster_compute);
  return assumed;
}

}  // namespace

void note(std::string_view text) { std::cerr << "stepcast: note: " << printable(text) << '\n'; }

void add_input_flags(CLI::App& app, InputFlags& flags) {
  const HelpGroup group(app, "What is trained");
  app.add_option("TRACE", flags.files, "Traces, plain or gzip (ranks of one run), or a profile");
  app.add_option("--model", flags.model,
                 "Shipped list that names a trace's tensors; or, without a trace, a description: "
                 "gpt:hidden=4096,layers=32,heads=32,seq=2048");
  app.add_option("--parameters", flags.parameters,
                 "How many parameters are trained, where the trace has no shapes: 350M, 1.5B");
  app.add_option("--device", flags.device, "Device of a described model (list devices) or a JSON file");
  app.add_option("--batch", flags.batch, "Samples of a worker in each step, where the trace does not say");
  app.add_option("--step", flags.step,
                 "How long a step takes without the profiler: 204ms; the host's work is scaled to it");
  add_reading_flags(app, flags);
}

void add_recorded_flag(CLI::App& app, InputFlags& flags) {
  const HelpGroup group(app, "What is trained");
  app.add_flag("--recorded", flags.recorded,
               "Exchange the messages of the recorded step itself, also where the model of its layers describes the "
               "job");
}

void add_reading_flags(CLI::App& app, InputFlags& flags) {
  app.add_option("--kernels", flags.kernels, "Rules for names of kernels (JSON), before the shipped ones");
  app.add_flag("--strict", flags.strict, "Refuse a damaged trace, do not repair it");
}

namespace {

void add_trouble_flags(CLI::App& app, ClusterFlags& flags) {
  const HelpGroup group(app, "Trouble in the cluster");
  app.add_option("--slow-worker", flags.slow_worker, "One worker computes this many times as long: 1.3");
  app.add_option("--late-worker", flags.late_worker, "One worker starts each step later: \"5 ms\"");
  app.add_option("--degraded-link", flags.degraded_link,
                 "One worker has this share of its link: 0.5; or several machines: \"2 x 100Gb/s\"");
  app.add_option("--background", flags.background,
                 "What other jobs take of the network, of its outermost level: 30%; or of those that are named: "
                 "spine=30%");
  app.add_option("--connection", flags.connection,
                 "What one connection reaches, where the transport limits it: 10Gb/s; \"4 x 10Gb/s\" of as many over "
                 "each card (NCCL_SOCKET_NTHREADS x NCCL_NSOCKS_PERTHREAD)");
  app.add_option("--jitter", flags.jitter,
                 "Random slowness of all workers, relative to compute: 0.05 or exponential:0.05");
  app.add_option("--loss", flags.loss,
                 "Share of the packets that the network loses: 0.001 (nstat: TcpRetransSegs / TcpOutSegs)");
  app.add_option("--stalls", flags.stalls, "Time-outs per packet sent: 1e-6 (nstat: TcpExtTCPTimeouts / TcpOutSegs)");
  app.add_option("--rto", flags.rto,
                 "Retransmission time-out, the first of them: \"50 ms\" (default 200 ms, Linux's least)");
}

void add_machine_flags(CLI::App& app, ClusterFlags& flags) {
  const HelpGroup group(app, "The cluster");
  app.add_option("--cluster", flags.cluster,
                 "Shipped cluster (list clusters), 8xp5 for so many machines of it, or a JSON file");
  app.add_option("--workers", flags.workers, "Devices of the cluster in all");
  app.add_option("--per-node", flags.per_node, "Devices per machine (default 1)");
  app.add_option(
      "--network", flags.network,
      "Link between machines: 25GbE, \"100 Gb/s\", of several cards \"8 x 400Gb/s\" (default: as the trace shows)");
  app.add_option("--level", flags.level,
                 "A level of that network, again: the next one out: \"rail:32 x 400Gb/s\" joins 32 machines, "
                 "\"spine:16, oversubscribed=2\" 16 rails; the first may be \"pod:torus 4x4x4 x 100GB/s\"")
      ->allow_extra_args(false);
  app.add_option("--inside", flags.inside,
                 "Link between devices of a machine: 250GB/s (default: as the trace shows, else by the device)");
  app.add_option("--servers", flags.servers,
                 "Extra machines for parameter servers: 4; or with a rate of each: \"4 x 25Gb/s\"");
  app.add_option("--device-memory", flags.device_memory, "Memory of a device: 80GB");
  app.add_option("--collective", flags.collective, "All-reduce algorithm, or table (measured)");
  app.add_option("--nccl-algo", flags.nccl_algo, "What NCCL_ALGO forces, with --collective nccl: Tree, ^NVLS");
  app.add_option("--nccl-proto", flags.nccl_proto, "What NCCL_PROTO forces, with --collective nccl: Simple, ^LL128");
  app.add_option(
      "--switch", flags.aggregation,
      "A switch that adds up gradients, and the program that it runs: switchml, atp or sa_atp:0.3, with the share "
      "of a straggler's traffic that the others take over");
  app.add_option("--overlay", flags.overlay,
                 "Who mixes models with whom, over which links (JSON, stepcast.overlay/1): for the plan overlay");
  add_device_flags(app, flags);
}

}  // namespace

void add_cluster_flags(CLI::App& app, ClusterFlags& flags) {
  add_machine_flags(app, flags);
  add_trouble_flags(app, flags);
  add_pipeline_file_flag(app, flags.pipeline);
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
  const double samples = profile_options_of(flags).batch_samples;
  Profile profile =
      described_profile(model_shape_of(flags.model), device_of_description(flags, cluster), samples > 0 ? samples : 1);
  if (samples == 0) profile.assumed.insert(profile.assumed.begin(), std::string(one_sample_a_worker));
  return profile;
}

/// Flags that say how a trace is read are refused where there is none, not ignored.
void refuse_reading_flags(const InputFlags& flags, const std::string& found) {
  if (!flags.kernels.empty()) throw InputError("--kernels", "a trace, whose kernels the rules are about", found);
  if (flags.strict) throw InputError("--strict", "a trace, which could be damaged", found);
}

Documents traced_documents(const InputFlags& flags) {
  (void)profile_options_of(flags);  // wrong flags are told before a large file is read
  if (!flags.step.empty()) (void)seconds_of(flags.step, "--step");
  Documents documents = documents_of(flags.files, flags.strict, flags.kernels);
  if (documents.traces.empty()) refuse_reading_flags(flags, "a profile");
  return documents;
}

/// Of traces that give no profile also what is known of them all the same.
Profile profile_or_refusal(const Documents& documents, const ProfileOptions& options) {
  try {
    return profile_of(documents, options, "--model");
  } catch (const InputError& refusal) {
    if (documents.traces.empty() || is_pipelined(documents.traces)) throw;
    const SelfCheck check = recorded_only(documents, refusal.found);
    const AsTraced& recorded = *check.as_traced;
    if (!recorded.known()) throw;
    throw InputError(refusal.where, refusal.expected, refusal.found,
                     (refusal.hint.empty() ? "" : refusal.hint + "; ") +
                         "'stepcast replay' rebuilds the recorded step: " + text_of(recorded.predicted) +
                         ", measured " + text_of(recorded.measured) +
                         (check.recorded && check.recorded->knows_a_size()
                              ? "; 'stepcast recommend' tells what it is on another cluster"
                              : ""));
  }
}

/// As traced, or as the step takes without the profiler.
Profile profile_in(const Documents& documents, const InputFlags& flags) {
  Profile profile = profile_or_refusal(documents, profile_options_of(flags));
  if (flags.step.empty()) return profile;
  return without_profiler(std::move(profile), seconds_of(flags.step, "--step"), "--step");
}

/// What reports say of traces that give no profile.
Profile name_of_job(const Documents& documents) {
  const Trace& trace = documents.traces.front();
  Profile profile;
  profile.model = model_named_by(trace.source);
  profile.device = device_of(trace);
  profile.transfers = transfer_times_of(documents.traces);
  return profile;
}

}  // namespace

Profile profile_of(const InputFlags& flags, const Cluster& cluster) {
  if (is_described(flags)) {
    refuse_reading_flags(flags, "a described model");
    if (!flags.step.empty())
      throw InputError("--step", "a trace, whose profiler slows its step down", "a described model");
    return described_profile(flags, cluster);
  }
  return profile_in(traced_documents(flags), flags);
}

Input input_of(const InputFlags& flags, const Cluster& cluster, const InputOptions& options) {
  if (flags.recorded && is_described(flags))
    throw InputError("--recorded", "a trace, whose recorded step is answered by", "a described model");
  if (flags.recorded && !flags.step.empty()) throw recorded_refusal::beside_step("--recorded", "--step");
  if (is_described(flags)) return {profile_of(flags, cluster), {{}, "the model is described, not traced"}};
  const Documents documents = traced_documents(flags);
  Input input;
  if (!documents.traces.empty()) input.machine_devices = documents.traces.front().machine_devices;
  // Whoever says what the trace lacks asks for a profile.
  const bool needs_profile = !options.recorded_will_do || documents.traces.empty() || is_pipelined(documents.traces) ||
                             !(flags.model.empty() && flags.parameters.empty() && flags.step.empty()) || flags.recorded;
  try {
    input.profile =
        needs_profile ? profile_in(documents, flags) : profile_of(documents, profile_options_of(flags), "--model");
  } catch (const InputError& refusal) {
    if (needs_profile) throw;
    const std::string why = "plans need " + refusal.expected + ", found " + refusal.found;
    input.check = recorded_only(documents, why);
    if (!input.check.recorded) return {profile_in(documents, flags), {}};  // which says what can be asked instead
    input.refusal = why + (refusal.hint.empty() ? "" : "; " + refusal.hint);
    input.check.recorded->batch_samples = profile_options_of(flags).batch_samples;
    input.profile = name_of_job(documents);
    input.profile.batch_samples = input.check.recorded->batch_samples;
    return input;
  }
  input.check = flags.recorded ? recorded_check_of(documents, input.profile, "--recorded")
                               : self_check_of(documents, input.profile);
  if (options.draws_step && !documents.traces.empty() && !is_pipelined(documents.traces))
    if (Answer<ReplayTimeline> recorded = replay_timeline_of(documents.traces.front()))
      input.recorded = std::move(*recorded);
  return input;
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
  for (const std::string& file : {cluster.cluster, cluster.pipeline.file, cluster.overlay, input.device})
    if (!file.empty()) files.push_back(file);
  if (!cluster.beside_model.empty() && !describes_model(cluster.beside_model)) files.push_back(cluster.beside_model);
  return files;
}

Cluster cluster_of(const ClusterFlags& flags) {
  if (flags.overlay.empty()) {
    Cluster cluster = stepcast::cluster_of(flags, cluster_in_file(flags.cluster));
    if (!flags.inside.empty() && cluster.devices_per_node == 1)
      throw InputError("--inside", "several devices in a machine, which it links", "one", "give --per-node N");
    return cluster;
  }
  OverlayNetwork overlay = overlay_of_json(FileBytes(flags.overlay).text(), shown_name(flags.overlay));
  ClusterDescription said = flags;
  // Without a word on the machines there is one for each agent, on links like the overlay's slowest one.
  if (said.cluster.empty() && said.workers.empty()) said.workers = std::to_string(overlay.agents.size());
  if (said.cluster.empty() && said.network.empty()) {
    const auto slower = [](const auto& a, const auto& b) { return a.capacity < b.capacity; };
    said.network = exact_text_of(std::ranges::min_element(overlay.links, slower)->capacity);
  }
  Cluster cluster = stepcast::cluster_of(said, cluster_in_file(flags.cluster));
  const auto agents = static_cast<std::int64_t>(overlay.agents.size());
  if (agents != cluster.workers())
    throw InputError("--overlay", "an agent for each of " + counted(cluster.workers(), "worker"),
                     std::to_string(agents), "leave out --workers, or give an overlay of that size");
  cluster.overlay = std::move(overlay);
  return cluster;
}

ClusterFlags flags_over_workers(ClusterFlags flags, std::int64_t most) {
  if (!flags.workers.empty()) throw InputError("--workers", "either the flag or an axis of workers", "both");
  if (!flags.cluster.empty()) return flags;
  const std::int64_t per_node = flags.per_node.empty() ? 1 : integer_of(flags.per_node, "--per-node", 1, 1'000'000);
  flags.workers = std::to_string(most > per_node ? 2 * per_node : per_node);
  return flags;
}

void add_change_flag(CLI::App& app, ClusterFlags& flags) {
  app.add_option("--what", flags.what, "Predict the step after what-ifs in order, such as 'batch(to=128)+amp'");
}

void add_iterations_flag(CLI::App& app, ClusterFlags& flags) {
  app.add_option("--iterations", flags.iterations, "How long so many iterations take, the plan's warm-up among them");
}

double iterations_of(const ClusterFlags& flags) {
  if (flags.iterations.empty()) return 0;
  return static_cast<double>(integer_of(flags.iterations, "--iterations", 1, 1'000'000'000'000));
}

Scenario changes_of(const ClusterFlags& flags) { return flags.what.empty() ? Scenario{} : scenario_of(flags.what); }

Profile profile_on(const Cluster& cluster, Profile profile, const ClusterFlags& flags) {
  return stepcast::profile_on(cluster, std::move(profile), assumption_of(flags));
}

}  // namespace stepcast::cli
