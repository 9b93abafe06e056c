// The text report of a search over layouts: what to run, how sure that is, why, and what else there is.
#include <stepcast/base/text.hpp>
#include <stepcast/report/text/layout.hpp>
#include <stepcast/report/text/phrases.hpp>
#include <stepcast/report/text/table.hpp>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <utility>

namespace stepcast {
namespace {

using Align = TextTable::Align;

std::string search_text(const LayoutSearchResult& search) {
  std::string counts = grouped_digits(search.evaluated) + " evaluated, " + grouped_digits(search.bounded) +
                       " excluded by bounds, " + grouped_digits(search.too_large) + " too large for the memory, " +
                       grouped_digits(search.unsuitable) + " unsuitable";
  const std::string total = grouped_digits(search.total) + " layouts (";
  if (search.proved && search.best.empty()) return "none of " + total + counts + ")";
  if (search.proved) return "best of " + total + counts + ")";
  counts += ", " + grouped_digits(search.open) + " open";
  if (search.best.empty()) return "stopped early: none found yet of " + total + counts + ")";
  return "stopped early: the best of all may be up to " + percent(search.gap) + " shorter; " + total + counts + ")";
}

/// What the objective is about, where that is not the step.
std::string objective_text(const LayoutSearchReport& report, const LayoutPrediction& best) {
  const LayoutSearchOptions& options = report.options;
  std::string text(words_of(options.objective));
  if (options.objective == Objective::fewest_devices) text += ": " + counted(best.devices, "device");
  if (options.price_per_device_hour > 0)
    text += (options.objective == Objective::cheapest ? ": " : "; ") +
            fixed(cost_of(best, options.price_per_device_hour), 4) + " a step on " + counted(best.devices, "device");
  if (options.target_step > Seconds(0)) text += ", with a step of at most " + text_of(options.target_step);
  return text;
}

/// What the search tried, and what it did not.
void write_space(std::ostream& out, const LayoutSearchReport& report) {
  const LayoutSearchResult& search = report.advice.search;
  write_labelled(out, "search", search_text(search) + " of " + search.space);
  if (!search.not_tried.empty()) {
    std::string text;
    for (const std::string& one : search.not_tried) text += (text.empty() ? "" : "; ") + one;
    write_labelled(out, "not tried", text);
  }
  if (report.subject.planned_memory > Bytes(0))
    write_labelled(
        out, "memory cap",
        text_of(report.subject.planned_memory) + ", " + whole_percent(planned_memory_share) +
            " of a device: the allocator's gaps, the libraries' buffers and the driver's context differ from "
            "job to job; --memory 100% leaves no room for them");
}

bool only_data_parallel(const LayoutPrediction& p) {
  const Layout& l = p.plan.layout;
  return l.tensor * l.context * l.pipeline * l.expert == 1;
}

std::string gain_text(const LayoutAdvice& advice, Objective objective) {
  const LayoutPrediction& best = advice.best.front();
  if (only_data_parallel(best)) return "none over data parallelism alone, which it is";
  if (!advice.data_parallel) return "data parallelism alone does not work: " + advice.no_data_parallel;
  const LayoutPrediction& alone = *advice.data_parallel;
  const bool by_time = objective == Objective::shortest_step;
  std::string text =
      (by_time ? fixed(alone.iteration / best.iteration, 2) + "x over the best with" : std::string("over")) +
      " data parallelism alone, " + text_of(alone.plan) + " (" + text_of(alone.iteration) + ", " +
      text_of(alone.memory.total()) + ")";
  return text + (alone.devices == best.devices ? "" : " on " + counted(alone.devices, "device"));
}

std::string network_text(const BandwidthCheck& check, std::string_view link) {
  const std::string where = "at " + (check.factor < 1 ? std::string("half") : fixed(check.factor, 0) + " times") +
                            " the bandwidth of " + std::string(link) + ": ";
  if (check.better.empty())
    return where + "still best" + (check.whole_space ? "" : " of the layouts below") + ", " + text_of(check.own);
  return where + check.better + " is better, " + text_of(check.best) + " against " + text_of(check.own);
}

/// Another layout against the best one: "layout(...), 3.4 s and 60 GiB: 20 % longer".
std::string beside(const LayoutSearchReport& report, const LayoutPrediction& other) {
  const LayoutPrediction& best = report.advice.best.front();
  const double ratio = other.iteration / best.iteration;
  std::string text =
      text_of(other.plan) + ", " + text_of(other.iteration) + " and " + text_of(other.memory.total()) + ": ";
  if (ratio > 2) text += fixed(ratio, 1) + " times as long";
  else if (ratio >= 1) text += percent(ratio - 1) + " longer";
  else
    text += percent(1 - ratio) + " shorter" +
            (1 / ratio - 1 <= report.advice.resolution ? ", which this answer does not resolve" : "");
  const Bytes tight = tight_memory_share * report.subject.cluster.device_memory;
  const bool is_tight = tight > Bytes(0) && other.memory.total() > tight && best.memory.total() <= tight;
  return text + (is_tight ? ", and its memory is tight" : "");
}

/// Whether the objective is better by what no framework runs, and by more than the answer resolves.
bool is_better(const LayoutPrediction& unrunnable, const LayoutSearchReport& report) {
  const LayoutPrediction& best = report.advice.best.front();
  const Seconds fastest = report.advice.fastest ? report.advice.fastest->iteration : best.iteration;
  switch (report.options.objective) {
    case Objective::shortest_step:
    case Objective::simplest:
      return unrunnable.iteration < fastest * (1 - report.advice.resolution);
    case Objective::least_memory:
      return unrunnable.memory.total() < best.memory.total();
    case Objective::fewest_devices:
      return unrunnable.devices < best.devices;
    case Objective::cheapest:
      return cost_of(unrunnable, 1) < cost_of(best, 1);
  }
  return false;
}

void write_advice(std::ostream& out, const LayoutSearchReport& report) {
  const LayoutAdvice& advice = report.advice;
  const LayoutPrediction& best = advice.best.front();
  write_layout_facts(out, report.subject, best, "best plan");
  if (report.options.objective != Objective::shortest_step || report.options.price_per_device_hour > 0)
    write_labelled(out, "objective", objective_text(report, best));
  if (advice.fastest)
    write_labelled(out, "fastest",
                   text_of(advice.fastest->plan) + ", " + text_of(advice.fastest->iteration) + " and " +
                       text_of(advice.fastest->memory.total()) + ": " +
                       percent(best.iteration / advice.fastest->iteration - 1) +
                       " shorter, which this answer does not resolve (" + percent(advice.resolution) + ")" +
                       (why_not_launched(report.subject.workload, advice.fastest->plan, advice.fastest->micro_batches,
                                         report.framework)
                                .empty()
                            ? ""
                            : ", and no framework runs it as it is"));
  const bool better = advice.unrunnable && is_better(*advice.unrunnable, report);
  if (better && report.options.objective != Objective::shortest_step)
    write_labelled(out, "beyond",
                   text_of(advice.unrunnable->plan) + ", " + text_of(advice.unrunnable->iteration) + " and " +
                       text_of(advice.unrunnable->memory.total()) + " on " +
                       counted(advice.unrunnable->devices, "device") + ": no framework runs it as it is");
  else if (better)
    write_labelled(out, "faster",
                   text_of(advice.unrunnable->plan) + ", " + text_of(advice.unrunnable->iteration) + ": " +
                       percent(1 - advice.unrunnable->iteration / best.iteration) +
                       " less, but no framework runs it as it is");
  if (const double batch = report.subject.global_batch; advice.other_batch)
    write_labelled(out, "batch",
                   grouped_digits(static_cast<std::uint64_t>(advice.other_batch->global_batch)) +
                       " samples a step train " +
                       percent(advice.other_batch->best.throughput_samples_per_s / best.throughput_samples_per_s - 1) +
                       " faster, " + fixed(advice.other_batch->best.throughput_samples_per_s, 1) + " samples/s: " +
                       text_of(advice.other_batch->best.plan) + ", " + text_of(advice.other_batch->best.iteration) +
                       " a step (--global-batch " + fixed(batch - std::floor(batch / 5), 0) + ".." +
                       fixed(batch + std::floor(batch / 5), 0) + " searches such a range)");
  write_space(out, report);
  write_labelled(out, "gain", gain_text(advice, report.options.objective));
  if (advice.without_recomputation) {
    std::string text = "without recomputation the best is " + beside(report, *advice.without_recomputation);
    if (const auto& own = advice.of_these_degrees_without_recomputation; own)
      text += "; with the same degrees it is " + beside(report, *own);
    write_labelled(out, "again", text);
  }
  const auto less = [&](const LayoutPrediction& other) {
    return text_of(other.iteration) + ", " + percent(1 - other.iteration / best.iteration) + " less";
  };
  if (advice.sent_once)
    write_labelled(out, "also try",
                   "ep_comm=deepep, tokens sent once to each machine (inside one, to each device) by DeepEP beside the "
                   "framework: " +
                       less(*advice.sent_once) + " (--ep-comm deepep searches with it)");
  if (advice.beside_products)
    write_labelled(out, "also try",
                   "overlap_tp=products, tensor-parallel messages part by part beside the products (Megatron-LM's "
                   "--tp-comm-overlap): " +
                       less(*advice.beside_products) +
                       " at best: users report gains, none, and losses (--overlap-tp products searches with it)");
  if (advice.moved_stages)
    write_labelled(out, "also try",
                   "stages=" + stages_text(advice.moved_stages->plan.layout) +
                       ", which also spare what is sent between stages and behind them: " + less(*advice.moved_stages));
  for (const ModelOption& faster : advice.faster_options) {
    const bool same = faster.best.plan.layout == best.plan.layout;
    write_labelled(
        out, "also try",
        (faster.framework.empty() ? faster.option + " in the model, " : "--framework " + faster.framework + ", ") +
            std::string(faster.what) + ": " + (same ? "this layout" : text_of(faster.best.plan)) + " takes " +
            text_of(faster.best.iteration) + ", " + percent(1 - faster.best.iteration / best.iteration) + " less");
  }
  if (advice.untuned)
    write_labelled(out, "gradients",
                   "tuned after the search, which found " + text_of(advice.untuned->plan) + ", " +
                       text_of(advice.untuned->iteration));
  for (const BandwidthCheck& check : advice.networks)
    write_labelled(out, check.better.empty() ? "holds" : "changes",
                   network_text(check, report.subject.cluster.nodes > 1 ? "the network" : "the links"));
  for (const std::string& warning : best.warnings) write_labelled(out, "note", warning);
  out << '\n';
  write_layout_breakdown(out, best);
}

void write_best(std::ostream& out, const LayoutSearchReport& report) {
  const Objective objective = report.options.objective;
  const bool devices = objective == Objective::fewest_devices || objective == Objective::cheapest;
  const double price = report.options.price_per_device_hour;
  const std::vector<LayoutPrediction>& layouts = report.advice.best;
  const bool utilization = layouts.front().model_flops_utilization > 0;
  std::vector<TextTable::Column> columns = {{"#", Align::right},
                                            {"layout", Align::flexible},
                                            {"step", Align::right},
                                            {"memory", Align::right},
                                            {"bubble", Align::right}};
  if (utilization) columns.push_back({"MFU", Align::right});
  if (devices) columns.push_back({"devices", Align::right});
  if (price > 0) columns.push_back({"cost", Align::right});
  TextTable table(columns);
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const LayoutPrediction& p = layouts[i];
    std::vector<std::string> row = {std::to_string(i + 1), text_of(p.plan), text_of(p.iteration),
                                    text_of(p.memory.total()), percent(p.breakdown.bubble / p.iteration)};
    if (utilization) row.push_back(percent(p.model_flops_utilization));
    if (devices) row.push_back(std::to_string(p.devices));
    if (price > 0) row.push_back(fixed(cost_of(p, price), 4));
    table.add_row(std::move(row));
  }
  out << '\n';
  table.write(out);
  write_equals(out, report.advice.equals, percent(report.advice.resolution) + " of the step",
               "What a framework runs, then the simplest, then the one with most memory free,");
}

/// The settings of the best layout; where no framework runs it, of the best one that some framework does.
void write_best_settings(std::ostream& out, const LayoutSearchReport& report) {
  if (report.settings.empty()) return;
  out << '\n';
  write_by_pytorch(out, report.by_pytorch, report.subject);
  if (!report.runnable) return write_launch_settings(out, report.settings);
  const LayoutPrediction& p = report.runnable->layout;
  const double longer = p.iteration / report.advice.best.front().iteration - 1;
  write_labelled(out, "settings",
                 "no framework runs the best layout; the next that one does is " + text_of(p.plan) + ", " +
                     percent(std::abs(longer)) + (longer < 0 ? " faster" : " slower") + ", " +
                     text_of(p.memory.total()) + " a device");
  write_launch_settings(out, report.runnable->settings);
}

void write_frontier(std::ostream& out, const std::vector<FrontierPoint>& frontier) {
  TextTable table(
      {{"memory", Align::right}, {"step", Align::right}, {"shortest step with so much memory", Align::flexible}});
  for (const FrontierPoint& point : frontier)
    table.add_row({text_of(point.memory), text_of(point.iteration), text_of(point.plan)});
  out << '\n';
  table.write(out);
}

}  // namespace

void write_layout_search_text(std::ostream& out, const LayoutSearchReport& report) {
  const LayoutAdvice& advice = report.advice;
  const bool any = !advice.best.empty();
  write_layout_subject(out, report.subject);
  if (!report.reason.empty()) write_labelled(out, "layouts", report.reason), out << '\n';
  if (!report.batch_choice.empty()) write_labelled(out, "batch", report.batch_choice), out << '\n';
  if (!any) {
    write_labelled(out, "no layout", advice.search.nothing);
    for (const FittingOption& o : advice.fitting_options) {
      const std::string word = o.option.empty() ? "" : o.option + " in the model (" + std::string(o.what) + ")";
      const std::string share =
          o.memory_share > 0 ? "--memory " + std::to_string(std::lround(100 * o.memory_share)) + "%" : "";
      write_labelled(out, "also try",
                     word + (word.empty() || share.empty() ? "" : " and ") + share + ": " + text_of(o.best.plan) +
                         " takes " + text_of(o.best.iteration) + " and " + text_of(o.best.memory.total()) +
                         " of a device");
    }
    if (const auto& best = advice.with_offload; best)
      write_labelled(out, "also try",
                     "--offload " + offload_text(best->plan.layout) + ", which leaves " + text_of(best->host_memory) +
                         " with each host: " + text_of(best->plan) + " takes " + text_of(best->iteration) + " (" +
                         text_of(best->interval_low) + " to " + text_of(best->interval_high) + ") and " +
                         text_of(best->memory.total()) + " of a device");
    if (const auto& run = report.subject.run; run && run->within > Seconds(0))
      write_labelled(out, "run",
                     duration_text(run->within) + " are a step of at most " +
                         text_of(longest_step(*run, report.subject.tokens_a_step())) +
                         ", interruptions aside: a longer --within, more devices or fewer --tokens");
    write_space(out, report);
  } else {
    write_advice(out, report);
    write_best(out, report);
  }
  if (report.frontier && !advice.search.frontier.empty()) write_frontier(out, advice.search.frontier);
  if (any) write_best_settings(out, report);
  write_layout_grounds(out, report.subject, any ? advice.best.front().assumed : std::vector<std::string>{});
}

}  // namespace stepcast
