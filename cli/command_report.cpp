// stepcast report: what `recommend` finds, as one HTML page for those who would rather look.
#include "asked.hpp"
#include "command.hpp"
#include "described.hpp"
#include "files.hpp"
#include "progress.hpp"
#include "rank.hpp"

#include <stepcast/page/report_page.hpp>

#include <unistd.h>

#include <algorithm>
#include <memory>

namespace stepcast::cli {
namespace {

struct ReportFlags {
  RankFlags rank;
  bool no_validation = false;
};

/// A word as a shell reads it.
std::string shell_word(const std::string& word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,@+%-";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word)
    if (c == '\'') out += "'\\''";
    else out += c;
  return out + "'";
}

/// The command that makes the page again; where the page went is not said, so that it is the same everywhere.
std::string command_of(const CLI::App& app) {
  std::string files, flags;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || option->check_lname("output")) continue;
    if (option->get_positional()) {
      for (const std::string& word : option->results()) files += " " + shell_word(word);
      continue;
    }
    const std::string name = " --" + option->get_lnames().front();
    if (option->get_expected_max() == 0) flags += name;
    else
      for (const std::string& word : option->results()) flags += name + " " + shell_word(word);
  }
  return "stepcast report" + files + flags + " -o report.html";
}

ExitCode write_report(const ReportFlags& flags, const CLI::App& app) {
  if (is_described(flags.rank.input))
    throw InputError("--model", "a trace: a report shows data parallelism", "the description of a model",
                     "'stepcast recommend' divides described models, as text or --json");
  ReportPageOptions options;
  RankFlags ranked = flags.rank;
  ranked.plans.clear();
  options.recommend = recommend_options_of(ranked, {.advice = true, .tune = true});
  for (const std::string& plan : flags.rank.plans) options.asked.push_back(plan_of(plan));
  const bool divided =
      std::any_of(options.asked.begin(), options.asked.end(), [](const Plan& plan) { return plan.layout.has_value(); });
  if (!flags.rank.layout.global_batch.empty() && !divided)
    throw InputError("--global-batch", "a plan that shares it out", "none", "name it: --plan 'layout(zero=1)/ddp'");
  options.validation = !flags.no_validation;
  if (flags.rank.output.path.empty() && ::isatty(STDOUT_FILENO))
    throw InputError("--output", "a file for the page, such as '-o report.html'", "none", "'-o -' writes it here");
  refuse_overwriting(flags.rank.output.path, files_of(flags.rank.input, flags.rank.cluster));
  check_writable(flags.rank.output.path);
  Asked asked = asked_of(flags.rank.input, flags.rank.cluster, flags.rank.layout,
                         {.layouts = std::ranges::any_of(options.asked, [](const Plan& p) { return !!p.layout; }),
                          .input = {.draws_step = true}});
  const PreparedQuestion question(asked.question);
  (void)changed_profile(question, asked.question.changes);
  ReportPage page;
  {
    Progress progress("predicting");
    options.progress = [&](double share) { progress.show(share); };
    options.recorded = std::move(asked.recorded);
    options.changed = !asked.question.changes.empty() || !flags.rank.cluster.faster_compute.empty();
    page = report_page_of(question, asked.check, options);
  }
  page.command = command_of(app);
  write_output(flags.rank.output.path, [&](std::ostream& out) { write_report_page(out, page); });
  return page.ranking.exact.empty() && page.ranking.others.empty() ? answer_is_no : answered;
}

Action add_report_flags(CLI::App& app) {
  auto flags = std::make_shared<ReportFlags>();
  add_input_flags(app, flags->rank.input);
  add_recorded_flag(app, flags->rank.input);
  add_cluster_flags(app, flags->rank.cluster);
  app.add_option("--allow", flags->rank.allow, "Other plans too: lossy,stale,periodic");
  app.add_option("--search", flags->rank.search, "How options are tuned: grid (default) or bayesian");
  app.add_option("--plan", flags->rank.plans, "Show this plan, too: [layout(tp=8, ...)/]strategy; again: one more")
      ->take_all()
      ->allow_extra_args(false);
  add_global_batch_flag(app, flags->rank.layout);
  add_change_flag(app, flags->rank.cluster);
  add_iterations_flag(app, flags->rank.cluster);
  app.add_flag("--no-validation", flags->no_validation, "Leave out how predictions compare with measurements");
  app.add_option("-o,--output", flags->rank.output.path, "Write to this file; - is standard output");
  return [flags, &app] { return write_report(*flags, app); };
}

}  // namespace

const Verb report_verb = {
    "report", "Write what recommend finds as one HTML page: ranking, timelines, sensitivity, layouts",
    "stepcast report trace.json.gz --workers 16 --per-node 4 --network 10GbE -o report.html", add_report_flags};

}  // namespace stepcast::cli
