// stepcast sweep: step times of plans over a grid of bandwidths, workers, batches or options, as a table that is
// written while it is computed.
#include "asked.hpp"
#include "command.hpp"
#include "described.hpp"
#include "files.hpp"
#include "input.hpp"
#include "layout_options.hpp"
#include "progress.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/baseline/recorded_refusals.hpp>
#include <stepcast/page/sweep_svg.hpp>
#include <stepcast/report/sweep_report.hpp>
#include <stepcast/roofline/usual_batch.hpp>
#include <stepcast/sweep/kept_range.hpp>
#include <stepcast/sweep/sweep.hpp>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <ostream>
#include <sstream>
#include <utility>

namespace stepcast::cli {
namespace {

struct SweepFlags {
  InputFlags input;
  ClusterFlags cluster;
  OutputFlags output;
  std::vector<std::string> axes, plans;
  std::string points, plot, threads, keep;
  bool tune = false, csv = false, table = false, all = false;
  LayoutFlags layout;
};

const SweepAxis* axis_of(const SweepQuestion& question, SweepQuantity quantity) {
  const auto found = std::find_if(question.axes.begin(), question.axes.end(),
                                  [&](const SweepAxis& axis) { return axis.quantity == quantity; });
  return found == question.axes.end() ? nullptr : &*found;
}

/// What an axis says need not be said twice.
Cluster cluster_under(const SweepQuestion& question, const SweepFlags& flags) {
  ClusterFlags cluster = flags.cluster;
  if (const SweepAxis* bandwidth = axis_of(question, SweepQuantity::bandwidth))
    if (cluster.cluster.empty() && cluster.network.empty())
      cluster.network = exact_text_of(BytesPerSecond(bandwidth->values.front()));
  if (const SweepAxis* workers = axis_of(question, SweepQuantity::workers)) {
    const double most = *std::max_element(workers->values.begin(), workers->values.end());
    cluster = flags_over_workers(std::move(cluster), static_cast<std::int64_t>(most));
  }
  return cluster_for(flags.input, cluster);
}

/// Points before the last one of the range; the whole grid without the flag.
SweepOptions range_of(const SweepFlags& flags, std::size_t points) {
  SweepOptions options;
  options.last = points;
  if (!flags.threads.empty()) options.threads = static_cast<unsigned>(integer_of(flags.threads, "--threads", 1, 1024));
  if (flags.points.empty()) return options;
  const std::size_t dots = flags.points.find("..");
  if (dots == std::string::npos)
    throw InputError("--points", "a range FIRST..LAST, without the last, such as '0..100'", in_quotes(flags.points));
  const auto most = static_cast<std::int64_t>(std::min<std::size_t>(points, std::numeric_limits<std::int64_t>::max()));
  options.first = static_cast<std::size_t>(integer_of(flags.points.substr(0, dots), "--points, first point", 0, most));
  options.last = static_cast<std::size_t>(integer_of(flags.points.substr(dots + 2), "--points, end of the range",
                                                     static_cast<std::int64_t>(options.first), most));
  return options;
}

/// What is told by flags alone, before anything large is read.
SweepQuestion question_of(const SweepFlags& flags) {
  SweepQuestion question;
  for (const std::string& plan : flags.plans) question.plans.push_back(plan_of(plan));
  if (flags.axes.empty())
    throw InputError("", "an axis", "none", "give --over bandwidth=1Gb/s..400Gb/s or --over workers=2..64");
  for (const std::string& axis : flags.axes) question.axes.push_back(sweep_axis_of(axis, question.plans));
  question.tune = flags.tune;
  question.all_plans = flags.all;
  (void)changes_of(flags.cluster);
  refuse_unused_flags(flags.cluster, question.plans);
  if (!flags.layout.global_batch.empty()) question.global_batch = global_batch_of(flags.layout);
  const auto divides = [](const Plan& plan) { return plan.layout.has_value(); };
  if (!flags.cluster.device_memory.empty() && !asks_for_layouts(question))
    throw InputError("--device-memory", "a plan with a layout, which has to fit in it", "none");
  const bool varies = axis_of(question, SweepQuantity::jitter) != nullptr;
  if ((varies || !flags.cluster.jitter.empty()) && !question.plans.empty() &&
      std::all_of(question.plans.begin(), question.plans.end(), divides))
    throw InputError(varies ? "--over" : "--jitter",
                     varies ? "jitter of a plan without a layout" : "a plan without a layout",
                     "layouts, which leave it out");
  if (flags.csv + flags.output.json + flags.table > 1)
    throw InputError("--csv", "one of --csv, --table and --json", flags.csv && flags.output.json ? "both" : "several");
  if (!flags.plot.empty() && !flags.points.empty()) throw InputError("--plot", "the whole grid", "--points");
  if (!flags.keep.empty() && !flags.points.empty()) throw InputError("--keep", "the whole grid", "--points");
  return question;
}

/// What was written.
struct Written {
  std::vector<SweepRow> rows;  ///< all of them, if they are to be drawn
  bool any = false;            ///< some plan can run somewhere
};

/// People who look at a terminal get a table, programs and files CSV.
bool shows_table(const SweepFlags& flags) {
  const bool said = flags.csv || flags.output.json || !flags.output.path.empty();
  return flags.table || (!said && ::isatty(STDOUT_FILENO) == 1);
}

/// Writes the rows of a range piece by piece.
Written write_rows(std::ostream& out, const SweepFlags& flags, const SweepQuestion& question,
                   const SweepOptions& range) {
  constexpr std::size_t rows_at_once = 16384;
  const std::size_t piece = std::max<std::size_t>(1, rows_at_once / plans_of(question).size());
  Written written;
  const bool table = shows_table(flags) || !flags.keep.empty();
  Progress progress("sweep");
  const double all = static_cast<double>(std::max<std::size_t>(1, range.last - range.first));
  for (std::size_t first = range.first; first == range.first || first < range.last; first += piece) {
    SweepOptions options = range;
    options.first = first, options.last = std::min(range.last, first + piece);
    options.progress = [&](double share) {
      const double here = share * static_cast<double>(options.last - options.first);
      progress.show((static_cast<double>(first - range.first) + here) / all);
    };
    std::vector<SweepRow> rows = swept(question, options);
    // The header stands before the first point only, so that ranges can be put one behind the other.
    if (table) {
      // Its columns are as wide as all rows need.
    } else if (flags.output.json) write_sweep_json_lines(out, question, rows);
    else write_sweep_csv(out, question, rows, first == 0);
    out.flush();
    if (!out) break;  // told by whoever opened it
    written.any |=
        std::any_of(rows.begin(), rows.end(), [](const SweepRow& row) { return row.prediction.has_value(); });
    if (flags.plot.empty() && !table) continue;
    written.rows.insert(written.rows.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
  }
  return written;
}

/// Where each plan keeps what is asked for, in place of the rows; false: nowhere.
bool write_kept(std::ostream& out, const SweepFlags& flags, const SweepQuestion& question,
                std::span<const SweepRow> rows) {
  const Kept kept = kept_of(flags.keep, "--keep");
  const std::vector<KeptRange> ranges = kept_ranges_of(question, rows, kept);
  if (shows_table(flags)) write_kept_text(out, question, kept, ranges);
  else if (flags.output.json) write_kept_json_lines(out, question, ranges);
  else write_kept_csv(out, question, ranges);
  return std::ranges::any_of(ranges, &KeptRange::any);
}

ExitCode sweep(const SweepFlags& flags) {
  if (!flags.keep.empty()) (void)kept_of(flags.keep, "--keep");
  SweepQuestion question = question_of(flags);
  question.cluster = cluster_under(question, flags);
  // Who counts them means as many at every point.
  if (!flags.cluster.servers.empty()) question.servers = question.cluster.servers;
  if (axis_of(question, SweepQuantity::batch) != nullptr && !flags.layout.global_batch.empty())
    throw InputError("--global-batch", "one of it and --over batch, samples of each worker", "both", "leave one out");
  const SweepOptions range = range_of(flags, question.points());
  const std::vector<std::string> inputs = files_of(flags.input, flags.cluster, flags.layout);
  refuse_overwriting(flags.output.path, inputs);
  check_writable(flags.output.path);
  check_plot(flags.plot, inputs, flags.output.path, "the rows");
  if (!flags.plot.empty()) check_panels(question);
  const Asked asked = asked_of(flags.input, flags.cluster, flags.layout,
                               {.layouts = asks_for_layouts(question),
                                .across_devices = axis_of(question, SweepQuantity::compute) != nullptr,
                                .cluster = question.cluster,
                                .step_of_worker = axis_of(question, SweepQuantity::compute) != nullptr ||
                                                  axis_of(question, SweepQuantity::batch) != nullptr ||
                                                  axis_of(question, SweepQuantity::change) != nullptr});
  static_cast<Question&>(question) = asked.question;
  if (question.usual_batch > 0)
    note(usual_batch_text(*question.shape, question.usual_batch) +
         (axis_of(question, SweepQuantity::workers) != nullptr
              ? "; workers that do not divide it share out what is usual for them"
              : "") +
         "; --global-batch sets it");
  if (axis_of(question, SweepQuantity::bandwidth) != nullptr && !over_network(question))
    note("no point has several machines: bandwidth is that of the links inside one");
  else if (axis_of(question, SweepQuantity::bandwidth) != nullptr && question.cluster.nics_per_node > 1)
    note("bandwidth is that of a card, of which a machine has " + std::to_string(question.cluster.nics_per_node));
  if (!asks_for_layouts(question) && axis_of(question, SweepQuantity::change) == nullptr)
    question.model = asked.check.recorded_model(PreparedQuestion(asked.question));
  question.second_opinion = asked.check.second_opinion();
  if (flags.input.recorded && !question.model) throw recorded_refusal::of_changed_job("--recorded");
  if (question.model && !flags.input.recorded)
    note("no plan stands for the traced job: its recorded step with other messages is swept");
  const std::string caution = question.model ? asked.check.for_recorded_step().caution() : asked.check.caution();
  if (!caution.empty()) note(caution + ": these predictions are doubtful");
  Written written;
  if (shows_table(flags) || !flags.keep.empty()) {
    std::ostringstream nothing;
    written = write_rows(nothing, flags, question, range);
    write_output(flags.output.path, [&](std::ostream& out) {
      if (flags.keep.empty()) write_sweep_text(out, question, written.rows);
      else written.any = write_kept(out, flags, question, written.rows);
    });
  } else {
    write_output_as_made(flags.output.path,
                         [&](std::ostream& out) { written = write_rows(out, flags, question, range); });
  }
  if (!flags.plot.empty())
    write_output(flags.plot, [&](std::ostream& out) { write_sweep_svg(out, question, written.rows); });
  return written.any ? answered : answer_is_no;
}

Action add_sweep_flags(CLI::App& app) {
  auto flags = std::make_shared<SweepFlags>();
  add_input_flags(app, flags->input);
  add_recorded_flag(app, flags->input);
  app.add_option("--over", flags->axes,
                 "An axis: bandwidth=1Gb/s..400Gb/s (goodput), latency=1us..1ms:7 (points), workers=2..1024, "
                 "batch=8,16,32, compute=1..8 (times as fast), a number of the layout: tp=1..8, pp=1,2,4, or an "
                 "option: bucket=1MiB..64MiB, ddp.bucket=...; "
                 "again: another axis, varied faster")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option(
      "--keep", flags->keep,
      "In place of the rows, where along the first axis each plan keeps this share of the most that a worker "
      "does in a second ('90%'), or takes at most this step ('350 ms')");
  app.add_option("--plan", flags->plans,
                 "A plan to predict; again: one more (default: all exact strategies that PyTorch runs)")
      ->take_all()
      ->allow_extra_args(false);
  app.add_flag("--all", flags->all, "Plans that need other software or servers, too")->excludes("--plan");
  app.add_flag("--tune", flags->tune, "Search the best value of each plan's options at each point");
  app.add_option("--points", flags->points,
                 "Only points FIRST..LAST of the grid, counted from 0, without the last; the header of a table stands "
                 "before point 0");
  app.add_option("--plot", flags->plot, "Draw step times against the first axis: a file for an SVG");
  app.add_option("--threads", flags->threads, "Threads (default: as many as cores); the rows are the same");
  add_cluster_flags(app, flags->cluster);
  add_change_flag(app, flags->cluster);
  add_global_batch_flag(app, flags->layout);
  add_measured_flag(app, flags->layout);
  app.add_flag("--table", flags->table, "Write a table for people (default on a terminal)");
  app.add_flag("--csv", flags->csv, "Write CSV (default elsewhere)");
  add_output_flags(app, flags->output);
  app.get_option("--json")->description("Write JSON lines");
  return [flags] { return sweep(*flags); };
}

}  // namespace

const Verb sweep_verb = {"sweep", "Predict plans over a grid of bandwidths, workers, batches or options",
                         "stepcast sweep trace.json.gz --per-node 4 --network 25GbE --plan ddp --plan dear \\\n"
                         "      --over bandwidth=1Gb/s..100Gb/s --over workers=8..64 --plot sweep.svg -o sweep.csv\n"
                         "  stepcast sweep trace.json.gz --workers 16 --over bandwidth=1Gb/s..400Gb/s --keep 90%",
                         add_sweep_flags};

}  // namespace stepcast::cli
