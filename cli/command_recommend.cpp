// stepcast recommend: every exact plan that the cluster can run, tuned and ranked, with what to paste.
#include "command.hpp"
#include "rank.hpp"

namespace stepcast::cli {
namespace {

Action add_flags(CLI::App& app) {
  auto flags = std::make_shared<RankFlags>();
  add_rank_flags(app, *flags);
  return [flags] { return rank(*flags, {.advice = true, .tune = true}); };
}

}  // namespace

const Verb recommend_verb = {"recommend",
                             "Rank the plans that a cluster can run, with gain, reasons and settings to paste",
                             "stepcast recommend trace.json.gz --workers 16 --per-node 4 --network 10GbE", add_flags};

}  // namespace stepcast::cli
