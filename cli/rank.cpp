#include "rank.hpp"

#include "files.hpp"

#include <stepcast/recommend.hpp>
#include <stepcast/text.hpp>

#include <sstream>

namespace stepcast::cli {
namespace {

Search search_of(const std::string& text) {
  if (text.empty() || text == "grid") return Search::grid;
  if (text == "bayesian") return Search::bayesian;
  throw InputError("--search", "grid or bayesian", "'" + text + "'");
}

RecommendOptions options_of(const RankFlags& flags, const RankOptions& options) {
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
    else throw InputError("--allow", "lossy, stale or periodic", "'" + word + "'");
  }
  return out;
}

}  // namespace

void add_rank_flags(CLI::App& app, RankFlags& flags) {
  add_input_flags(app, flags.input);
  add_cluster_flags(app, flags.cluster);
  app.add_option("--allow", flags.allow, "Other plans too: lossy,stale,periodic");
  app.add_option("--search", flags.search,
                 "How options are tuned: grid (default), or bayesian, as a run-time tuner with 15 trials would");
  add_output_flags(app, flags.output);
}

ExitCode rank(const RankFlags& flags, const RankOptions& options) {
  const RecommendOptions how = options_of(flags, options);
  refuse_overwriting(flags.output.path, files_of(flags.input, flags.cluster));
  const Cluster cluster = cluster_of(flags.cluster);
  Input input = input_of(flags.input);
  const Profile profile = profile_on(cluster, std::move(input.profile), flags.cluster);
  const Ranking ranking = recommended(profile, cluster, how);
  write_output(flags.output.path, [&](std::ostream& out) {
    report_of(flags.output).ranking(out, {profile, cluster, input.check, ranking, options.advice});
  });
  return ranking.exact.empty() && ranking.others.empty() ? answer_is_no : answered;
}

}  // namespace stepcast::cli
