#pragma once
// Ranking: what `recommend` and `compare` share.
#include "command.hpp"
#include "input.hpp"
#include "layout_options.hpp"

#include <stepcast/prediction/recommend.hpp>

#include <memory>
#include <string>
#include <vector>

namespace stepcast::cli {

struct RankFlags {
  InputFlags input;
  ClusterFlags cluster;
  OutputFlags output;
  LayoutFlags layout;
  std::string allow;
  std::string search;
  std::string plot;  ///< a file for the picture of the steps; empty: none
  std::vector<std::string> plans;
};
void add_rank_flags(CLI::App&, RankFlags&);

struct RankOptions {
  bool advice = true;  ///< say what to run and how far the answer holds
  bool tune = true;
  bool all = false;      ///< plans of every fidelity
  bool by_step = false;  ///< whatever they need besides PyTorch and workers
};
/// What --allow, --search and the plans ask for. Throws InputError.
[[nodiscard]] RecommendOptions recommend_options_of(const RankFlags&, const RankOptions&);
[[nodiscard]] ExitCode rank(const RankFlags&, const RankOptions&);

}  // namespace stepcast::cli
