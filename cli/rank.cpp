// Ranking of plans or of layouts, as the flags ask.
#include "rank.hpp"

#include "asked.hpp"
#include "beside.hpp"
#include "described.hpp"
#include "files.hpp"
#include "layouts.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/page/steps_svg.hpp>
#include <stepcast/prediction/recommend.hpp>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

namespace stepcast::cli {
namespace {

Search search_of(const std::string& text) {
  if (text.empty() || text == "grid") return Search::grid;
  if (text == "bayesian") return Search::bayesian;
  throw InputError("--search", "grid or bayesian", in_quotes(text));
}

/// Plans of a described model whose batch is the usual one, without what is asked of plans alone.
bool shares_out_usual_batch(const RankFlags& flags, const RankOptions& options) {
  return flags.input.files.empty() && is_described(flags.input) && flags.input.batch.empty() &&
         flags.cluster.what.empty() && flags.cluster.iterations.empty() && flags.allow.empty() &&
         flags.search.empty() && !options.tune;
}

/// Plans with a layout, or a batch that is shared out, are compared as layouts; so are those beside them.
bool names_layouts(const RankFlags& flags, const RankOptions& options) {
  return !flags.plans.empty() &&
         (!flags.layout.global_batch.empty() || std::any_of(flags.plans.begin(), flags.plans.end(), has_layout) ||
          shares_out_usual_batch(flags, options));
}

/// Steps are drawn of plans that only divide the batch.
void refuse_plot(const RankFlags& flags, const char* found) {
  if (!flags.plot.empty())
    throw InputError("--plot", "a ranking without layouts", found, "'stepcast predict --timeline' shows their steps");
}

/// Flags that a comparison of plans without layouts would ignore.
void refuse_flags_of_comparison(const RankFlags& flags, const RankOptions& options) {
  if (!flags.search.empty() && !options.tune)
    throw InputError("--search", "--tune beside it, since options are not tuned otherwise", "none");
  if (!flags.allow.empty() && !flags.plans.empty())
    throw InputError("--allow", "a comparison of all plans", "--plan, which may name any");
  if (!flags.layout.global_batch.empty())
    throw InputError("--global-batch", "plans that share it out", "none", "name them: --plan 'layout(tp=2)/ddp'");
}

/// Plans of a described model as `predict` answers them: its device errs, and has to hold what a worker keeps.
void rank_described(RecommendOptions& how, const PreparedQuestion& question) {
  how.model = [&question](const PlanSpec& plan) { return question.answer(plan); };
  if (const Answer<Prediction> ddp = question.answer(plan_of("ddp")); !ddp)
    throw InputError("--model", "a model that data parallelism can train, over which gains are",
                     (ddp.reason().starts_with("needs ") ? "one that " : "") + ddp.reason());
}

/// Plans that leave the model whole, of `flags`; `profile`: the question's, changed; `refused` could not be asked.
ExitCode rank_whole(const RankFlags& flags, const RankOptions& options, RecommendOptions how, const Asked& asked,
                    const PreparedQuestion& question, const Profile& profile,
                    const std::vector<RejectedPlan>& refused) {
  if (is_described(flags.input)) {
    rank_described(how, question);
  } else {
    const bool all_asked = options.advice ? options.by_step : options.all;
    rank_over_what_runs(how, asked.check, question,
                        all_asked ? PlansOfAnotherJob::ranked : PlansOfAnotherJob::left_out);
  }
  if (how.baseline && !how.baseline->plan.own && !how.plans.empty()) {  // named plans stand beside the one that ran
    const PlanSpec& used = how.baseline->plan;
    const auto is_used = [&](const PlanSpec& plan) { return text_of(plan) == text_of(used); };
    if (std::ranges::none_of(how.plans, is_used)) how.plans.insert(how.plans.begin(), used);
  }
  Ranking ranking = recommended(profile, question.cluster(), how);
  ranking.inapplicable.insert(ranking.inapplicable.end(), refused.begin(), refused.end());
  const RankingReport report{profile, question.cluster(), asked.check, ranking, options.advice};
  if (!flags.plot.empty() && !ranking.exact.empty())
    write_output(flags.plot, [&](std::ostream& out) { write_steps_svg(out, report); });
  write_output(flags.output.path, [&](std::ostream& out) { report_of(flags.output).ranking(out, report); });
  return ranking.exact.empty() && ranking.others.empty() ? answer_is_no : answered;
}

/// A trace whose model cannot be divided still answers for the plans that leave it whole.
ExitCode compare_divided(const RankFlags& flags, const RankOptions& options) {
  for (const std::string& plan : flags.plans) (void)layout_plan_of(plan);  // wrong plans are told first
  refuse_overwriting(flags.output.path, files_of(flags.input, flags.cluster, flags.layout));
  const Asked asked = asked_of(flags.input, flags.cluster, flags.layout, {.layouts = true});
  const PreparedQuestion question = with_recorded_rest(asked.check, PreparedQuestion(asked.question));
  RankFlags whole = flags;
  std::erase_if(whole.plans, has_layout);
  if (question.workload() || whole.plans.empty() || !flags.layout.global_batch.empty())
    return compare_layouts(question, asked.check, flags.plans, flags.layout.framework, flags.output);
  if (!flags.layout.framework.empty()) refuse_framework("a trace that cannot be divided");
  std::vector<RejectedPlan> refused;
  for (const std::string& plan : flags.plans)
    if (has_layout(plan)) refused.push_back({plan, question.workload().reason()});
  const PreparedQuestion alone(asked.question);
  return rank_whole(whole, options, recommend_options_of(whole, options), asked, alone,
                    changed_profile(alone, asked.question.changes), refused);
}

ExitCode recommend_divided(const RankFlags& flags, bool by_step) {
  refuse_plot(flags, "a search over layouts");
  if (by_step)
    throw InputError("--all", "a ranking without layouts", "a search over layouts", "its list is by step time");
  if (!flags.allow.empty())
    throw InputError("--allow", "a ranking without layouts", "a search over layouts",
                     "its gradients travel by exact strategies only");
  if (iterations_of(flags.cluster) > 0)
    throw InputError("--iterations", "a ranking without layouts", "a search over layouts",
                     "its plans have no warm-up: a run takes the iterations times the step");
  if (!flags.cluster.aggregation.empty() && flags.cluster.collective.empty())
    throw InputError("--switch", "an all-reduce that runs on it", "a search over layouts, whose gradients do not",
                     "name it: --collective switchml");
  if (!flags.cluster.servers.empty())
    throw InputError("--servers", "a ranking without layouts", "a search over layouts",
                     "its gradients travel between the devices");
  if (!flags.layout.cp_comm.empty() && is_described(flags.input) &&
      !has_fused_attention(model_shape_of(flags.input.model)))
    throw InputError("--cp-comm", "a model with fused attention, whose contexts alone are divided", "one without",
                     "attention=flash in the model");
  for (const auto& [flag, value] :
       {std::pair{"--expert-tensor", &flags.layout.expert_tensor}, std::pair{"--ep-comm", &flags.layout.ep_comm},
        std::pair{"--overlap-ep", &flags.layout.overlap_expert}}) {
    if (value->empty() || (is_described(flags.input) && model_shape_of(flags.input.model).experts > 0)) continue;
    throw InputError(flag, "a model with experts", is_described(flags.input) ? "one without" : "a trace",
                     is_described(flags.input) ? "experts=... in the model"
                                               : "which does not tell them from other layers: --model describes one");
  }
  for (const auto& [flag, value] :
       {std::pair{"--ep-comm", &flags.layout.ep_comm}, std::pair{"--overlap-ep", &flags.layout.overlap_expert}})
    if (!value->empty() && flags.layout.expert == "1")
      throw InputError(flag, "experts that are spread, whose tokens travel", "--expert 1", "leave one of both out");
  const std::vector<std::int64_t> counts = device_counts_of(flags.layout);
  if (flags.layout.unit_frontier) {
    refuse_search_flags(flags.layout, "--unit-frontier", {"--objective", "--target-step"});
    if (!flags.search.empty())
      throw InputError("--search", "plans with options to tune", "--unit-frontier", "whose gradients travel by ddp");
    (void)unit_options_of(flags.layout);
  } else {
    (void)space_of(flags.layout), (void)search_options_of(flags.layout);
  }
  refuse_overwriting(flags.output.path, files_of(flags.input, flags.cluster, flags.layout));
  ClusterFlags cluster = flags.cluster;
  if (!counts.empty()) cluster = flags_over_workers(cluster, counts.back());
  const bool twin = !flags.cluster.beside.empty() && flags.cluster.beside_model.empty();
  if (!counts.empty() && !flags.cluster.beside.empty())
    throw InputError("--beside", "one number of workers, which the second job has, too", "--over");
  if (const std::optional<BatchRange> range = batch_range_of(flags.layout)) {
    if (twin && flags.cluster.beside_batch.empty())
      throw InputError("--beside-batch", "the batch of the second job, since that of this one is searched", "nothing");
    if (flags.layout.unit_frontier)
      throw InputError("--global-batch", "one batch", in_quotes(flags.layout.global_batch),
                       "--unit-frontier takes one");
    LayoutFlags first = flags.layout;
    first.global_batch = std::to_string(range->least);
    Asked asked = asked_of(flags.input, cluster, first, {.layouts = true, .batch_is_searched = true});
    return recommend_batch(asked, flags.layout, *range, search_of(flags.search), flags.output);
  }
  const Asked asked = asked_of(flags.input, cluster, flags.layout, {.layouts = true});
  const PreparedQuestion question = with_recorded_rest(asked.check, PreparedQuestion(asked.question));
  if (flags.layout.unit_frontier) return recommend_units(question, asked.check, flags.layout, flags.output);
  return recommend_layout(question, asked.check, flags.layout, search_of(flags.search), flags.output, "");
}

/// The recorded job alone: its traces do not say enough for a plan.
ExitCode rank_recorded(const Asked& asked, const RankFlags& flags) {
  for (const auto& [flag, given] :
       {std::pair{"--allow", !flags.allow.empty()}, std::pair{"--search", !flags.search.empty()},
        std::pair{"--plot", !flags.plot.empty()}})
    if (given)
      throw InputError(flag, "a trace that gives a profile, for which there are plans", "one that does not",
                       asked.refusal);
  const Cluster& cluster = asked.question.cluster;
  const Ranking ranking = ranked_alone(recorded_answer(asked), asked.refusal, cluster, asked.question.iterations);
  write_output(flags.output.path, [&](std::ostream& out) {
    report_of(flags.output).ranking(out, {asked.question.profile, cluster, asked.check, ranking});
  });
  return answered;
}

/// Why data parallelism does not fit into the devices' memory; empty where it does, or where that is not known.
std::string misfit_of(const PreparedQuestion& question) {
  const LayoutOptions options = question.layout_options();
  if (!(options.global_batch > 0) || options.memory_cap == Bytes(0) || !question.workload()) return {};
  LayoutEvaluator evaluator(*question.workload(), question.cluster(), options);
  const Answer<LayoutEvaluator::Quick> ddp = evaluator.quick(layout_plan_of("ddp"));
  if (!ddp || ddp->memory <= options.memory_cap) return {};
  return "searched because DDP needs " + percent(ddp->memory / options.memory_cap) + " of the " +
         text_of(options.memory_cap) + " that a device has";
}

/// Why a profile is divided though nobody asked for layouts: no plan runs yet that another one would have to replace.
/// Empty where something of a ranking of plans was asked for.
std::string why_divided(const RankFlags& flags, const RankOptions& options, const PreparedQuestion& question) {
  if (!options.advice || flags.input.recorded) return {};
  if (std::string misfit = misfit_of(question); !misfit.empty()) return misfit;
  const bool of_plans = options.by_step || !flags.allow.empty() || iterations_of(flags.cluster) > 0 ||
                        !flags.cluster.aggregation.empty() || !flags.cluster.servers.empty() ||
                        !flags.cluster.overlay.empty();
  const bool divisible =
      question.profile()->described && question.workload() && question.layout_options().global_batch > 0;
  if (of_plans || !divisible) return {};
  return "searched because the profile is described, not traced; --all ranks the ways in which its gradients can "
         "travel "
         "instead";
}

}  // namespace

RecommendOptions recommend_options_of(const RankFlags& flags, const RankOptions& options) {
  RecommendOptions out;
  out.tune = options.tune;
  out.sensitivity = options.advice;
  out.by_step = options.by_step;
  out.iterations = iterations_of(flags.cluster);
  out.search = search_of(flags.search);
  for (const std::string& plan : flags.plans) out.plans.push_back(plan_spec_of(plan));
  out.allow_lossy = out.allow_stale = out.allow_periodic = options.all;
  std::istringstream words(flags.allow);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == name_of(Fidelity::lossy)) out.allow_lossy = true;
    else if (word == name_of(Fidelity::stale)) out.allow_stale = true;
    else if (word == name_of(Fidelity::periodic)) out.allow_periodic = true;
    else throw InputError("--allow", "lossy, stale or periodic", in_quotes(word));
  }
  return out;
}

void add_rank_flags(CLI::App& app, RankFlags& flags) {
  add_input_flags(app, flags.input);
  add_recorded_flag(app, flags.input);
  add_cluster_flags(app, flags.cluster);
  add_beside_flags(app, flags.cluster);
  add_change_flag(app, flags.cluster);
  add_iterations_flag(app, flags.cluster);
  app.add_option("--allow", flags.allow, "Other plans too: lossy,stale,periodic");
  app.add_option("--search", flags.search,
                 "How options are tuned: grid (default), or bayesian, as a run-time tuner would in 10 or 15 trials");
  add_output_flags(app, flags.output);
}

ExitCode rank(const RankFlags& asked_for, const RankOptions& options) {
  RankFlags flags = asked_for;
  // By what the state is divided, each under the name that frameworks have for it.
  const std::vector<std::string> named = {"ddp", "zero1", "zero2", "fsdp", "hsdp"};
  if (!options.advice && !options.all && !flags.layout.framework.empty() && flags.plans.empty()) flags.plans = named;
  if (options.advice && options.by_step && !flags.layout.devices.empty())
    throw InputError("--all", "equal devices", "--devices");
  for (const auto& [flag, given] :
       {std::pair{"--allow", !flags.allow.empty()}, std::pair{"--search", !flags.search.empty()},
        std::pair{"--layouts", flags.layout.layouts}, std::pair{"--memory", !flags.layout.memory.empty()},
        std::pair{"--measured", !flags.layout.measured.empty()}, std::pair{"--plot", !flags.plot.empty()}})
    if (given && !flags.layout.devices.empty()) throw InputError(flag, "equal devices", "--devices");
  if (!flags.layout.devices.empty() && iterations_of(flags.cluster) > 0)
    throw InputError("--iterations", "equal devices", "--devices");
  if (!flags.layout.devices.empty()) return recommend_placement(flags.input, flags.cluster, flags.layout, flags.output);
  if (!flags.layout.adatopk.empty())
    throw InputError("--adatopk", "a pipeline over --devices, whose links it compresses", "none");
  if (!options.advice) {
    std::vector<Plan> plans;
    for (const std::string& plan : flags.plans) plans.push_back(plan_of(plan));
    refuse_unused_flags(flags.cluster, plans);
  }
  if (names_layouts(flags, options)) {
    for (const auto& [flag, given] : {std::pair{"--allow", !flags.allow.empty()},
                                      std::pair{"--search", !flags.search.empty()}, std::pair{"--tune", options.tune}})
      if (given) throw InputError(flag, "plans without layouts", "layouts, whose plans are compared as they are named");
    return compare_divided(flags, options);
  }
  const bool described = is_described(flags.input);
  if (!options.advice && !flags.layout.framework.empty())
    refuse_framework(flags.plans.empty() ? "none" : listed(flags.plans));
  if (options.advice && (described || asks_for_layouts(flags.layout))) return recommend_divided(flags, options.by_step);
  if (options.by_step && !options.advice) refuse_flags_of_comparison(flags, options);
  RecommendOptions how = recommend_options_of(flags, options);
  const std::vector<std::string> inputs = files_of(flags.input, flags.cluster, flags.layout);
  refuse_overwriting(flags.output.path, inputs);
  check_plot(flags.plot, inputs, flags.output.path, "the answer");
  const Asked asked = asked_of(flags.input, flags.cluster, flags.layout,
                               {.input = {.recorded_will_do = options.advice && !options.by_step}});
  if (!asked.refusal.empty()) return rank_recorded(asked, flags);
  const PreparedQuestion question(asked.question);
  const bool plain = !options.advice && !options.all && !options.tune && flags.allow.empty() && flags.search.empty() &&
                     flags.plot.empty();
  if (plain && described && flags.plans.empty() && !question.answer(plan_of("ddp"))) {  // a worker does not hold it
    flags.plans = named;
    return compare_divided(flags, options);
  }
  const Profile profile = changed_profile(question, asked.question.changes);
  if (const std::string reason = why_divided(flags, options, question); !reason.empty()) {
    refuse_plot(flags, "a search over layouts, because DDP does not fit into a device");
    return recommend_layout(question, asked.check, flags.layout, search_of(flags.search), flags.output, reason);
  }
  return rank_whole(flags, options, how, asked, question, profile, {});
}

}  // namespace stepcast::cli
