// stepcast calibrate: the links of a cluster from measured collectives, with residuals.
#include "command.hpp"
#include "files.hpp"
#include "input.hpp"

#include <stepcast/fit.hpp>
#include <stepcast/text.hpp>

#include <algorithm>
#include <iterator>
#include <memory>

namespace stepcast::cli {
namespace {

struct Flags {
  std::vector<std::string> files;
  ClusterFlags cluster;
  std::string name;
  OutputFlags output;
};

/// A table with a header line and commas is CSV; nccl-tests print neither.
bool is_csv(std::string_view text) {
  const std::string_view head = text.substr(0, text.find('\n'));
  return head.find(',') != std::string_view::npos && head.find('#') == std::string_view::npos;
}

std::vector<MeasuredCollective> measured_in(const std::vector<std::string>& files) {
  std::vector<MeasuredCollective> all;
  for (const std::string& path : files) {
    const FileBytes file(path);
    const std::string name = shown_name(path);
    std::vector<MeasuredCollective> found =
        is_csv(file.text()) ? collectives_of_csv(file.text(), name) : collectives_of_nccl_tests(file.text(), name);
    std::move(found.begin(), found.end(), std::back_inserter(all));
  }
  return all;
}

/// The machines to fit: those that the flags say, else as many workers as the largest table has.
Cluster base_of(const Flags& flags, const std::vector<MeasuredCollective>& measured) {
  ClusterFlags cluster = flags.cluster;
  if (cluster.cluster.empty()) {
    if (cluster.workers.empty()) {
      std::int64_t most = 0;
      for (const MeasuredCollective& table : measured) most = std::max(most, table.workers);
      if (most < 2)
        throw InputError("--workers", "the number of devices of the benchmark", "nothing",
                         "the measurements do not say it");
      cluster.workers = std::to_string(most);
    }
    // Only a start: the links are what is fitted.
    if (cluster.network.empty()) cluster.network = "10 Gb/s";
  }
  Cluster base = cluster_of(cluster);
  if (flags.cluster.collective.empty() && flags.cluster.cluster.empty()) base.all_reduce = "ring";
  if (!flags.name.empty()) base.name = flags.name;
  return base;
}

ExitCode calibrate(const Flags& flags) {
  refuse_overwriting(flags.output.path, flags.files);
  std::vector<MeasuredCollective> measured = measured_in(flags.files);
  const Cluster base = base_of(flags, measured);
  for (MeasuredCollective& table : measured)
    if (table.workers < 1) table.workers = base.workers();
  const Calibration calibration = calibrated(base, measured);
  if (!flags.output.path.empty())
    write_output(flags.output.path, [&](std::ostream& out) { out << json_of(calibration.cluster) << '\n'; });
  if (flags.output.path != "-")
    write_output("-", [&](std::ostream& out) { report_of(flags.output).calibration(out, calibration); });
  return answered;
}

Action add_flags(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("MEASURED", flags->files, "nccl-tests logs, or CSV with size and time")->required();
  app.add_option("--cluster", flags->cluster.cluster, "Fit the links of this cluster (name or file)");
  app.add_option("--workers", flags->cluster.workers, "Devices in all (default: as measured)");
  app.add_option("--per-node", flags->cluster.per_node, "Devices per machine (default 1)");
  app.add_option("--network", flags->cluster.network, "Nominal link, for what is not measured");
  app.add_option("--collective", flags->cluster.collective, "Algorithm that was measured (default ring)");
  app.add_option("--name", flags->name, "Name of the calibrated cluster");
  app.add_option("-o,--output", flags->output.path, "Write the cluster here; - is standard output");
  app.add_flag("--json", flags->output.json, "Write the residuals as JSON");
  return [flags] { return calibrate(*flags); };
}

}  // namespace

const Verb calibrate_verb = {"calibrate", "Fit a cluster's links to measured collectives, with residuals",
                             "stepcast calibrate nccl-tests.log --workers 16 --per-node 8 -o cluster.json", add_flags};

}  // namespace stepcast::cli
