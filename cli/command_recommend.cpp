// stepcast recommend: every exact plan that the cluster can run, or every way to divide the model, tuned and ranked,
// with what to paste.
#include "command.hpp"
#include "rank.hpp"

namespace stepcast::cli {
namespace {

Action add_recommend_flags(CLI::App& app) {
  auto flags = std::make_shared<RankFlags>();
  auto all = std::make_shared<bool>(false);
  add_rank_flags(app, *flags);
  app.add_flag("--all", *all, "One list by step time, with plans that need other software than PyTorch, or servers");
  app.add_option("--plot", flags->plot, "Draw a step of the job and one of the best plan: a file for an SVG");
  add_global_batch_flag(app, flags->layout);
  add_measured_flag(app, flags->layout);
  add_layout_search_flags(app, flags->layout);
  add_placement_flags(app, flags->layout);
  return [flags, all] { return rank(*flags, {.advice = true, .tune = true, .by_step = *all}); };
}

}  // namespace

const Verb recommend_verb = {"recommend",
                             "Rank the plans that a cluster can run, with gain, reasons and settings to paste",
                             "stepcast recommend trace.json.gz --workers 16 --per-node 4 --network 10GbE\n"
                             "  stepcast recommend --model gpt:hidden=4096,layers=32,heads=32,seq=2048 "
                             "--device a100-sxm4-80gb \\\n"
                             "      --global-batch 512 --workers 64 --per-node 8 --network '800 Gb/s' --frontier",
                             add_recommend_flags};

}  // namespace stepcast::cli
