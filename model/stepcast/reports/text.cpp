// The text report: results for people, 80 columns, no colours.
//
//   model      resnet18, 16 samples a step on the host
//   replay     rebuilt 203.1 ms, measured 204.9 ms in 3 other steps: -0.9 %
//   cluster    16 workers on 4 machines, network 10 Gb/s
//
//   #  plan                          step  gain  exposed  machines  bound
//   1  dear(bucket=12 MiB)       212.4 ms  1.23x   4.1 ms        4  compute
#include <stepcast/report.hpp>
#include <stepcast/text.hpp>
#include <stepcast/text_table.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <utility>

namespace stepcast {
namespace {

using Align = TextTable::Align;

std::string fixed(double value, int digits, bool sign = false) {
  char text[64];
  std::snprintf(text, sizeof text, sign ? "%+.*f" : "%.*f", digits, value);
  return text;
}

std::string percent(double share, bool sign = false) { return fixed(100 * share, 1, sign) + " %"; }

std::string counted(std::int64_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

/// A bound as a column shows it: "communication bandwidth (63 % of the critical path; ...)" is "bandwidth".
std::string short_bound(std::string_view bound) {
  constexpr std::pair<std::string_view, std::string_view> names[] = {{"communication bandwidth", "bandwidth"},
                                                                     {"start-up of messages", "start-up"},
                                                                     {"waiting for a timer", "timer"},
                                                                     {"host issue of kernels", "host issue"}};
  const std::string_view plain = bound.substr(0, bound.find(" ("));
  for (const auto& [in_full, name] : names)
    if (plain == in_full) return std::string(name);
  return std::string(plain);
}

std::string interval_text(const Prediction& p) { return text_of(p.interval_low) + " to " + text_of(p.interval_high); }

// What every report of a prediction opens with.

std::string replay_text(const SelfCheck& check) {
  const Replay* worst = check.worst();
  if (!worst) {
    const std::string why = !check.missing.empty() ? check.missing : check.ranks.empty() ? "" : check.ranks[0].note;
    return "not known how well the trace is reproduced" + (why.empty() ? "" : ": " + why);
  }
  std::string text = "rebuilt step " + text_of(worst->replayed) + ", measured " + text_of(worst->measured) + ": " +
                     percent(worst->relative_error, true);
  if (worst->noise > 0) text += " (the measured steps vary by " + percent(worst->noise) + ")";
  if (check.ranks.size() > 1) text += "; the worst of " + counted(std::ssize(check.ranks), "rank");
  return text;
}

std::string model_text(const Profile& p) {
  std::string text = p.model.empty() ? "unnamed" : p.model;
  if (p.batch_samples > 0) text += ", " + fixed(p.batch_samples, 0) + " samples a step";
  return text + (p.has_device() ? " on " + p.device : ", computed on the host");
}

std::string gradients_text(const Profile& p) {
  return text_of(p.gradient_size()) + " in " + counted(std::ssize(p.tensors), "tensor") + ", " +
         counted(std::ssize(p.layers), "layer");
}

std::string cluster_text(const Cluster& c) {
  std::string text = counted(c.workers(), "worker") + " on " + counted(c.nodes, "machine");
  if (c.nodes > 1) text += ", network " + text_of(c.network.bandwidth) + ", latency " + text_of(c.network.latency);
  if (c.nodes > 1 && c.nics_per_node > 1) text += ", " + std::to_string(c.nics_per_node) + " cards a machine";
  if (c.servers > 0) text += ", up to " + counted(c.servers, "server");
  return c.name.empty() ? text : c.name + ": " + text;
}

void write_heading(std::ostream& out, const Profile& profile, const Cluster& cluster, const SelfCheck& check) {
  write_labelled(out, "replay", replay_text(check));
  write_labelled(out, "model", model_text(profile));
  write_labelled(out, "gradients", gradients_text(profile));
  write_labelled(out, "cluster", cluster_text(cluster));
  if (check.worst() && !check.trusted())
    write_labelled(out, "CAUTION",
                   "the model does not reproduce the traced step (limit: " +
                       fixed(100 * SelfCheck::largest_trusted_error, 0) + " %), so its advice is doubtful");
  out << '\n';
}

// Profile.

std::string cost_text(const Profile& profile, const PassCost& cost) {
  return profile.has_device() ? text_of(cost.device) + " device, " + text_of(cost.host) + " host" : text_of(cost.host);
}

PassCost& operator+=(PassCost& sum, const PassCost& cost) {
  sum.host += cost.host;
  sum.device += cost.device;
  return sum;
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
                     text_of(compute_time(profile)) + " without communication");
  write_labelled(out, "forward", cost_text(profile, forward));
  write_labelled(out, "backward", cost_text(profile, backward));
  write_labelled(out, "optimizer", cost_text(profile, profile.optimizer));
  write_labelled(out, "other", cost_text(profile, profile.other));
  if (profile.input > Seconds(0)) write_labelled(out, "input", text_of(profile.input));
  for (const ObservedCollective& c : profile.collectives) {
    std::string text = c.operation + " " + std::to_string(c.count) + " times a step, " + text_of(c.duration);
    if (c.size > Bytes(0)) text += ", " + text_of(c.size);
    write_labelled(out, "observed", text);
  }
  write_largest_layers(out, profile);
  out << '\n';
  for (const std::string& text : profile.recognised) write_labelled(out, "recognised", text);
  for (const std::string& text : profile.missing) write_labelled(out, "missing", text);
  for (const std::string& text : profile.assumed) write_labelled(out, "assumed", text);
}

// Replay.

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
  TextTable table({{"step", Align::right}, {"duration", Align::right}, {"", Align::left}});
  for (std::size_t i = 0; i < replay.steps.size(); ++i) {
    const Step& step = replay.steps[i];
    const bool timed = i < replay.step_times.size() && replay.step_times[i] > Seconds(0);
    table.add_row({std::to_string(step.number), timed ? text_of(replay.step_times[i]) : "unknown",
                   step.number == replay.calibration_step ? "rebuilt from this one"
                   : step.distorted                       ? "distorted, left out"
                                                          : ""});
  }
  if (!table.empty()) out << '\n', table.write(out);
}

void write_replay(std::ostream& out, const SelfCheck& check) {
  if (check.ranks.empty()) write_labelled(out, "replay", replay_text(check));
  for (std::size_t i = 0; i < check.ranks.size(); ++i) {
    if (i > 0) out << '\n';
    write_one_replay(out, check.ranks[i]);
  }
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
    text += (text.empty() ? "" : ", ") + path[i];
  }
  return text;
}

void write_breakdown(std::ostream& out, const Prediction& p) {
  const Breakdown& b = p.breakdown;
  const struct {
    std::string_view name;
    Seconds time;
    bool always;
  } parts[] = {{"compute", b.compute, true}, {"exposed communication", b.exposed_communication, true},
               {"codec", b.codec, false},    {"input stall", b.input_stall, false},
               {"bubble", b.bubble, false},  {"idle", b.idle, false}};
  TextTable table({{"part of the step"}, {"time", Align::right}, {"share", Align::right}});
  for (const auto& part : parts)
    if (part.always || part.time > Seconds(0))
      table.add_row({std::string(part.name), text_of(part.time), percent(part.time / p.iteration)});
  table.add_row({"(hidden communication)", text_of(b.hidden_communication), ""});
  table.write(out);
}

void write_prediction(std::ostream& out, const PredictionReport& report) {
  const Prediction& p = report.prediction;
  write_heading(out, report.profile, report.cluster, report.check);
  write_labelled(out, "plan", text_of(p.plan));
  write_labelled(out, "step", text_of(p.iteration) + " (80 % interval of the mean: " + interval_text(p) + ")");
  if (p.throughput_samples_per_s > 0)
    write_labelled(out, "throughput", fixed(p.throughput_samples_per_s, 1) + " samples/s on all workers");
  if (p.memory > Bytes(0)) write_labelled(out, "memory", text_of(p.memory) + " a worker");
  write_labelled(out, "bound", p.bound);
  out << '\n';
  write_breakdown(out, p);
  out << '\n';
  write_labelled(out, "path", path_text(p.critical_path));
  for (const std::string& warning : p.warnings) write_labelled(out, "note", warning);
}

// Ranking.

TextTable plan_table(const std::vector<RankedPlan>& plans) {
  TextTable table({{"#", Align::right},
                   {"plan", Align::flexible},
                   {"step", Align::right},
                   {"gain", Align::right},
                   {"exposed", Align::right},
                   {"machines", Align::right},
                   {"bound"}});
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Prediction& p = plans[i].prediction;
    table.add_row({std::to_string(i + 1), text_of(p.plan), text_of(p.iteration), fixed(plans[i].speed_up, 2) + "x",
                   text_of(p.breakdown.exposed_communication), std::to_string(plans[i].machines),
                   short_bound(p.bound)});
  }
  return table;
}

bool uses_servers(const RankedPlan& plan) { return plan.prediction.plan.strategy->needs == "servers"; }

// The best plan with and the best one without servers: the two differ in the number of machines to pay for.
void write_families(std::ostream& out, const std::vector<RankedPlan>& plans) {
  const auto server = std::find_if(plans.begin(), plans.end(), uses_servers);
  const auto direct = std::find_if_not(plans.begin(), plans.end(), uses_servers);
  if (server == plans.end() || direct == plans.end()) return;
  const auto line = [&](std::string_view label, const RankedPlan& plan) {
    write_labelled(out, label,
                   text_of(plan.prediction.plan) + ", " + text_of(plan.prediction.iteration) + " on " +
                       counted(plan.machines, "machine"),
                   18);
  };
  out << '\n';
  line("all-reduce", *direct);
  line("parameter server", *server);
}

std::string range_text(const Range& range, const std::string& best) {
  const auto other = [](const std::string& plan, const char* side, BytesPerSecond limit) {
    return plan.empty() ? std::string() : "; " + std::string(side) + " " + text_of(limit) + " " + plan + " is better";
  };
  const bool bounded_below = !range.below.empty(), bounded_above = !range.above.empty();
  std::string text = best + " stays best on every network that was tried, ";
  if (bounded_below || bounded_above) text = best + " stays best on networks of ";
  return text + text_of(range.low) + " to " + text_of(range.high) + other(range.below, "below", range.low) +
         other(range.above, "above", range.high);
}

void write_settings(std::ostream& out, std::string_view settings) {
  while (!settings.empty()) {
    const auto end = std::min(settings.find('\n'), settings.size());
    out << "    " << settings.substr(0, end) << '\n';
    settings.remove_prefix(std::min(end + 1, settings.size()));
  }
}

// The best plan that the framework at hand already offers, when it is as good as the best for all that anyone notices.
void write_simplest(std::ostream& out, const std::vector<RankedPlan>& plans) {
  constexpr double unnoticed = 0.02;
  if (plans.front().prediction.plan.strategy->needs.empty()) return;
  const Seconds best = plans.front().prediction.iteration;
  for (const RankedPlan& plan : plans) {
    const Seconds time = plan.prediction.iteration;
    if (!plan.prediction.plan.strategy->needs.empty() || time > best * (1 + unnoticed)) continue;
    write_labelled(out, "or simply",
                   text_of(plan.prediction.plan) + ", " + text_of(time) + ", " + percent(time / best - 1) +
                       " slower: needs no further software or machines");
    return;
  }
}

void write_advice(std::ostream& out, const RankingReport& report) {
  const RankedPlan& best = report.ranking.exact.front();
  const Prediction& p = best.prediction;
  const Prediction& baseline = report.ranking.baseline;
  write_labelled(out, "best plan", text_of(p.plan));
  write_labelled(out, "step", text_of(p.iteration) + " (80 % interval of the mean: " + interval_text(p) + ")");
  write_labelled(out, "gain",
                 fixed(best.speed_up, 2) + "x over DDP with 25 MiB buckets (" + text_of(baseline.iteration) +
                     ", of which " + text_of(baseline.breakdown.exposed_communication) + " exposed communication)");
  if (best.standard.iteration > p.iteration)
    write_labelled(out, "tuning", "with its default settings " + text_of(best.standard.iteration));
  if (p.throughput_samples_per_s > 0)
    write_labelled(out, "throughput", fixed(p.throughput_samples_per_s, 1) + " samples/s on all workers");
  write_labelled(out, "bound", p.bound);
  write_simplest(out, report.ranking.exact);
  if (report.ranking.holds) write_labelled(out, "holds", range_text(*report.ranking.holds, text_of(p.plan)));
  if (!best.settings.empty()) {
    write_labelled(out, "settings", "to paste into the training script:");
    write_settings(out, best.settings);
  }
  for (const std::string& warning : p.warnings) write_labelled(out, "note", warning);
  out << '\n';
}

void write_more_settings(std::ostream& out, const std::vector<RankedPlan>& plans) {
  constexpr std::size_t shown = 3;
  for (std::size_t i = 1; i < std::min(shown, plans.size()); ++i) {
    if (plans[i].settings.empty()) continue;
    out << '\n';
    write_labelled(out, "settings", "of " + text_of(plans[i].prediction.plan) + ":");
    write_settings(out, plans[i].settings);
  }
}

void write_others(std::ostream& out, const std::vector<RankedPlan>& others) {
  if (others.empty()) return;
  out << "\nPlans that change the arithmetic (what they cost in accuracy is not predicted):\n\n";
  plan_table(others).write(out);
}

void write_inapplicable(std::ostream& out, const std::vector<RejectedPlan>& plans) {
  if (plans.empty()) return;
  out << '\n';
  TextTable table({{"not here"}, {"because", Align::flexible}});
  for (const RejectedPlan& plan : plans) table.add_row({plan.plan, plan.reason});
  table.write(out);
}

void write_comparison(std::ostream& out, const std::vector<RankedPlan>& plans) {
  TextTable table({{"plan", Align::flexible},
                   {"step", Align::right},
                   {"compute", Align::right},
                   {"exposed", Align::right},
                   {"hidden", Align::right},
                   {"messages", Align::right},
                   {"gain", Align::right}});
  for (const RankedPlan& plan : plans) {
    const Prediction& p = plan.prediction;
    table.add_row({text_of(p.plan), text_of(p.iteration), text_of(p.breakdown.compute),
                   text_of(p.breakdown.exposed_communication), text_of(p.breakdown.hidden_communication),
                   std::to_string(p.messages), fixed(plan.speed_up, 2) + "x"});
  }
  table.write(out);
}

void write_ranking(std::ostream& out, const RankingReport& report) {
  const Ranking& ranking = report.ranking;
  write_heading(out, report.profile, report.cluster, report.check);
  if (ranking.exact.empty()) {
    out << "No plan can run on this cluster.\n";
  } else if (report.advice) {
    write_advice(out, report);
    plan_table(ranking.exact).write(out);
    write_families(out, ranking.exact);
    write_more_settings(out, ranking.exact);
  } else {
    write_comparison(out, ranking.exact);
  }
  write_others(out, ranking.others);
  write_inapplicable(out, ranking.inapplicable);
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
  write_labelled(out, "residual", percent(c.relative_error) + " rms");
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
      const Seconds fit = entry.fit(size), model = entry.model(size);
      table.add_row({text_of(size), text_of(measured), text_of(fit), percent(fit / measured - 1, true), text_of(model),
                     percent(model / measured - 1, true)});
    }
    table.write(out);
  }
}

}  // namespace

Report text_report() {
  return {.name = "text",
          .summary = "for people: 80 columns of plain text",
          .profile = write_profile,
          .replay = write_replay,
          .prediction = write_prediction,
          .ranking = write_ranking,
          .inapplicable = write_inapplicable_plan,
          .calibration = write_calibration,
          .timeline = nullptr};
}

}  // namespace stepcast
