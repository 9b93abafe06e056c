// stepcast compare: plans side by side, with their default options unless --tune says otherwise.
#include "command.hpp"
#include "rank.hpp"

namespace stepcast::cli {
namespace {

Action add_compare_flags(CLI::App& app) {
  auto flags = std::make_shared<RankFlags>();
  auto tune = std::make_shared<bool>(false);
  auto all = std::make_shared<bool>(false);
  add_rank_flags(app, *flags);
  app.add_flag("--tune", *tune, "Search the best value of each strategy's options");
  app.add_flag("--all", *all, "Lossy, stale and periodic plans too, and every modifier on its usual strategy");
  app.add_option("--plan", flags->plans,
                 "Only this plan and others named so: 'ddp+powersgd(rank=4)', 'layout(tp=8)/ddp'")
      ->take_all()
      ->allow_extra_args(false)
      ->excludes("--all");
  add_global_batch_flag(app, flags->layout);
  add_measured_flag(app, flags->layout);
  add_framework_flag(app, flags->layout);
  return [flags, tune, all] { return rank(*flags, {.advice = false, .tune = *tune, .all = *all, .by_step = true}); };
}

}  // namespace

const Verb compare_verb = {
    "compare", "Predict every strategy side by side",
    "stepcast compare trace.json.gz --workers 8 --network 25GbE\n"
    "  stepcast compare --model gpt:hidden=4096,layers=32,heads=32,seq=2048 --device a100-sxm4-80gb \\\n"
    "      --plan 'layout(zero=3)/ddp' --plan 'layout(tp=8)/ddp' --global-batch 512 --workers 64 \\\n"
    "      --per-node 8 --network '800 Gb/s'",
    add_compare_flags};

}  // namespace stepcast::cli
