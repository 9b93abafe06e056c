#pragma once
// Layout advice: the search over layouts and what has to be known beside its result.
//
// The best layouts are searched with one gradient strategy; for the first few of them the strategy of the data-parallel
// dimension and its options are then tuned over everything that is exact, and the order is made anew. Beside them
// stands what data parallelism alone (with ZeRO and recomputation) would reach, whether the winner stays best on half
// and on twice the network, and the settings of the frameworks. The search's time budget bounds all of this together:
// seven tenths of it go to the first search, and what is not reached in the rest is left as it was searched. Invariant:
// tuning never makes a layout slower; a strategy is only changed for more than half a per cent. Not modelled: gradient
// strategies in the proof of the search (where the exposed time of the winner is below half a per cent, no strategy
// could change its place).
#include <stepcast/launch/launch_settings.hpp>
#include <stepcast/prediction/tuning.hpp>
#include <stepcast/search/layout_search.hpp>

#include <optional>
#include <string>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct LayoutAdviceOptions {
  LayoutSearchOptions search{};
  std::uint32_t tuned_layouts = 3;  ///< how many of the best layouts get tuned gradients; 0: none
  Search tuning = Search::bayesian;
  bool sensitivity = true;
};

/// The winner on a network that is `factor` times as fast.
struct BandwidthCheck {
  double factor = 1;
  Seconds own;              ///< the winner's step there
  Seconds best;             ///< the step of the best layout there
  std::string better;       ///< the layout that is more than half a per cent faster there; empty: the winner holds
  bool whole_space = true;  ///< searched again; else only the best layouts were compared
};

struct LayoutAdvice {
  LayoutSearchResult search;
  std::vector<LayoutPrediction> best;  ///< the layouts with tuned gradients, best first; as many as the search returned
  std::optional<LayoutPrediction> untuned;        ///< the winner before tuning, if that changed it
  std::optional<LayoutPrediction> data_parallel;  ///< the best one without any other dimension
  std::string no_data_parallel;                   ///< why there is none
  std::vector<BandwidthCheck> networks;
  std::vector<LaunchSettings> settings;  ///< the settings of the winner
};

/// Inapplicable when the space is empty; `best` is empty when nothing fits (search.nothing says why).
[[nodiscard]] Answer<LayoutAdvice> layout_advice(const Workload&, const Cluster&, const LayoutSpace&,
                                                 const LayoutAdviceOptions&);

/// Of one step, in the currency of the price.
[[nodiscard]] double cost_of(const LayoutPrediction&, double price_per_device_hour);
/// "shortest step", ...
[[nodiscard]] std::string_view words_of(Objective);

}  // namespace stepcast
