// Ranking of plans or of layouts, as the flags ask.
#include "rank.hpp"

#include "described.hpp"
#include "files.hpp"
#include "layouts.hpp"

#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/prediction/recommend.hpp>

#include <algorithm>
#include <optional>
#include <sstream>

namespace stepcast::cli {
namespace {

Search search_of(const std::string& text) {
  if (text.empty() || text == "grid") return Search::grid;
  if (text == "bayesian") return Search::bayesian;
  throw InputError("--search", "grid or bayesian", in_quotes(text));
}

/// Plans with a layout, or a batch that is shared out, are compared as layouts; so are those beside them.
bool names_layouts(const RankFlags& flags) {
  return !flags.plans.empty() &&
         (!flags.layout.global_batch.empty() || std::any_of(flags.plans.begin(), flags.plans.end(), has_layout));
}

/// The same flags without --what, whose changes the question makes.
ClusterFlags unchanged(ClusterFlags flags) {
  flags.what.clear();
  return flags;
}

ExitCode compare_divided(const RankFlags& flags) {
  for (const std::string& plan : flags.plans) (void)layout_plan_of(plan);  // wrong plans are told first
  refuse_overwriting(flags.output.path, files_of(flags.input, flags.cluster));
  const Answer<LayoutInput> input =
      layout_input_of(flags.input, unchanged(flags.cluster), flags.layout, changes_of(flags.cluster));
  if (!input) return refuse_layout(flags.plans.front(), input.reason(), flags.output);
  return compare_layouts(*input, flags.plans, flags.output);
}

ExitCode recommend_divided(const RankFlags& flags) {
  if (!flags.allow.empty())
    throw InputError("--allow", "a ranking without layouts", "a search over layouts",
                     "whose gradients travel by exact strategies only");
  if (flags.layout.unit_frontier) refuse_search_flags(flags.layout, "--unit-frontier");
  (void)space_of(flags.layout), (void)search_options_of(flags.layout);
  refuse_overwriting(flags.output.path, files_of(flags.input, flags.cluster));
  const Answer<LayoutInput> input =
      layout_input_of(flags.input, unchanged(flags.cluster), flags.layout, changes_of(flags.cluster));
  if (!input) return refuse_layout("layout/ddp", input.reason(), flags.output);
  if (flags.layout.unit_frontier) return recommend_units(*input, flags.output);
  return recommend_layout(*input, flags.layout, search_of(flags.search), flags.output, "");
}

/// What to search instead when data parallelism does not fit into the devices' memory, as far as that is known.
struct Misfit {
  LayoutInput input;
  std::string reason;
};
std::optional<Misfit> misfit_of(const RankFlags& flags, const Cluster& cluster, const Input& traced) {
  if (traced.profile.batch_samples <= 0 && flags.input.batch.empty()) return std::nullopt;
  Answer<LayoutInput> input = layout_input_of(flags.input, cluster, traced, flags.layout);
  if (!input || input->options.memory_cap == Bytes(0)) return std::nullopt;
  LayoutEvaluator evaluator(input->workload, input->cluster, input->options);
  const Answer<LayoutEvaluator::Quick> ddp = evaluator.quick(layout_plan_of("ddp"));
  if (!ddp || ddp->memory <= input->options.memory_cap) return std::nullopt;
  const Bytes cap = input->options.memory_cap;
  return Misfit{*std::move(input), "searched because DDP needs " + percent(ddp->memory / cap) + " of the " +
                                       text_of(cap) + " that a device has"};
}

}  // namespace

RecommendOptions recommend_options_of(const RankFlags& flags, const RankOptions& options) {
  RecommendOptions out;
  out.tune = options.tune;
  out.sensitivity = options.advice;
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
  add_cluster_flags(app, flags.cluster);
  add_change_flag(app, flags.cluster);
  app.add_option("--allow", flags.allow, "Other plans too: lossy,stale,periodic");
  app.add_option("--search", flags.search,
                 "How options are tuned: grid (default), or bayesian, as a run-time tuner with 15 trials would");
  add_output_flags(app, flags.output);
}

ExitCode rank(const RankFlags& flags, const RankOptions& options) {
  if (!flags.layout.devices.empty()) return recommend_placement(flags.input, flags.cluster, flags.layout, flags.output);
  if (!flags.layout.adatopk.empty())
    throw InputError("--adatopk", "a pipeline over --devices, whose links it compresses", "none");
  if (names_layouts(flags)) return compare_divided(flags);
  const bool described = is_described(flags.input);
  if (options.advice && (described || asks_for_layouts(flags.layout))) return recommend_divided(flags);
  const RecommendOptions how = recommend_options_of(flags, options);
  refuse_overwriting(flags.output.path, files_of(flags.input, flags.cluster));
  const Cluster cluster = cluster_for(flags.input, flags.cluster);
  Input input = input_of(flags.input, cluster);
  input.profile = profile_on(cluster, std::move(input.profile), flags.cluster);
  const Profile& profile = input.profile;
  if (options.advice)
    if (const std::optional<Misfit> misfit = misfit_of(flags, cluster, input))
      return recommend_layout(misfit->input, flags.layout, search_of(flags.search), flags.output, misfit->reason);
  const Ranking ranking = recommended(profile, cluster, how);
  write_output(flags.output.path, [&](std::ostream& out) {
    report_of(flags.output).ranking(out, {profile, cluster, input.check, ranking, options.advice});
  });
  return ranking.exact.empty() && ranking.others.empty() ? answer_is_no : answered;
}

}  // namespace stepcast::cli
