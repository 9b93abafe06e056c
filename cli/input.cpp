#include "input.hpp"

#include "described.hpp"
#include "documents.hpp"
#include "files.hpp"

#include <stepcast/model_shape.hpp>
#include <stepcast/profile_of.hpp>
#include <stepcast/profile_whatif.hpp>
#include <stepcast/suggestion.hpp>
#include <stepcast/text.hpp>

#include <algorithm>
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

constexpr std::int64_t most_machines = 1'000'000;

Cluster named_or_read_cluster(const std::string& name) {
  if (const Cluster* shipped = shipped_cluster(name)) return *shipped;
  if (looks_like_file(name)) return cluster_of_json(FileBytes(name).text(), shown_name(name));
  std::vector<std::string> names;
  for (const Cluster& cluster : shipped_clusters()) names.push_back(cluster.name);
  throw InputError("--cluster", "a shipped cluster or a JSON file", "'" + name + "'",
                   did_you_mean(name, names, "'stepcast list clusters' names the shipped ones"));
}

Cluster cluster_of_name(const ClusterFlags& flags) {
  if (!flags.inside.empty()) throw InputError("--inside", "either --cluster or the flags of its links", "both");
  if (!flags.network.empty() || !flags.per_node.empty())
    throw InputError(flags.network.empty() ? "--per-node" : "--network", "either --cluster or the flags of a network",
                     "both");
  Cluster cluster = named_or_read_cluster(flags.cluster);
  if (flags.workers.empty()) return cluster;
  const std::int64_t workers = integer_of(flags.workers, "--workers", 1, most_machines);
  Answer<Cluster> answer = resized(std::move(cluster), workers);
  if (!answer) throw InputError("--workers", "a size that cluster '" + flags.cluster + "' can have", answer.reason());
  return *answer;
}

void set_collective(Cluster& cluster, const std::string& name) {
  if (name != "table" && !collective_algorithm(name)) {
    std::vector<std::string> names{"table"};
    for (const CollectiveAlgorithm& algorithm : collective_algorithms()) names.emplace_back(algorithm.name);
    throw InputError("--collective", "one of " + listed(names), "'" + name + "'", did_you_mean(name, names));
  }
  cluster.all_reduce = name;
  const Answer<CommunicationCost> cost = communication_cost(cluster);
  if (!cost) throw InputError("--collective", "an algorithm for this cluster", "'" + name + "'", cost.reason());
}

Profile on_device(const Cluster& cluster, Profile profile, const ClusterFlags& flags) {
  if (flags.same_device && !flags.faster_compute.empty())
    throw InputError("--faster-compute", "either --same-device or --faster-compute", "both");
  if (!flags.faster_compute.empty()) {
    const double factor = number_of(flags.faster_compute, "--faster-compute");
    if (factor <= 0) throw InputError("--faster-compute", "a positive factor", flags.faster_compute);
    return with_faster_compute(std::move(profile), factor);
  }
  if (flags.same_device || cluster.device.empty() || same_device(cluster.device, profile.device)) return profile;
  throw InputError("--cluster", "the traced device (" + (profile.has_device() ? profile.device : "the host") + ")",
                   "'" + cluster.device + "'",
                   "say what to assume: --faster-compute X, or --same-device for the traced compute times");
}

}  // namespace

Bytes memory_of(const std::string& text, const char* flag) {
  const Bytes memory = bytes_of(text, flag);
  if (memory == Bytes(0)) throw InputError(flag, "a positive size", "'" + text + "'");
  return memory;
}

void note(std::string_view text) { std::cerr << "stepcast: note: " << text << '\n'; }

void add_input_flags(CLI::App& app, InputFlags& flags) {
  app.add_option("TRACE", flags.files, "Traces, plain or gzip (ranks of one run), or a profile");
  app.add_option("--model", flags.model,
                 "Shipped list that names a trace's tensors; or, without a trace, a description: "
                 "gpt:hidden=4096,layers=32,heads=32,seq=2048");
  app.add_option("--device", flags.device, "Device of a described model (list devices) or a JSON file");
  app.add_option("--batch", flags.batch, "Samples per worker and step");
  add_reading_flags(app, flags);
}

void add_reading_flags(CLI::App& app, InputFlags& flags) {
  app.add_option("--kernels", flags.kernels, "Rules for names of kernels (JSON), before the shipped ones");
  app.add_flag("--strict", flags.strict, "Refuse a damaged trace, do not repair it");
}

void add_cluster_flags(CLI::App& app, ClusterFlags& flags) {
  app.add_option("--cluster", flags.cluster, "Shipped cluster (list clusters) or a JSON file");
  app.add_option("--workers", flags.workers, "Devices in all");
  app.add_option("--per-node", flags.per_node, "Devices per machine (default 1)");
  app.add_option("--network", flags.network, "Link between machines: 25GbE, \"100 Gb/s\"");
  app.add_option("--inside", flags.inside, "Link between devices of a machine: 250GB/s (default 20GB/s: PCIe 4.0 x16)");
  app.add_option("--servers", flags.servers, "Machines for parameter servers");
  app.add_option("--device-memory", flags.device_memory, "Memory of a device: 80GB");
  app.add_option("--collective", flags.collective, "All-reduce algorithm, or table (measured)");
  add_cluster_option_flags(app, flags.options);
  add_pipeline_file_flag(app, flags.pipeline);
  add_device_flags(app, flags);
}

void add_device_flags(CLI::App& app, ClusterFlags& flags) {
  app.add_flag("--same-device", flags.same_device, "Keep compute times though the device differs");
  app.add_option("--faster-compute", flags.faster_compute, "Divide compute times by this factor");
}

void add_output_flags(CLI::App& app, OutputFlags& flags) {
  app.add_option("-o,--output", flags.path, "Write to this file; - is standard output");
  app.add_flag("--json", flags.json, "Write JSON");
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
  if (!timeline.empty() && timeline == output.path)
    throw InputError("--timeline", "another file than the result's", "'" + timeline + "' for both");
}

std::vector<std::string> files_of(const InputFlags& input, const ClusterFlags& cluster) {
  std::vector<std::string> files = input.files;
  for (const std::string& file : {cluster.cluster, cluster.pipeline.file, input.device})
    if (!file.empty()) files.push_back(file);
  return files;
}

namespace {

Cluster cluster_of_links(std::int64_t workers, std::int64_t per_node, const ClusterFlags& flags) {
  const auto forget = [](Cluster& cluster, std::string_view link) {
    std::erase_if(cluster.provenance, [&](const std::string& line) { return line.starts_with(link); });
  };
  const bool one_machine = workers <= per_node;
  if (flags.network.empty() && !one_machine) throw InputError("--network", "a bandwidth such as '25GbE'", "nothing");
  Cluster cluster = cluster_of_flags(workers, per_node, flags.network.empty() ? "10GbE" : flags.network);
  if (flags.network.empty()) {  // nothing goes over it
    forget(cluster, "network: ");
    cluster.name = std::to_string(workers) + (workers == 1 ? " device" : " devices");
  }
  if (flags.inside.empty()) return cluster;
  cluster.inside.bandwidth = bandwidth_of(flags.inside, "--inside");
  forget(cluster, "inside: ");
  cluster.provenance.push_back("inside: " + flags.inside + " as given; assumed: " + text_of(cluster.inside.latency) +
                               " a step");
  return cluster;
}

}  // namespace

Cluster cluster_of(const ClusterFlags& flags) {
  Cluster cluster;
  if (!flags.cluster.empty()) {
    cluster = cluster_of_name(flags);
  } else {
    if (flags.workers.empty())
      throw InputError("", "a cluster", "none", "give --cluster NAME, or --workers N --per-node G --network 25GbE");
    const std::int64_t workers = integer_of(flags.workers, "--workers", 1, most_machines);
    const std::int64_t per_node =
        flags.per_node.empty() ? 1 : integer_of(flags.per_node, "--per-node", 1, most_machines);
    cluster = cluster_of_links(workers, per_node, flags);
  }
  if (!flags.servers.empty()) cluster.servers = integer_of(flags.servers, "--servers", 0, most_machines);
  if (!flags.device_memory.empty()) cluster.device_memory = memory_of(flags.device_memory, "--device-memory");
  cluster = with_options(std::move(cluster), flags.options);
  if (!flags.collective.empty()) set_collective(cluster, flags.collective);
  return cluster;
}

Profile profile_on(const Cluster& cluster, Profile profile, const ClusterFlags& flags) {
  return fed(on_device(cluster, std::move(profile), flags), pipeline_of(flags.pipeline), cluster);
}

}  // namespace stepcast::cli
