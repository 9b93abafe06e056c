// The text report of a ranking: what to run, why, and how far that holds; then all plans side by side.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/report/text/phrases.hpp>
#include <stepcast/report/text/ranking.hpp>
#include <stepcast/report/text/table.hpp>

#include <algorithm>
#include <iterator>
#include <ostream>
#include <span>

namespace stepcast {
namespace {

using Align = TextTable::Align;

/// Steps differ by what the cluster is said to do, not by the noise of the trace alone.
bool is_irregular(const Cluster& cluster) {
  return cluster.transport.stalls > 0 || cluster.stragglers.jitter.distribution != Jitter::Distribution::none;
}

/// Every plan is then told with the duration of that run.
bool asks_for_run(std::span<const RankedPlan> plans) { return !plans.empty() && plans.front().prediction.run; }

/// "ddp, as traced" where it is the plan that ran.
std::string name_of(const PlanSpec& plan, const SelfCheck& check) {
  const std::string name = text_of(plan);
  return name == check.traced_plan() ? name + ", as traced" : name;
}

TextTable plan_table(const std::vector<RankedPlan>& plans, const Cluster& cluster, const SelfCheck& check) {
  const bool tail = is_irregular(cluster), runs = asks_for_run(plans);
  std::vector<TextTable::Column> columns{{"#", Align::right}, {"plan", Align::flexible}, {"step", Align::right}};
  if (tail) columns.push_back({"p99", Align::right});
  if (runs) columns.push_back({"run", Align::right});
  for (const char* name : {"gain", "exposed", "machines"}) columns.push_back({name, Align::right});
  columns.push_back({"bound"});
  TextTable table(std::move(columns));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Prediction& p = plans[i].prediction;
    std::vector<std::string> row{std::to_string(i + 1), name_of(p.plan, check), text_of(p.iteration)};
    if (tail) row.push_back(text_of(p.step_p99));
    if (runs) row.push_back(duration_text(p.run->duration));
    for (std::string cell : {fixed(plans[i].speed_up, 2) + "x", text_of(p.breakdown.exposed_communication),
                             std::to_string(plans[i].machines), short_bound(p.bound)})
      row.push_back(std::move(cell));
    table.add_row(std::move(row));
  }
  return table;
}

/// What other software or machines would win, where they would; most of it nobody can install any more.
void write_elsewhere(std::ostream& out, const std::vector<RankedPlan>& plans) {
  const auto others = std::ranges::find_if_not(plans, &RankedPlan::is_at_hand);
  if (others == plans.end()) return;
  Seconds best = plans.front().prediction.iteration;
  for (auto p = plans.begin(); p != others; ++p) best = std::min(best, p->prediction.iteration);
  Seconds fastest = best;
  std::int64_t faster = 0;
  for (auto p = others; p != plans.end(); ++p) {
    if (!(p->prediction.iteration * (1 + indifference) < best)) continue;
    fastest = std::min(fastest, p->prediction.iteration);
    ++faster;
  }
  const std::string text = faster == 0 ? "Nothing that needs other software or servers is faster (--all ranks it, too)."
                                       : counted(faster, "plan that needs", "plans that need") +
                                             " other software or servers would take " + percent(1 - fastest / best) +
                                             " less, " + text_of(fastest) + " (--all ranks every plan by its step).";
  out << '\n';
  for (const std::string& line : wrapped(text, page_of(out).width)) out << line << '\n';
}

/// Plans that no answer from this trace can tell apart.
void write_equals(std::ostream& out, const std::vector<RankedPlan>& plans) {
  const auto equal = [](const RankedPlan& p) { return p.is_at_hand() && p.as_good_as_any; };
  stepcast::write_equals(out, static_cast<std::size_t>(std::ranges::count_if(plans, equal)),
                         "the error of their difference (80 %)", "What is in use, then the simplest,");
}

bool uses_servers(const RankedPlan& plan) { return needs_servers(plan.prediction.plan); }

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
  const std::string low = text_of(range.low), high = text_of(range.high);
  const std::string what(range.what());
  std::string where = "on every " + what + " that was tried, " + low + " to " + high;
  if (!range.below.empty() && !range.above.empty()) where = "on " + what + "s of " + low + " to " + high;
  else if (!range.below.empty()) where = "on " + what + "s of " + low + " and more (tried up to " + high + ")";
  else if (!range.above.empty()) where = "on " + what + "s of up to " + high + " (tried down to " + low + ")";
  return best + " is best, or within " + percent(range.tolerance) + ", " + where +
         other(range.below, "below", range.low) + other(range.above, "above", range.high);
}

// The best plan that needs neither another framework nor more machines: often nearly as good, and always less work.
void write_simplest(std::ostream& out, const std::vector<RankedPlan>& plans) {
  const auto needs_nothing = [](const RankedPlan& p) { return requirements_of(p.prediction.plan).empty(); };
  const auto simplest = std::find_if(plans.begin(), plans.end(), needs_nothing);
  if (simplest == plans.begin() || simplest == plans.end()) return;
  const Seconds time = simplest->prediction.iteration;
  const std::string slower = percent(time / plans.front().prediction.iteration - 1);
  write_labelled(out, "or simply",
                 text_of(simplest->prediction.plan) + ", " + text_of(time) + ", " +
                     (slower == "0.0 %" ? "as fast" : slower + " slower") + ": needs no further software or machines");
}

void write_other_collective(std::ostream& out, const OtherCollective& other, const Cluster& cluster) {
  const Prediction &p = other.plan.prediction, &instead = other.instead.prediction;
  write_labelled(out, "also try",
                 text_of(p.plan) + ", " + text_of(p.iteration) + ", if your library can be set to that collective: " +
                     percent(1 - p.iteration / instead.iteration) + " less than " + text_of(instead.plan) + " over " +
                     cluster.all_reduce);
}

void write_halves(std::ostream& out, const RankedPlan& halves, const Prediction& best) {
  const Prediction& p = halves.prediction;
  write_labelled(out, "also try",
                 text_of(p.plan) + ", " + text_of(p.iteration) + ", " + percent(1 - p.iteration / best.iteration) +
                     " less: gradients travel in two bytes, which rounds them (model.register_comm_hook(None, "
                     "default_hooks.fp16_compress_hook))");
}

/// Where the best plan still waits for messages a good part of its step, and nobody allowed plans that send less.
void write_ways_out(std::ostream& out, const RankingReport& report) {
  constexpr double good_part = 0.25;
  const Prediction& p = report.ranking.exact.front().prediction;
  const bool waits = p.breakdown.exposed_communication >= good_part * p.iteration || report.ranking.halves;
  if (!waits || !report.ranking.others.empty() || report.cluster.workers() == 1) return;
  write_labelled(
      out, "also ask",
      std::string("with --allow lossy, stale or periodic: plans that send less, which changes the training") +
          (report.cluster.nodes > 1 ? "; 'stepcast sweep' with --over bandwidth=1Gb/s..400Gb/s --keep 90%: "
                                      "the network that would do"
                                    : ""));
}

std::string gain_text(const RankedPlan& best, const Prediction& baseline) {
  const double resolution = resolution_between(best.prediction, baseline);
  const bool is_told = baseline.iteration > best.prediction.iteration * (1 + resolution);
  if (best.speed_up < 1 + indifference)
    return "none worth having: " + baseline_text(baseline) + " takes " + text_of(baseline.iteration);
  return fixed(best.speed_up, 2) + "x over " + baseline_text(baseline) + " (" + text_of(baseline.iteration) +
         ", of which " + text_of(baseline.breakdown.exposed_communication) + " exposed communication)" +
         (is_told ? "" : ": less than this answer resolves");
}

/// The job itself, where no plan stands for it: nothing is best of one.
void write_recorded(std::ostream& out, const RankingReport& report) {
  const Prediction& p = report.ranking.exact.front().prediction;
  write_labelled(out, "best plan",
                 report.check.by_request.empty()
                     ? "cannot say: no plan describes the traced job, so that none can be compared with it"
                     : "cannot say: the recorded step takes no other plan's messages");
  write_labelled(out, "as it is",
                 text_of(p.iteration) + " a step on this cluster (80 % interval of the mean: " + interval_text(p) +
                     "), of which " + text_of(p.breakdown.exposed_communication) + " exposed communication");
  if (p.run) write_run(out, *p.run);
  if (p.throughput_samples_per_s > 0)
    write_labelled(out, "throughput", fixed(p.throughput_samples_per_s, 1) + " samples/s on all workers");
  if (const std::string buffers = buffers_text(report.profile); !buffers.empty())
    write_labelled(out, "buffers", buffers);
  for (const std::string& warning : p.warnings) write_labelled(out, "note", warning);
  if (!report.profile.layers.empty())
    write_labelled(out, "note", "--all ranks plans all the same, for the job that the profile describes");
  out << '\n';
}

void write_advice(std::ostream& out, const RankingReport& report) {
  const RankedPlan& best = report.ranking.exact.front();
  const Prediction& p = best.prediction;
  write_labelled(out, "best plan", report.check.is_recorded(p.plan) ? "the job as it was recorded" : text_of(p.plan));
  write_labelled(out, "step", text_of(p.iteration) + " (80 % interval of the mean: " + interval_text(p) + ")");
  write_labelled(out, "gain", gain_text(best, report.ranking.baseline));
  if (p.run) write_run(out, *p.run);
  std::string tuning;
  if (best.standard.iteration > p.iteration) tuning = "with its default settings " + text_of(best.standard.iteration);
  if (const std::optional<OptionRange>& range = report.ranking.as_good)
    tuning += (tuning.empty() ? "" : "; ") + ("as good within " + percent(range->tolerance) + ": ") +
              text_of(range->low) + " to " + text_of(range->high);
  if (!tuning.empty()) write_labelled(out, "tuning", tuning);
  if (p.throughput_samples_per_s > 0)
    write_labelled(out, "throughput", fixed(p.throughput_samples_per_s, 1) + " samples/s on all workers");
  write_labelled(out, "bound", p.bound);
  write_simplest(out, report.ranking.exact);
  if (report.ranking.other_collective) write_other_collective(out, *report.ranking.other_collective, report.cluster);
  if (report.ranking.halves) write_halves(out, *report.ranking.halves, p);
  write_ways_out(out, report);
  if (const std::string buffers = buffers_text(report.profile); !buffers.empty())
    write_labelled(out, "buffers", buffers);
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
    if (plans[i].settings.empty() || plans[i].speed_up < 1 + indifference) continue;
    out << '\n';
    write_labelled(out, "settings", "of " + text_of(plans[i].prediction.plan) + ":");
    write_settings(out, plans[i].settings);
  }
}

void write_others(std::ostream& out, const std::vector<RankedPlan>& all, bool by_step, const Cluster& cluster,
                  const SelfCheck& check) {
  if (all.empty()) return;
  std::vector<RankedPlan> others;
  std::ranges::copy_if(all, std::back_inserter(others), &RankedPlan::is_at_hand);
  const bool apart = !by_step && !others.empty();
  const std::string_view with = by_step || apart ? "" : ", all with other software or servers";
  if (!apart) others = all;
  out << "\nPlans that change the arithmetic" << with << " (what they cost in accuracy is not predicted):\n\n";
  plan_table(others, cluster, check).write(out);
  if (apart) write_elsewhere(out, all);
  // Of the best few; a list of all would be longer than the ranking.
  constexpr std::size_t shown = 3;
  std::vector<std::string> cautions;
  const auto add = [&](std::string_view name, std::string_view caution) {
    std::string line = std::string(name) + ": " + std::string(caution);
    if (!caution.empty() && std::find(cautions.begin(), cautions.end(), line) == cautions.end())
      cautions.push_back(std::move(line));
  };
  for (std::size_t i = 0; i < std::min(shown, others.size()); ++i) {
    const PlanSpec& plan = others[i].prediction.plan;
    add(plan.strategy->name, plan.strategy->caution);
    for (const ModifierSpec& m : plan.modifiers) add(m.modifier->name, m.modifier->caution);
  }
  if (cautions.empty()) return;
  out << '\n';
  for (const std::string& caution : cautions) write_labelled(out, "caution", caution);
}

void write_inapplicable(std::ostream& out, const std::vector<RejectedPlan>& plans, bool in_short) {
  if (plans.empty()) return;
  out << '\n';
  if (in_short) {
    std::string names;
    for (const RejectedPlan& plan : plans) add_to_list(names, plan.plan);
    write_labelled(out, "not here",
                   names + ": more than other messages of gradients, which are all that the recorded step can take");
    return;
  }
  TextTable table({{"not here"}, {"because", Align::flexible}});
  for (const RejectedPlan& plan : plans) table.add_row({plan.plan, plan.reason});
  table.write(out);
}

void write_comparison_table(std::ostream& out, std::span<const RankedPlan> plans, const SelfCheck& check) {
  std::vector<TextTable::Column> columns{
      {"plan", Align::flexible}, {"step", Align::right},     {"compute", Align::right}, {"exposed", Align::right},
      {"hidden", Align::right},  {"messages", Align::right}, {"gain", Align::right}};
  // Of plans that share out a batch as layouts do neither is known.
  constexpr std::ptrdiff_t hidden = 4, behind_messages = 6;
  const bool divided = std::ranges::all_of(plans, [](const RankedPlan& p) { return p.prediction.layout != nullptr; });
  if (divided) columns.erase(columns.begin() + hidden, columns.begin() + behind_messages);
  const bool runs = asks_for_run(plans);
  if (runs) columns.insert(columns.begin() + 2, {"run", Align::right});
  TextTable table(std::move(columns));
  for (const RankedPlan& plan : plans) {
    const Prediction& p = plan.prediction;
    std::vector<std::string> cells{name_of(p.plan, check),
                                   text_of(p.iteration),
                                   text_of(p.breakdown.compute),
                                   text_of(p.breakdown.exposed_communication),
                                   text_of(p.breakdown.hidden_communication),
                                   std::to_string(p.messages),
                                   fixed(plan.speed_up, 2) + "x"};
    if (divided) cells.erase(cells.begin() + hidden, cells.begin() + behind_messages);
    if (runs) cells.insert(cells.begin() + 2, duration_text(p.run->duration));
    table.add_row(std::move(cells));
  }
  table.write(out);
}

/// By step time, the plan that ran before all others; those that nobody named and that need more than PyTorch and the
/// workers apart.
void write_comparison(std::ostream& out, std::vector<RankedPlan> plans, bool named, const SelfCheck& check) {
  const std::string traced = check.traced_plan();
  std::ranges::stable_partition(plans, [&](const RankedPlan& p) { return text_of(p.prediction.plan) == traced; });
  if (named) return write_comparison_table(out, plans, check);
  const auto elsewhere = std::ranges::stable_partition(plans, &RankedPlan::is_at_hand);
  const std::span at_hand(plans.begin(), elsewhere.begin());
  if (!at_hand.empty()) write_comparison_table(out, at_hand, check);
  if (elsewhere.empty()) return;
  if (!at_hand.empty()) out << "\nWith other software, or with servers:\n\n";
  write_comparison_table(out, elsewhere, check);
}

}  // namespace

void write_ranking_text(std::ostream& out, const RankingReport& given) {
  const Ranking& ranking = given.ranking;
  const SelfCheck check = check_of(given);
  const RankingReport report{given.profile, given.cluster, check, ranking, given.advice};
  write_subject(out, report.profile, report.cluster, report.check);
  if (ranking.exact.empty()) {
    out << "No plan can run on this cluster.\n";
  } else if (report.advice) {
    const bool alone = ranking.exact.size() == 1 && report.check.is_recorded(ranking.exact.front().prediction.plan);
    if (alone) write_recorded(out, report);
    else write_advice(out, report);
    if (ranking.by_step) {
      plan_table(ranking.exact, report.cluster, report.check).write(out);
      write_families(out, ranking.exact);
    } else {
      std::vector<RankedPlan> at_hand;
      std::ranges::copy_if(ranking.exact, std::back_inserter(at_hand), &RankedPlan::is_at_hand);
      plan_table(at_hand, report.cluster, report.check).write(out);
      write_equals(out, ranking.exact);
      write_elsewhere(out, ranking.exact);
    }
    write_more_settings(out, ranking.exact);
  } else {
    write_comparison(out, ranking.exact, ranking.named, report.check);
    if (ranking.exact.size() > 1)
      out << '\n', write_labelled(out, "gain", "over " + name_of(ranking.baseline.plan, check));
  }
  write_others(out, ranking.others, ranking.by_step, report.cluster, report.check);
  const bool all_asked = ranking.by_step || !report.advice;
  write_inapplicable(out, ranking.inapplicable, check.of_recorded_step && !all_asked);
  write_grounds(out, report.profile, report.cluster, report.check);
}

}  // namespace stepcast
