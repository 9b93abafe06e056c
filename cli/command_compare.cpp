// stepcast compare: every strategy side by side, with its default options unless --tune says otherwise.
#include "command.hpp"
#include "rank.hpp"

namespace stepcast::cli {
namespace {

Action add_flags(CLI::App& app) {
  auto flags = std::make_shared<RankFlags>();
  auto tune = std::make_shared<bool>(false);
  add_rank_flags(app, *flags);
  app.add_flag("--tune", *tune, "Search the best value of each strategy's options");
  return [flags, tune] { return rank(*flags, {.advice = false, .tune = *tune}); };
}

}  // namespace

const Verb compare_verb = {"compare", "Predict every strategy side by side",
                           "stepcast compare trace.json.gz --workers 8 --network 25GbE", add_flags};

}  // namespace stepcast::cli
