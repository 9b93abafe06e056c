// stepcast calibrate: the links of a cluster from measured collectives, or a device from measured training steps or a
// trace, with residuals.
#include "command.hpp"
#include "described.hpp"
#include "files.hpp"
#include "input.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/calibration/benchmark_logs.hpp>
#include <stepcast/calibration/calibration.hpp>
#include <stepcast/calibration/device_fit.hpp>
#include <stepcast/calibration/device_of_trace.hpp>
#include <stepcast/calibration/links_of_steps.hpp>
#include <stepcast/calibration/traced_links.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/cluster/links_of_trace.hpp>
#include <stepcast/page/fit_svg.hpp>
#include <stepcast/report/device_fit_report.hpp>
#include <stepcast/report/explained_fit_report.hpp>
#include <stepcast/report/links_fit_report.hpp>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace stepcast::cli {
namespace {

constexpr const char* standard_plan = "layout(overlap_pp=off, overlap_dp=off)/bsp";

struct CalibrateFlags {
  std::vector<std::string> files;
  ClusterFlags cluster;
  std::string name, operation;
  std::string steps, trace, start, plan, plot;
  std::size_t rows = 0;
  bool leave_one_out = true, explain = false;
  OutputFlags output;
};

/// A table with a header line and commas is CSV; benchmarks print neither (gloo's "Device:      tcp, pci=" is no
/// header).
bool is_csv(std::string_view text) {
  const std::string_view head = text.substr(0, text.find('\n'));
  return head.find(',') != std::string_view::npos && head.find_first_of("#:") == std::string_view::npos;
}

/// Logs and tables are plain text of lines; traces are JSON, tables of a database, or packed.
bool is_trace(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  const std::size_t second = text.find_first_not_of(" \t\r\n", first + 1);
  const bool list = text[first] == '[' && second != std::string_view::npos && text[second] == '{';
  return text[first] == '{' || list || text.substr(0, 4096).find('\0') != std::string_view::npos ||
         text.starts_with("\x1f\x8b");
}

/// What was measured, and whether NCCL's own benchmark did it all.
struct Measurements {
  std::vector<MeasuredCollective> tables;
  bool nccl_tests = true;
};

/// The tables of a log, or of a CSV.
std::vector<MeasuredCollective> tables_in(std::string_view text, const std::string& name, const std::string& operation,
                                          std::int64_t workers) {
  return is_csv(text) ? collectives_of_csv(text, name) : collectives_of_nccl_tests(text, name, operation, workers);
}

/// What is named, and of folders the logs in them: what else they hold is left out, and `left_out` says so.
std::vector<std::string> logs_in(const std::vector<std::string>& names, const std::string& operation,
                                 std::int64_t workers, std::string& left_out) {
  std::vector<std::string> logs;
  for (const std::string& name : names) {
    const std::vector<std::string> inside = files_in({name}, "logs");
    if (inside == std::vector{name}) {
      logs.push_back(name);
      continue;
    }
    const std::size_t before = logs.size();
    for (const std::string& path : inside) {
      const FileBytes file(path);
      bool is_log = !is_trace(file.text());
      try {
        if (is_log) static_cast<void>(tables_in(file.text(), path, operation, workers));
      } catch (const InputError& refusal) {
        // Without a table, or a table of something else; a log with a bad line is refused when it is read.
        is_log = refusal.where != path && refusal.where != path + ":1";
      }
      if (is_log) logs.push_back(path);
      else add_to_list(left_out, std::filesystem::path(path).lexically_relative(name).string());
    }
    if (logs.size() == before) throw InputError(name, "a folder with logs of collectives", "none in it");
  }
  return logs;
}

Measurements measured_in(const std::vector<std::string>& files, const std::string& operation, std::int64_t workers) {
  Measurements found_in_all;
  std::vector<MeasuredCollective>& all = found_in_all.tables;
  bool used = false;                // whether --operation was
  std::vector<std::string> traces;  // the ranks of one job
  for (const std::string& path : files) {
    const FileBytes file(path);
    if (is_trace(file.text())) {
      traces.push_back(path);
      found_in_all.nccl_tests = false;
      continue;
    }
    const std::string name = shown_name(path);
    const bool csv = is_csv(file.text());
    std::vector<MeasuredCollective> found = tables_in(file.text(), name, operation, workers);
    if (csv) found_in_all.nccl_tests = false;
    for (const MeasuredCollective& table : found) {
      const bool by_nccl = table.provenance.starts_with("nccl-tests");
      used = used || by_nccl;
      if (!by_nccl && table.operation != "send") found_in_all.nccl_tests = false;
    }
    std::move(found.begin(), found.end(), std::back_inserter(all));
  }
  if (!operation.empty() && !used) throw InputError("--operation", "a log of nccl-tests, whose test it names", "none");
  if (traces.empty()) return found_in_all;
  const Documents documents = documents_of(traces, false);
  if (documents.traces.empty()) throw InputError(traces.front(), "a trace", "a profile");
  std::vector<MeasuredCollective> found = collectives_of_traces(documents.traces);
  // Of a table of one size start-up and bandwidth cannot be told apart.
  std::erase_if(found, [](const MeasuredCollective& table) { return table.sizes.size() < 2; });
  if (found.empty())
    throw InputError(traces.front(), "collectives of at least two sizes, to tell start-up from bandwidth", "one",
                     "trace a step with smaller buckets, which are of several sizes");
  std::move(found.begin(), found.end(), std::back_inserter(all));
  return found_in_all;
}

/// The machines to fit: those that the flags say, else `most` workers, the most that were measured, by `algorithm`.
Cluster base_of(const CalibrateFlags& flags, std::int64_t most, const char* algorithm = "ring") {
  ClusterFlags cluster = flags.cluster;
  // Its tables are those that are measured here, so that the cluster has none yet.
  const bool from_table = cluster.collective == "table";
  if (from_table) cluster.collective.clear();
  const bool machines_only = cluster.cluster.empty() && cluster.network.empty();
  if (cluster.cluster.empty()) {
    if (cluster.workers.empty()) {
      if (most < 2)
        throw InputError("--workers", "the number of devices of the benchmark", "nothing",
                         "the measurements do not say it");
      cluster.workers = std::to_string(most);
    }
    // Only a start: the links are what is fitted.
    if (cluster.network.empty()) cluster.network = "10 Gb/s";
  }
  Cluster base = cluster_of(cluster);
  if (from_table) base.all_reduce = "table";
  if (flags.cluster.collective.empty() && flags.cluster.cluster.empty()) base.all_reduce = algorithm;
  if (machines_only) {  // what is not fitted nobody said
    std::erase_if(base.provenance, [](const std::string& line) { return line.starts_with("network: "); });
    base.provenance.emplace_back(unsaid_network);
    base.name = std::to_string(base.nodes) + "x" + std::to_string(base.devices_per_node) + " calibrated";
  }
  if (!flags.name.empty()) base.name = flags.name;
  return base;
}

Device start_of(const CalibrateFlags& flags) {
  if (flags.start.empty())
    throw InputError("--start", "a device to start from: a shipped name, or a file with the numbers of its data sheet",
                     "nothing", "stepcast list devices");
  if (!looks_like_file(flags.start))
    if (std::optional<Device> shipped = shipped_device_like(flags.start)) return *std::move(shipped);
  return device_of_json(FileBytes(flags.start).text(), shown_name(flags.start));
}

void write_device(const CalibrateFlags& flags, DeviceFit fit, std::span<const MeasuredStep> rows,
                  std::span<const MeasuredStep> held_out, std::vector<double> errors) {
  if (!flags.name.empty()) fit.device.name = flags.name;
  if (!flags.output.path.empty())
    write_output(flags.output.path, [&](std::ostream& out) { out << json_of(fit.device); });
  if (flags.output.path == "-") return;
  const DeviceFitReport report{fit, rows, held_out, std::move(errors)};
  write_output("-", [&](std::ostream& out) {
    flags.output.json ? write_device_fit_json(out, report) : write_device_fit_text(out, report);
  });
}

ExitCode calibrate_from_trace(const CalibrateFlags& flags) {
  refuse_overwriting(flags.output.path, {flags.trace, flags.start});
  const Documents documents = documents_of({flags.trace}, false);
  if (documents.traces.empty()) throw InputError("--trace " + flags.trace, "a trace", "a profile");
  Answer<DeviceFit> fit = device_of_trace(start_of(flags), documents.traces.front());
  if (!fit) throw InputError("--trace " + flags.trace, "a trace that shows a device", fit.reason());
  write_device(flags, std::move(*fit), {}, {}, {});
  return answered;
}

/// The profiles that a table names: files beside it.
std::map<std::string, Profile> profiles_of(const std::vector<JobStep>& steps, const std::string& table) {
  std::map<std::string, Profile> profiles;
  for (const JobStep& step : steps) {
    if (profiles.contains(step.profile)) continue;
    const std::string path = (std::filesystem::path(table).parent_path() / step.profile).string();
    const Documents documents = documents_of({path}, false);
    profiles.emplace(step.profile, profile_of(documents, ProfileOptions{}, step.profile));
  }
  return profiles;
}

/// Links of a cluster from steps of traced jobs: the table names their profiles.
ExitCode calibrate_links(const CalibrateFlags& flags, std::string_view table) {
  const std::string rows = flags.rows > 0 ? std::to_string(flags.rows) : "";
  for (const auto& [flag, value] : {std::pair{"--start", &flags.start}, std::pair{"--rows", &rows}})
    if (!value->empty())
      throw InputError(flag, "a table of described models, to which a device is fitted", "one that names profiles");
  const PlanSpec plan = plan_spec_of(flags.plan.empty() ? "ddp" : flags.plan);
  const std::vector<JobStep> steps = job_steps_of_csv(table, shown_name(flags.steps), plan);
  std::int64_t most = 0;
  for (const JobStep& step : steps) most = std::max(most, step.workers);
  Answer<LinksFit> fit = links_of_steps(base_of(flags, most), profiles_of(steps, flags.steps), steps);
  if (!fit) throw InputError("--steps " + flags.steps, "steps that can be predicted", fit.reason());
  if (!flags.output.path.empty())
    write_output(flags.output.path, [&](std::ostream& out) { out << json_of(fit->cluster) << '\n'; });
  if (flags.output.path == "-") return answered;
  write_output("-", [&](std::ostream& out) {
    const LinksFitReport report{*fit, steps};
    flags.output.json ? write_links_fit_json(out, report) : write_links_fit_text(out, report);
  });
  return answered;
}

ExitCode calibrate_from_steps(const CalibrateFlags& flags) {
  refuse_overwriting(flags.output.path, {flags.steps, flags.start});
  const FileBytes table(flags.steps);
  if (names_profiles(table.text())) return calibrate_links(flags, table.text());
  const Device start = start_of(flags);
  // The links that nobody said are those that predictions take for such devices.
  const Cluster cluster = with_links_of(with_device(cluster_of(flags.cluster), start), Profile{});
  const std::vector<MeasuredStep> all = measured_steps_of_csv(
      table.text(), shown_name(flags.steps), {.plan = layout_plan_of(flags.plan.empty() ? standard_plan : flags.plan)});
  const std::vector<std::size_t> chosen = spread_rows(all, flags.rows > 0 ? flags.rows : all.size());
  std::vector<MeasuredStep> rows, held_out;
  for (std::size_t i = 0, next = 0; i < all.size(); ++i) {
    const bool fits = next < chosen.size() && chosen[next] == i;
    (fits ? rows : held_out).push_back(all[i]);
    if (fits) ++next;
  }
  Answer<DeviceFit> fit = device_of_steps(start, cluster, rows, flags.leave_one_out);
  if (!fit) throw InputError("--steps " + flags.steps, "steps that can be predicted", fit.reason());
  if (const std::string told = told_of(cluster, "inside: "); !told.empty())
    fit->notes.push_back("links inside a machine: " + told);
  if (constexpr double far = 0.5; fit->device.relative_error > far)
    fit->notes.push_back("CAUTION: no such device makes these steps: look for rows of another unit, job or cluster");
  std::vector<double> errors;
  for (const MeasuredStep& step : held_out) {
    const Answer<Seconds> time = predicted_step(fit->device, cluster, step);
    if (!time) throw InputError("--steps " + flags.steps, "steps that can be predicted", time.reason());
    errors.push_back(*time / step.time - 1);
  }
  write_device(flags, std::move(*fit), rows, held_out, std::move(errors));
  return answered;
}

/// Flags that only another kind of measurements has use for are refused, not ignored.
void refuse_flags_of_others(const CalibrateFlags& flags) {
  const ClusterFlags& c = flags.cluster;
  const std::string rows = flags.rows > 0 ? std::to_string(flags.rows) : "";
  const bool trace = !flags.trace.empty();
  if (flags.steps.empty())
    for (const auto& [flag, value] : {std::pair{"--plan", &flags.plan}, std::pair{"--rows", &rows}})
      if (!value->empty()) throw InputError(flag, "--steps, which it is about", trace ? "--trace" : "collectives");
  if (flags.explain && (trace || !flags.steps.empty()))
    throw InputError("--explain", "collectives, whose fit it explains", trace ? "--trace" : "--steps");
  if (!flags.plot.empty() && (trace || !flags.steps.empty()))
    throw InputError("--plot", "collectives, whose fit it draws", trace ? "--trace" : "--steps");
  if (flags.explain && (flags.output.json || flags.output.path == "-"))
    throw InputError("--explain", "text on standard output", flags.output.json ? "--json" : "-o -");
  if ((trace || !flags.steps.empty()) && !flags.operation.empty())
    throw InputError("--operation", "logs of nccl-tests", trace ? "--trace" : "--steps");
  if (flags.steps.empty() && !trace && !flags.start.empty())
    throw InputError("--start", "--steps or --trace, from which a device is fitted", "collectives");
  if (!trace) return;
  for (const auto& [flag, value] :
       {std::pair{"--cluster", &c.cluster}, std::pair{"--workers", &c.workers}, std::pair{"--per-node", &c.per_node},
        std::pair{"--network", &c.network}, std::pair{"--collective", &c.collective}})
    if (!value->empty()) throw InputError(flag, "collectives or --steps, which need a cluster", "--trace");
}

ExitCode calibrate(const CalibrateFlags& flags) {
  refuse_flags_of_others(flags);
  if (!flags.steps.empty()) return calibrate_from_steps(flags);
  if (!flags.trace.empty()) return calibrate_from_trace(flags);
  if (flags.files.empty())
    throw InputError("calibrate", "nccl-tests logs, CSV tables or traces with collectives, or --steps, or --trace",
                     "nothing");
  if (!flags.operation.empty() && !operation_of(flags.operation))
    throw InputError("--operation", "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or send",
                     in_quotes(flags.operation));
  const bool says_workers = !flags.cluster.workers.empty() || !flags.cluster.cluster.empty();
  const std::int64_t workers = says_workers ? base_of(flags, 0).workers() : 0;
  std::string left_out;
  const std::vector<std::string> files = logs_in(flags.files, flags.operation, workers, left_out);
  refuse_overwriting(flags.output.path, files);
  std::vector<std::string> inputs = files;
  inputs.push_back(flags.cluster.cluster);
  check_plot(flags.plot, inputs, flags.output.path, "the fit");
  auto [measured, nccl_tests] = measured_in(files, flags.operation, workers);
  std::int64_t most = 0, per_node = 0, nodes = 0;
  for (const MeasuredCollective& table : measured) {
    most = std::max(most, table.workers);
    nodes = std::max(nodes, table.nodes);
    if (table.nodes > 0) per_node = std::max(per_node, table.workers / table.nodes);
  }
  CalibrateFlags said = flags;
  // The logs list their hosts.
  if (said.cluster.per_node.empty() && said.cluster.cluster.empty() && per_node > 1)
    said.cluster.per_node = std::to_string(per_node);
  // Several machines of a few devices and one of many are several of many.
  if (said.cluster.per_node.empty() || said.cluster.per_node == std::to_string(per_node))
    most = std::max(most, nodes * per_node);
  const Cluster base = base_of(said, most, nccl_tests ? "nccl" : "ring");
  for (MeasuredCollective& table : measured)
    if (table.workers < 1) table.workers = base.workers();
  refuse_small_messages(measured, base);
  Calibration calibration = calibrated(base, measured);
  if (!left_out.empty()) calibration.notes.push_back("left out of the folder, no logs of collectives: " + left_out);
  if (!flags.output.path.empty())
    write_output(flags.output.path, [&](std::ostream& out) { out << json_of(calibration.cluster) << '\n'; });
  if (!flags.plot.empty()) write_output(flags.plot, [&](std::ostream& out) { write_fit_svg(out, calibration); });
  if (flags.output.path != "-")
    write_output("-", [&](std::ostream& out) {
      report_of(flags.output).calibration(out, calibration);
      if (flags.explain) write_explained_fit_text(out, calibration);
    });
  return answered;
}

Action add_calibrate_flags(CLI::App& app) {
  auto flags = std::make_shared<CalibrateFlags>();
  auto* measured = app.add_option(
      "MEASURED", flags->files,
      "Logs of nccl-tests, OSU, ib_write_bw, IMB-MPI1 or gloo's benchmark, folders of them, CSV with size "
      "and time, or traces of a job");
  app.add_option("--steps", flags->steps,
                 "Fit a device instead: CSV with model, layout and time of measured steps; or, to a CSV with profile, "
                 "workers and time, links and what they take from compute")
      ->excludes(measured);
  app.add_option("--trace", flags->trace, "Fit a device instead: a trace whose operators name their shapes")
      ->excludes(measured)
      ->excludes("--steps");
  app.add_option("--start", flags->start, "Device to start from (name or file): its data sheet's numbers");
  app.add_option("--plan", flags->plan,
                 "Layout and plan of the steps, where columns say nothing (default " + std::string(standard_plan) +
                     "; of profiles ddp)");
  app.add_option("--rows", flags->rows, "Fit to so many rows that fill the space of layouts; the others are held out");
  app.add_option("--cluster", flags->cluster.cluster, "Fit the links of this cluster (name or file)");
  app.add_option("--workers", flags->cluster.workers, "Devices in all (default: as measured)");
  app.add_option("--per-node", flags->cluster.per_node, "Devices per machine (default 1)");
  app.add_option("--network", flags->cluster.network, "Nominal link, for what is not measured");
  app.add_option("--collective", flags->cluster.collective,
                 "Algorithm that was measured (default nccl for logs of nccl-tests, else ring)");
  app.add_option("--operation", flags->operation, "Of logs that name no test: all_gather, all_to_all, ...");
  app.add_option("--name", flags->name, "Name of the calibrated cluster");
  app.add_option("-o,--output", flags->output.path, "Write the cluster or device here; - is standard output");
  app.add_flag("--explain", flags->explain, "Of nccl: what was fitted beside where it began, and its errors by size");
  app.add_option("--plot", flags->plot, "Draw fit and measurements by size, a panel an operation: a file for an SVG");
  app.add_flag("--json", flags->output.json, "Write the residuals as JSON");
  return [flags] { return calibrate(*flags); };
}

}  // namespace

const Verb calibrate_verb = {
    "calibrate", "Fit links to measured collectives, or a device to measured steps, with residuals",
    "stepcast calibrate nccl-tests.log --workers 16 --per-node 8 -o cluster.json\n"
    "  stepcast calibrate rank*.pt.trace.json.gz --per-node 8 -o cluster.json\n"
    "  stepcast calibrate --steps steps.csv --start a100-sxm4-80gb --cluster cluster.json -o device.json\n"
    "  stepcast calibrate --steps profiles.csv --per-node 8 --network '200 Gb/s' -o cluster.json",
    add_calibrate_flags};

}  // namespace stepcast::cli
