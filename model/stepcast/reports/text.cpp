// The text report: results for people, 80 columns where the stream says nothing else (table.hpp).
//
//   replay      rebuilt step 422.3 ms, measured 422.8 ms: -0.1 %
//   model       resnet18, 16 samples a step, computed on the host
//
//    #  plan                         step   gain   exposed  machines  bound
//    1  dear(bucket=1280 KiB)    475.2 ms  1.39x  52.70 ms         4  bandwidth
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/report/difference_report.hpp>
#include <stepcast/report/explanation_report.hpp>
#include <stepcast/report/pipeline_replay_report.hpp>
#include <stepcast/report/replay_edits_report.hpp>
#include <stepcast/report/text/phrases.hpp>
#include <stepcast/report/text/ranking.hpp>
#include <stepcast/report/text/table.hpp>

#include <algorithm>
#include <ostream>

namespace stepcast {
namespace {

using Align = TextTable::Align;

// Profile.

std::string cost_text(const Profile& profile, const PassCost& cost) {
  return profile.has_device() ? text_of(cost.device) + " device, " + text_of(cost.host) + " host" : text_of(cost.host);
}

Seconds busy(const PassCost& cost) { return std::max(cost.host, cost.device); }

void write_largest_layers(std::ostream& out, const Profile& profile) {
  std::vector<Bytes> size(profile.layers.size());
  for (const Tensor& tensor : profile.tensors) size[tensor.layer] += tensor.size;
  std::vector<std::size_t> order(profile.layers.size());
  for (std::size_t l = 0; l < order.size(); ++l) order[l] = l;
  const auto time = [&](std::size_t l) { return busy(profile.layers[l].forward) + busy(profile.layers[l].backward); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return time(a) > time(b); });
  constexpr std::size_t shown = 10;
  TextTable table({{"longest layers", Align::flexible},
                   {"forward", Align::right},
                   {"backward", Align::right},
                   {"gradient", Align::right}});
  for (std::size_t i = 0; i < std::min(shown, order.size()); ++i) {
    const Layer& layer = profile.layers[order[i]];
    table.add_row({layer.name, text_of(busy(layer.forward)), text_of(busy(layer.backward)), text_of(size[order[i]])});
  }
  out << '\n';
  table.write(out);
}

void write_profile(std::ostream& out, const Profile& profile) {
  PassCost forward, backward;
  for (const Layer& layer : profile.layers) forward += layer.forward, backward += layer.backward;
  write_labelled(out, "model", model_text(profile));
  write_labelled(out, "gradients", gradients_text(profile));
  const Seconds measured = profile.measured_step();
  write_labelled(out, "step",
                 (measured > Seconds(0) ? text_of(measured) + " measured (median of " +
                                              counted(std::ssize(profile.step_times), "step") + "), "
                                        : std::string()) +
                     text_of(lone_step_time(profile)) + " without communication");
  write_labelled(out, "forward", cost_text(profile, forward));
  write_labelled(out, "backward", cost_text(profile, backward));
  write_labelled(out, "optimizer", cost_text(profile, profile.optimizer));
  write_labelled(out, "other", cost_text(profile, profile.other));
  if (profile.input > Seconds(0)) write_labelled(out, "input", text_of(profile.input));
  if (profile.input_period > Seconds(0))
    write_labelled(out, "loader", "a batch every " + text_of(profile.input_period) + " at best");
  for (const ObservedCollective& c : profile.collectives) {
    std::string text = c.operation + ", " + std::string(words_of(c.role)) + ", " + std::to_string(c.count) +
                       " times a step, " + text_of(c.duration);
    if (c.waiting > Seconds(0)) text += " and " + text_of(c.waiting) + " of waiting";
    text += c.source == BytesSource::unknown ? ", size unknown"
                                             : ", " + text_of(c.size) + " by " + std::string(words_of(c.source));
    if (c.group_size > 0) text += ", groups of " + std::to_string(c.group_size);
    write_labelled(out, "observed", text);
  }
  if (profile.unclassified_share >= 0)
    write_labelled(out, "not known", share_text(profile.unclassified_share) + " of the recorded time");
  if (!profile.ranks.empty()) out << '\n', write_ranks(out, profile.ranks, profile.lateness);
  write_largest_layers(out, profile);
  out << '\n';
  for (const std::string& text : profile.recognised) write_labelled(out, "recognised", text);
  for (const std::string& text : profile.missing) write_labelled(out, "missing", text);
  for (const std::string& text : profile.assumed) write_labelled(out, "assumed", text);
  for (const std::string& text : profile.cautions)
    write_labelled(out, "CAUTION", text + ", so predictions from it are doubtful");
}

// Replay.

/// The name of the file without its folders, cut to fit.
std::string shortened(const std::string& path) {
  constexpr std::size_t most = 40;
  const std::string name = path.substr(path.rfind('/') + 1);  // npos + 1 = 0
  return name.size() <= most ? name : name.substr(0, most - 3) + "...";
}

void write_one_replay(std::ostream& out, const Replay& replay) {
  write_labelled(out, "trace", replay.source);
  write_labelled(out, "rebuilt",
                 text_of(replay.replayed) + " a step, from step " + std::to_string(replay.calibration_step) + " alone");
  if (replay.scored) {
    write_labelled(out, "measured", text_of(replay.measured) + ", median of the other undistorted steps");
    write_labelled(
        out, "error",
        percent(replay.relative_error, true) + " (the measured steps vary by " + percent(replay.noise) + ")");
  }
  write_labelled(out, "gaps",
                 percent(replay.recorded_gap_share) + " of the rebuilt step is recorded host time without an event");
  if (!replay.note.empty()) write_labelled(out, "note", replay.note);
  TextTable table({{"step", Align::right},
                   {"measured", Align::right},
                   {"rebuilt", Align::right},
                   {"error", Align::right},
                   {"", Align::left}});
  const std::vector<double> errors = replay.step_errors();
  for (std::size_t i = 0; i < replay.steps.size(); ++i) {
    const Step& step = replay.steps[i];
    const bool timed = replay.step_times[i] > Seconds(0), rebuilt = replay.rebuilt[i] > Seconds(0);
    table.add_row({std::to_string(step.number), timed ? text_of(replay.step_times[i]) : "unknown",
                   rebuilt ? text_of(replay.rebuilt[i]) : "", timed && rebuilt ? percent(errors[i], true) : "",
                   step.number == replay.calibration_step ? "rebuilt from this one"
                   : step.distorted                       ? "distorted, left out"
                                                          : ""});
  }
  if (!table.empty()) out << '\n', table.write(out);
}

/// One row a rank.
void write_rank_replays(std::ostream& out, const SelfCheck& check) {
  TextTable table(
      {{"trace", Align::left}, {"measured", Align::right}, {"rebuilt", Align::right}, {"error", Align::right}});
  for (const Replay& replay : check.ranks)
    table.add_row({shortened(replay.source), text_of(replay.measured), text_of(replay.replayed),
                   replay.scored ? percent(replay.relative_error, true) : "not scored"});
  table.write(out);
  out << '\n';
}

void write_replay(std::ostream& out, const SelfCheck& check) {
  if (!check.together.empty()) write_ranks(out, check.together, check.lateness), out << '\n';
  if (check.ranks.empty()) write_labelled(out, "replay", replay_text(check));
  if (check.ranks.size() > 1) write_rank_replays(out, check);
  for (std::size_t i = 0; i < check.ranks.size(); ++i) {
    if (i > 0) out << '\n';
    write_one_replay(out, check.ranks[i]);
  }
}

void write_lateness_text(std::ostream& out, const SelfCheck& check) {
  write_labelled(out, "why", check.lateness);
  for (const std::string& caution : check.cautions) write_labelled(out, "CAUTION", caution);
  out << '\n';
  write_ranks(out, check.together, {});
  if (check.together.empty()) return;
  out << "\ntransfer, waiting and late are of an average step, or of the recording where no\n"
         "steps are known. waiting: in collectives, until the last rank has come to them;\n"
         "late: after the median rank (\"late by\" above: in the steps in which it was);\n"
         "clock: ahead of the rank that shows 0 s, known to within so much.\n";
}

// Prediction.

// Long paths are cut in the middle: the beginning and the end say what the step waits for.
std::string path_text(const std::vector<std::string>& path) {
  constexpr std::size_t ends = 4;
  std::string text;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path.size() > 2 * ends + 1 && i == ends) {
      text += ", ... " + std::to_string(path.size() - 2 * ends) + " more ...";
      i = path.size() - ends;
    }
    add_to_list(text, path[i]);
  }
  return text;
}

void write_breakdown(std::ostream& out, const Prediction& p) {
  TextTable table({{"part of the step"}, {"time", Align::right}, {"share", Align::right}});
  for_each_field<Breakdown>([&](const auto& part) {
    const Seconds time = p.breakdown.*part.get;
    const bool always = part.get == &Breakdown::compute || part.get == &Breakdown::exposed_communication;
    if (part.get == &Breakdown::hidden_communication || !(always || time > Seconds(0))) return;
    std::string words(without_unit(part.name, "_s"));
    std::replace(words.begin(), words.end(), '_', ' ');
    table.add_row({words, text_of(time), percent(time / p.iteration)});
  });
  table.add_row({"(hidden communication)", text_of(p.breakdown.hidden_communication), ""});
  table.write(out);
}

void write_stragglers(std::ostream& out, const Prediction& p) {
  const StragglerEffect& effect = *p.stragglers;
  write_labelled(
      out, "stragglers",
      effect.description +
          (lead_of(p.plan) > 0
               ? "; a step is the time in which the job takes a batch a worker, the parts below are the mean over all"
               : "; the parts below are the slowest worker's"));
  if (effect.step_high > effect.step_low)
    write_labelled(out, "jitter",
                   "80 % of the steps: " + text_of(effect.step_low) + " to " + text_of(effect.step_high));
  write_labelled(out, "without",
                 text_of(effect.without) + " a step if no worker were slow: " + fixed(p.iteration / effect.without, 2) +
                     "x as fast");
}

void write_prediction(std::ostream& out, const PredictionReport& report) {
  const Prediction& p = report.prediction;
  write_subject(out, report.profile, report.cluster, check_of(report));
  write_labelled(out, "plan", text_of(p.plan));
  write_labelled(out, "step", text_of(p.iteration) + " (80 % interval of the mean: " + interval_text(p) + ")");
  if (p.step_p99 > p.step_p50)
    write_labelled(out, "tail", "from step to step: p50 " + text_of(p.step_p50) + ", p99 " + text_of(p.step_p99));
  if (p.throughput_samples_per_s > 0)
    write_labelled(out, "throughput", fixed(p.throughput_samples_per_s, 1) + " samples/s on all workers");
  if (p.memory > Bytes(0)) write_labelled(out, "memory", text_of(p.memory) + " a worker");
  if (p.stragglers) write_stragglers(out, p);
  if (p.run) write_run(out, *p.run);
  write_labelled(out, "bound", p.bound);
  if (p.input) write_input(out, *p.input);
  out << '\n';
  write_breakdown(out, p);
  out << '\n';
  if (!p.critical_path.empty()) write_labelled(out, "path", path_text(p.critical_path));
  if (report.cycle)
    write_labelled(out, "cycle",
                   path_text(report.cycle->tasks) + ", and again " + counted(report.cycle->steps, "step") +
                       " later: " + text_of(report.cycle->period) + " a step, whatever else is done");
  for (const std::string& warning : p.warnings) write_labelled(out, "note", warning);
  write_grounds(out, report.profile, report.cluster, check_of(report));
}

void write_inapplicable_plan(std::ostream& out, std::string_view plan, const Inapplicable& why) {
  write_labelled(out, "plan", plan);
  write_labelled(out, "not here", why.reason);
}

// Calibration.

void write_calibration(std::ostream& out, const Calibration& calibration) {
  const Cluster& c = calibration.cluster;
  write_labelled(out, "cluster", cluster_text(c));
  if (c.devices_per_node > 1)
    write_labelled(out, "inside", text_of(c.inside.latency) + " a step, " + text_of(c.inside.bandwidth));
  if (c.nodes > 1)
    write_labelled(out, "network", text_of(c.network.latency) + " a step, " + text_of(c.network.bandwidth));
  // Tables answer where they were measured, links elsewhere.
  const bool by_tables = calibration.residual_of_links > 0 && calibration.residual_of_links != c.relative_error;
  write_labelled(
      out, "residual",
      percent(c.relative_error) + " rms" +
          (by_tables ? " between measured sizes; " + percent(calibration.residual_of_links) + " rms of the links alone"
                     : ""));
  for (const std::string& note : calibration.notes) write_labelled(out, "note", note);
  for (const Calibration::Entry& entry : calibration.entries) {
    out << '\n' << entry.measured.operation << " on " << counted(entry.measured.workers, "worker") << '\n';
    TextTable table({{"size", Align::right},
                     {"measured", Align::right},
                     {"fitted", Align::right},
                     {"", Align::right},
                     {"links", Align::right},
                     {"", Align::right}});
    for (std::size_t i = 0; i < entry.measured.sizes.size(); ++i) {
      const Bytes size = entry.measured.sizes[i];
      const Seconds measured = entry.measured.times[i];
      const Seconds fit = entry.fit(size);
      std::vector<std::string> row{text_of(size), text_of(measured), text_of(fit), percent(fit / measured - 1, true)};
      if (!entry.by_links.empty()) {
        row.push_back(text_of(entry.by_links[i]));
        row.push_back(percent(entry.by_links[i] / measured - 1, true));
      }
      row.resize(6);
      table.add_row(std::move(row));
    }
    table.write(out);
  }
}

}  // namespace

Report text_report() {
  return {.name = "text",
          .summary = "for people: 80 columns of plain text",
          .profile = write_profile,
          .inspection = write_inspection_text,
          .explanation = write_explanation_text,
          .difference = write_difference_text,
          .lateness = write_lateness_text,
          .replay = write_replay,
          .replay_edits = write_replay_edits_text,
          .pipeline_replay = write_pipeline_replay_text,
          .prediction = write_prediction,
          .ranking = write_ranking_text,
          .whatif = write_whatif_text,
          .inapplicable = write_inapplicable_plan,
          .calibration = write_calibration,
          .timeline = nullptr,
          .layout = write_layout_text,
          .layout_comparison = write_layout_comparison_text,
          .layout_search = write_layout_search_text,
          .placement = write_placement_text,
          .unit_frontier = write_unit_frontier_text};
}

}  // namespace stepcast
