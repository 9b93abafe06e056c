// Predictions, comparisons and recommendations of layouts.
#include "layouts.hpp"

#include "files.hpp"
#include "progress.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/launch/launch_settings.hpp>

#include <utility>

namespace stepcast::cli {
namespace {

void write_layout_timeline(const std::string& path, const Workload& workload, const Cluster& cluster,
                           const LayoutPrediction& prediction, const LayoutOptions& options) {
  const Answer<LayoutTimeline> detail = layout_timeline(workload, cluster, prediction.plan, options);
  if (!detail) throw InputError("--timeline", "a layout with a timeline", detail.reason());
  write_output(path, [&](std::ostream& out) {
    report_named("perfetto")->layout_timeline(out, {workload, *detail, prediction.plan, prediction.iteration});
  });
}

/// A job that is interrupted more often than it can start again never ends.
void refuse_endless(const LayoutSubject& subject, const LayoutPrediction& best) {
  constexpr double endless = 100;
  const std::optional<WholeRun> run = run_by(subject, best);
  if (!run || run->expected < run->duration * endless) return;
  throw InputError("--mtbf", "devices that fail seldom enough for the job to get on",
                   text_of(subject.run->between_failures / static_cast<double>(best.devices)) +
                       " between interruptions of " + std::to_string(best.devices) + " devices",
                   "--restart " + text_of(subject.run->restart) + " and --checkpoint " +
                       text_of(subject.run->checkpoint) + " leave it no time");
}

void refuse_run_without_tokens(const LayoutSubject& subject) {
  if (subject.run && !(subject.tokens_a_step() > 0))
    throw InputError("--tokens", "a model that is trained on tokens", in_quotes(subject.workload.name));
}

}  // namespace

ExitCode refuse_layout(const std::string& plan, const std::string& reason, const OutputFlags& output) {
  write_output(output.path,
               [&](std::ostream& out) { report_of(output).inapplicable(out, plan, Inapplicable{reason}); });
  return answer_is_no;
}

ExitCode show_layout(const PreparedQuestion& question, const SelfCheck& check, const LayoutPrediction& prediction,
                     const std::string& framework, const std::optional<RunRequest>& run, const OutputFlags& output,
                     const std::string& timeline) {
  LayoutReport report = layout_report_of(question, check, prediction, framework);
  report.subject.run = run;
  refuse_run_without_tokens(report.subject);
  refuse_endless(report.subject, prediction);
  if (!timeline.empty())
    write_layout_timeline(timeline, report.subject.workload, question.cluster(), prediction, question.layout_options());
  write_output(output.path, [&](std::ostream& out) { report_of(output).layout(out, report); });
  return answered;
}

ExitCode compare_layouts(const PreparedQuestion& question, const SelfCheck& check,
                         const std::vector<std::string>& plans, const std::string& framework,
                         const OutputFlags& output) {
  const Answer<Workload>& workload = question.workload();
  if (!workload) return refuse_layout(plans.front(), workload.reason(), output);
  LayoutComparisonReport report{layout_subject_of(question, check), {}, {}};
  std::vector<std::string> compared = plans;
  if (const std::optional<Plan> traced = check.as_traced ? check.as_traced->as_plan() : std::nullopt) {
    const auto is_traced = [&](const std::string& text) { return text_of(plan_of(text)) == text_of(*traced); };
    if (std::ranges::none_of(plans, is_traced)) compared.insert(compared.begin(), check.as_traced->plan);
    report.traced = *std::ranges::find_if(compared, is_traced);
  }
  bool any = false;
  for (const std::string& text : compared) {
    Plan plan = plan_of(text);
    if (!plan.layout) plan.layout = Layout{};  // beside layouts, data parallelism is the one of degree one
    const Answer<Prediction> prediction = question.answer(plan);
    if (!prediction) {
      report.rows.push_back({text, {}, prediction.reason()});
    } else {
      const LayoutPrediction& p = *prediction->layout;
      report.rows.push_back(
          {text, p, {}, framework.empty() ? "" : why_not_launched(*workload, p.plan, p.micro_batches, framework)});
    }
    any |= static_cast<bool>(prediction);
  }
  write_output(output.path, [&](std::ostream& out) { report_of(output).layout_comparison(out, report); });
  return any ? answered : answer_is_no;
}

namespace {

/// How many times as long as was asked for the best layout's run takes; 0: nothing was asked, or found.
double within(const LayoutSubject& subject, const LayoutAdvice& advice) {
  if (!subject.run || subject.run->within <= Seconds(0) || advice.best.empty()) return 0;
  const std::optional<WholeRun> run = run_by(subject, advice.best.front());
  return run ? run->expected / subject.run->within : 0;
}

}  // namespace

ExitCode recommend_layout(const PreparedQuestion& question, const SelfCheck& check, const LayoutFlags& flags,
                          Search tuning, const OutputFlags& output, const std::string& reason,
                          const std::string& batch_choice) {
  const Answer<Workload>& workload = question.workload();
  if (!workload) return refuse_layout("layout/ddp", workload.reason(), output);
  LayoutAdviceOptions options;
  options.search = search_options_of(flags);
  options.search.layout = question.search_options();
  LayoutSubject subject = layout_subject_of(question, check);
  subject.run = run_request_of(flags);
  refuse_run_without_tokens(subject);
  if (subject.run && subject.run->within > Seconds(0))
    options.search.target_step = longest_step(*subject.run, subject.tokens_a_step());
  options.search.one_of_kind = true;
  options.other_kernels = question.correction() == nullptr;
  options.tuning = tuning;
  Answer<LayoutAdvice> advice = Inapplicable{};
  {
    Progress progress("searching layouts");
    options.search.progress = [&](std::uint64_t done, std::uint64_t total, Seconds) {
      progress.show(total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0);
      return true;
    };
    advice = layout_advice(*workload, question.cluster(), space_of(flags), options);
    // Interruptions make a run longer than its steps, more so on more devices: a shorter step makes up for them.
    constexpr int most_times = 3;
    for (int i = 0; i < most_times && advice && within(subject, *advice) > 1; ++i) {
      options.search.target_step = options.search.target_step / within(subject, *advice);
      advice = layout_advice(*workload, question.cluster(), space_of(flags), options);
    }
  }
  if (!advice) return refuse_layout("layout/ddp", advice.reason(), output);
  LayoutSearchReport report = layout_search_report_of(question, check, *advice, options.search, flags.framework);
  report.subject.run = subject.run;
  if (!advice->best.empty()) refuse_endless(subject, advice->best.front());
  report.reason = reason, report.frontier = flags.frontier, report.batch_choice = batch_choice;
  write_output(output.path, [&](std::ostream& out) { report_of(output).layout_search(out, report); });
  return advice->best.empty() ? answer_is_no : answered;
}

ExitCode recommend_batch(Asked& asked, const LayoutFlags& flags, BatchRange range, Search tuning,
                         const OutputFlags& output) {
  constexpr std::size_t tried = 16;
  const PreparedQuestion first(asked.question);
  if (!first.workload()) return refuse_layout("layout/ddp", first.workload().reason(), output);
  const LayoutSpace space = space_of(flags);
  LayoutSearchOptions options = search_options_of(flags);
  if (options.objective != Objective::shortest_step || options.target_step > Seconds(0))
    throw InputError("--global-batch", "one batch beside --objective, --target-step or --within",
                     in_quotes(flags.global_batch), "a range is searched for the most samples a second");
  options.layout = first.search_options();
  const std::vector<std::int64_t> batches =
      promising_batches(data_degrees(*first.workload(), first.cluster(), space), range, tried);
  const std::optional<BatchChoice> best = best_batch(*first.workload(), first.cluster(), space, options, batches, 0);
  asked.question.global_batch = static_cast<double>(best ? best->global_batch : batches.front());
  const std::string choice = "trains most samples a second of " + std::to_string(batches.size()) + " of the " +
                             std::to_string(range.most - range.least + 1) + " batches of " + flags.global_batch +
                             ", those by which most data degrees divide";
  return recommend_layout(PreparedQuestion(asked.question), asked.check, flags, tuning, output, "",
                          best ? choice : "none of " + flags.global_batch + " that was tried has a layout that fits");
}

ExitCode recommend_units(const PreparedQuestion& question, const SelfCheck& check, const LayoutFlags& flags,
                         const OutputFlags& output) {
  const LayoutSearchOptions asked = unit_options_of(flags);
  const Answer<UnitFrontiers> found =
      unit_frontiers(question, device_counts_of(flags), asked.objective, asked.target_step);
  if (!found) return refuse_layout("a configuration for each unit", found.reason(), output);
  const UnitFrontierReport report = unit_frontier_report_of(*found, check);
  write_output(output.path, [&](std::ostream& out) { report_of(output).unit_frontier(out, report); });
  return found->choice.point ? answered : answer_is_no;
}

}  // namespace stepcast::cli
