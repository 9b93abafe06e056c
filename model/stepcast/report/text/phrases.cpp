// Headings, intervals and lists that the text reports share.
#include <stepcast/base/printable.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/cluster/links_of_trace.hpp>
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/report/text/phrases.hpp>
#include <stepcast/report/text/table.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ostream>
#include <string>
#include <utility>

namespace stepcast {

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

std::string as_traced_text(const AsTraced& a) {
  if (!a.known()) return (a.plan.empty() ? "cannot say: " : a.plan + ": cannot say: ") + a.missing;
  return a.plan + (a.left_out.empty() ? ": predicted " : ": rebuilt ") + text_of(a.predicted) + ", measured " +
         text_of(a.measured) + ": " + percent(a.relative_error(), true);
}

std::string baseline_text(const Prediction& baseline) {
  const std::string plan = text_of(baseline.plan);
  if (baseline.plan.own && plan == RecordedJob::name) return "the job as it was recorded";
  return plan == "ddp" ? "DDP with 25 MiB buckets" : "the traced " + plan;
}

std::string buffers_text(const Profile& profile) {
  constexpr double worth_having = 0.01;
  const Seconds time = time_of_buffers(profile);
  if (!(time > profile.measured_step() * worth_having)) return {};
  return text_of(time) + " of the step send the module's buffers round before the forward pass: " +
         "DistributedDataParallel(model, broadcast_buffers=False) saves them, where each rank may keep its own " +
         "(whatif --what keep_buffers)";
}

void write_check(std::ostream& out, const SelfCheck& check) {
  write_labelled(out, "replay", replay_text(check));
  if (check.as_traced) write_labelled(out, "as traced", as_traced_text(*check.as_traced));
  if (check.of_recorded_step)
    write_labelled(out, "answers", "of the recorded step with other messages, not of a model of its layers");
}

void write_caution(std::ostream& out, const SelfCheck& check) {
  if (const std::string caution = check.caution(); !caution.empty())
    write_labelled(out, "CAUTION", caution + ", so its advice is doubtful");
  if (const std::string reserve = check.reserve(); !reserve.empty()) write_labelled(out, "CAUTION", reserve);
}

std::string interval_text(const Prediction& p) { return text_of(p.interval_low) + " to " + text_of(p.interval_high); }

std::string model_text(const Profile& p) {
  std::string text = p.model.empty() ? "unnamed" : p.model;
  if (p.batch_samples > 0) text += ", " + fixed(p.batch_samples, 0) + " samples a step";
  return text + (p.has_device() ? " on " + p.device : ", computed on the host");
}

std::string gradients_text(const Profile& p) {
  if (p.layers.empty()) return "not known";  // of a job of which there is only the recording
  return text_of(p.gradient_size()) + " in " + counted(std::ssize(p.tensors), "tensor") + ", " +
         counted(std::ssize(p.layers), "layer");
}

/// " in a torus of 4 x 4 x 4"; of one with lines and closed dimensions that of the lines is said.
std::string torus_text(const Level& level) {
  if (level.torus.empty()) return {};
  std::string sides;
  bool closed = false, open = false;
  for (const TorusSide& side : level.torus) {
    sides += (sides.empty() ? "" : " x ") + std::to_string(side.units);
    (side.closed ? closed : open) = true;
  }
  return (!open ? " in a torus of " : !closed ? " in a mesh of " : " in a torus with open dimensions of ") + sides;
}

std::string levels_text(const Cluster& c) {
  std::string text, below = "machine";
  for (const Level& level : c.levels) {
    text += ", " + level.name + " of " + counted(level.units, below) + torus_text(level);
    if (level.bandwidth > BytesPerSecond(0)) {
      if (level.bandwidth != c.network.bandwidth)
        text += " at " + text_of(level.bandwidth) + (c.nics_per_node > 1 ? " a card" : " a machine");
      if (level.oversubscription != 1) text += " oversubscribed " + exact_text_of(level.oversubscription) + " : 1";
      if (level.background > 0) text += ", " + percent(level.background) + " taken by others";
    }
    below = level.name;
  }
  return text;
}

/// "2 machines with 25.0 % of their link".
std::string slow_link_text(const Cluster& c, const SlowWorkers& slow) {
  const bool machines = c.nodes > 1;
  const std::int64_t count = machines ? (slow.workers + c.devices_per_node - 1) / c.devices_per_node : slow.workers;
  return counted(count, machines ? "machine" : "device") + " with " + percent(slow.link_share) + " of " +
         (count == 1 ? "its" : "their") + " link";
}

std::string cluster_text(const Cluster& c) {
  std::string text = counted(c.workers(), "worker") + " on " + counted(c.nodes, "machine");
  const bool of_torus = !c.levels.empty() && !c.levels.front().torus.empty();
  if (c.nodes > 1) {
    text += ", network " + text_of(c.network.bandwidth) +
            (c.nics_per_node > 1      ? " a card"
             : of_torus               ? " a link"
             : c.devices_per_node > 1 ? " a machine"
                                      : "") +
            ", latency " + text_of(c.network.latency);
    if (const std::string told = told_of(c, "network: "); !told.empty()) text += "; " + told;
  }
  if (c.nodes > 1) text += levels_text(c);
  if (c.nodes > 1 && c.nics_per_node > 1) text += ", " + std::to_string(c.nics_per_node) + " cards a machine";
  if (c.nodes > 1 && c.transport.flow_rate > BytesPerSecond(0))
    text += ", " + counted(c.transport.flows, "connection") + " of at most " + text_of(c.transport.flow_rate) +
            (c.nics_per_node > 1 ? " a card" : " a machine");
  if (c.servers > 0) text += ", up to " + counted(c.servers, "server");
  if (c.servers > 0 && c.server_rate > BytesPerSecond(0)) text += " of " + text_of(c.server_rate);
  for (const SlowWorkers& s : c.stragglers.slow)
    if (s.link_share < 1) text += ", " + slow_link_text(c, s);
  if (c.nodes > 1 && c.transport.background > 0)
    text += ", " + percent(c.transport.background) +
            (c.levels.size() < 2 ? " of the network taken by others" : " of the machines' cards taken by others");
  char share[32];
  if (c.nodes > 1 && c.transport.loss > 0) {
    std::snprintf(share, sizeof share, "%g %%", 100 * c.transport.loss);
    text += std::string(", ") + share + " of the packets lost";
  }
  if (c.nodes > 1 && c.transport.stalls > 0) {
    std::snprintf(share, sizeof share, "%g", c.transport.stalls);
    text += std::string(", ") + share + " time-outs of " + text_of(c.transport.timeout) + " a packet";
  }
  return c.name.empty() ? text : c.name + ": " + text;
}

void write_second_job(std::ostream& out, const Cluster& cluster, std::string_view model) {
  if (!cluster.beside) return;
  const SecondJob& job = *cluster.beside;
  std::string text = "a second job, " + job.plan + " of " + (job.model == model ? "the same model" : job.model);
  if (job.share > 0)
    text += ", fills the " + job.level + " for " + text_of(job.sends) + " of its " + text_of(job.step) +
            " a step: it takes " + percent(job.share) + " of that while this job sends";
  else text += ", sends nothing over the " + job.level + ", and takes nothing of it";
  write_labelled(out, "beside", text);
  std::string always;
  if (job.at_most > job.alone) always = "; at most " + text_of(job.at_most) + ", if both always sent at the same time";
  else if (job.at_most > Seconds(0)) always = ", and as long beside any job that shares the " + job.level;
  if (job.share > 0 && job.alone > Seconds(0))
    write_labelled(out, "alone", text_of(job.alone) + " a step without it" + always);
  if (job.slowed > Seconds(0))
    write_labelled(out, "its step", text_of(job.slowed) + " beside this job, " + text_of(job.step) + " alone");
}

std::string inside_text(const Cluster& cluster) {
  const Link link = inside_of(cluster, cluster.devices_per_node);
  const std::int64_t all = cluster.inside_mesh - 1, used = cluster.devices_per_node - 1;
  const std::string links =
      all < 1 ? "" : " over " + (used < all ? std::to_string(used) + " of its " : "") + std::to_string(all) + " links";
  const std::string text = text_of(link.bandwidth) + " a device" + links + ", latency " + text_of(link.latency);
  if (is_unsaid(cluster, unsaid_inside)) return text + "; assumed (PCIe 4.0 x16), --inside says otherwise";
  if (const std::string told = told_of(cluster, "inside: "); !told.empty())
    return text + "; " + told + (told.starts_with(links_assumed_of) ? ", --inside says otherwise" : "");
  for (const std::string& line : cluster.provenance)
    if (line.starts_with("inside: ") && line.find(" as given;") != line.npos) return text + "; as given";
  return text;
}

std::string short_bound(std::string_view bound) {
  constexpr std::pair<std::string_view, std::string_view> names[] = {{"communication bandwidth", "bandwidth"},
                                                                     {"start-up of messages", "start-up"},
                                                                     {"waiting for input", "input"},
                                                                     {"waiting for a timer", "timer"},
                                                                     {"time-outs of lost packets", "time-outs"},
                                                                     {"encoding and decoding", "codec"},
                                                                     {"host issue of kernels", "host issue"}};
  const std::string_view plain = bound.substr(0, bound.find(" ("));
  for (const auto& [in_full, name] : names)
    if (plain == in_full) return std::string(name);
  return std::string(plain);
}

void write_input(std::ostream& out, const InputDiagnosis& input) {
  write_labelled(out, "input",
                 "with synthetic data " + text_of(input.synthetic) + " a step; waits " + text_of(input.fetch_stall) +
                     " for fetching, " + text_of(input.prep_stall) + " for preparing");
  write_labelled(out, "enough",
                 "a larger cache alone helps up to " + percent(input.sufficient_cache) +
                     " of the data set, more loader workers alone up to " + std::to_string(input.sufficient_workers) +
                     " a machine");
}

std::string duration_text(Seconds time) {
  constexpr double minute = 60, hour = 3600, day = 86400;
  const double s = time.value();
  if (s < 10 * minute) return text_of(time);
  if (s < 2 * hour) return fixed(s / minute, 1) + " min";
  if (s < 4 * day) return fixed(s / hour, 1) + " h";
  return fixed(s / day, 1) + " days";
}

std::string run_text(const TrainingRun& run) {
  std::string text =
      duration_text(run.duration) + " for " + counted(static_cast<std::int64_t>(run.iterations), "iteration");
  if (run.warm_up_iterations > 0)
    text += ", of which " + duration_text(run.warm_up) + " for the " +
            std::to_string(static_cast<std::int64_t>(run.warm_up_iterations)) + " of its warm-up";
  return text;
}

void write_run(std::ostream& out, const TrainingRun& run) { write_labelled(out, "run", run_text(run)); }

void write_ranks(std::ostream& out, const std::vector<TracedRank>& ranks, std::string_view lateness) {
  if (ranks.empty()) return;
  using Align = TextTable::Align;
  TextTable table({{"rank", Align::right},
                   {"step", Align::right},
                   {"transfer", Align::right},
                   {"waiting", Align::right},
                   {"late", Align::right},
                   {"clock", Align::right},
                   {"to within", Align::right}});
  for (const TracedRank& r : ranks)
    table.add_row({std::to_string(r.rank), r.step > Seconds(0) ? text_of(r.step) : "unknown", text_of(r.transfer),
                   text_of(r.waiting), text_of(r.late),
                   r.clock_offset < Seconds(0) ? "-" + text_of(-r.clock_offset) : text_of(r.clock_offset),
                   text_of(r.clock_residual)});
  table.write(out);
  if (!lateness.empty()) write_labelled(out, "ranks", lateness);
}

void write_assumed(std::ostream& out, const std::vector<std::string>& assumed, std::string_view where_all) {
  constexpr std::size_t shown = 4;
  for (std::size_t i = 0; i < std::min(shown, assumed.size()); ++i) write_labelled(out, "assumed", assumed[i]);
  if (assumed.size() > shown)
    write_labelled(out, "assumed", std::to_string(assumed.size() - shown) + " more; " + std::string(where_all));
}

void write_settings(std::ostream& out, std::string_view settings) {
  while (!settings.empty()) {
    const auto end = std::min(settings.find('\n'), settings.size());
    out << "    " << printable(settings.substr(0, end)) << '\n';
    settings.remove_prefix(std::min(end + 1, settings.size()));
  }
}

namespace {

// Who exchanges models with whom, at which share of the links, and how long that takes.
void write_overlay(std::ostream& out, const OverlayNetwork& overlay, Bytes model) {
  const OverlayExchange exchange = exchange_over(overlay);
  write_labelled(out, "overlay",
                 (overlay.name.empty() ? "" : overlay.name + ": ") + counted(std::ssize(overlay.agents), "agent") +
                     " exchange models along " + counted(std::ssize(overlay.edges), "edge") + " over " +
                     counted(std::ssize(overlay.links), "link"));
  using Align = TextTable::Align;
  TextTable table({{"route", Align::left},
                   {"share", Align::right},
                   {"limited by", Align::left},
                   {"alone", Align::right},
                   {"exchange", Align::right}});
  for (const OverlayShare& share : exchange.shares) {
    std::string route;
    for (const std::string& stop : share.route) route += (route.empty() ? "" : "-") + printable(stop);
    table.add_row({route, text_of(share.rate), printable(share.bottleneck), text_of(share.alone),
                   text_of(share.latency + model / share.rate)});
  }
  table.write(out);
  write_labelled(out, "exchange",
                 text_of(exchange.latency + model / exchange.least) +
                     " as routed; by maximum flow no routing takes less than " + text_of(model / exchange.best));
}

}  // namespace

void write_links(std::ostream& out, const Cluster& cluster) {
  if (cluster.devices_per_node > 1) write_labelled(out, "machine", inside_text(cluster));
  if (const std::string library = library_in_words(cluster); !library.empty()) write_labelled(out, "library", library);
}

void write_subject(std::ostream& out, const Profile& profile, const Cluster& cluster, const SelfCheck& check) {
  write_labelled(out, "model", model_text(profile));
  write_labelled(out, "cluster", cluster_text(cluster));
  write_second_job(out, cluster, profile.model);
  write_caution(out, check);
  out << '\n';
}

void write_grounds(std::ostream& out, const Profile& profile, const Cluster& cluster, const SelfCheck& check) {
  out << '\n';
  write_check(out, check);
  if (!profile.lateness.empty()) write_labelled(out, "ranks", profile.lateness);
  write_labelled(out, "gradients", gradients_text(profile));
  write_links(out, cluster);
  if (cluster.overlay) write_overlay(out, *cluster.overlay, profile.gradient_size());
  write_assumed(out, profile.assumed, "'stepcast profile' says all");
}

void write_equals(std::ostream& out, std::size_t count, std::string_view by, std::string_view first) {
  if (count < 2) return;
  const std::string text = std::string(count == 2 ? "Plans 1 and " : "Plans 1 to ") + std::to_string(count) +
                           " differ by less than " + std::string(by) + ": this answer cannot tell them apart. " +
                           std::string(first) + " stands first.";
  out << '\n';
  for (const std::string& line : wrapped(text, page_of(out).width)) out << line << '\n';
}

}  // namespace stepcast
