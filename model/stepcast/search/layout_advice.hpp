#pragma once
// Layout advice: the search over layouts and what has to be known beside its result.
//
// The best layouts are searched with one gradient strategy; for the first few of them the strategy of the
// data-parallel dimension and its options are then tuned over everything that is exact, and the order is made anew.
// Beside them stands what data parallelism alone (with ZeRO and recomputation) would reach, what would be best
// without recomputation where the winner has some, which options of the model would make it faster, and
// whether the winner stays best on half and on twice the network. The search's time budget bounds all of this
// together: seven tenths of it go to the first search, and what is not reached in the rest is left as it was
// searched. Where the shortest step is asked for, the layouts that the model cannot tell from the fastest are
// searched once more for the one to run (preference.hpp): these `equals` stand first, the rest behind them by step.
// Invariant: tuning never makes a layout slower; a strategy is only changed for more than half a per cent. Not
// modelled: gradient strategies in the proof of the search (where the exposed time of the winner is below half a per
// cent, no strategy could change its place); offloading where something fits without it.
#include <stepcast/prediction/tuning.hpp>
#include <stepcast/search/batches.hpp>
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
  bool other_kernels = true;  ///< other programs' are told, too: not where a step corrected those that were asked about
};

/// The winner on a network that is `factor` times as fast.
struct BandwidthCheck {
  double factor = 1;
  Seconds own, best;
  std::string better;
  bool whole_space = true;
};

/// What would be faster than the winner: told beside it, never in its place. A word of the model's description: where
/// the winner computes layers again for want of memory, the whole space is searched with it, else the winner alone is
/// timed. Or another framework, by its own kernels: all that it runs is searched.
struct ModelOption {
  std::string option;       ///< "loss=compiled"; empty: a framework
  std::string_view what;    ///< what frameworks call it
  double shorter = 0;       ///< share of the step that it wins, of the winner's layout or of the fastest without it
  LayoutPrediction best;    ///< the winner's layout with it, or the best one
  std::string framework{};  ///< "torchtitan"; empty: a word
};

/// What would have to be said for a layout to fit, where none does.
struct FittingOption {
  std::string option;       ///< "gradients=bf16", of a model's description; empty: none
  std::string_view what;    ///< what frameworks call it
  double memory_share = 0;  ///< of a device's memory that is planned with; 0: as it was
  LayoutPrediction best;
};

/// The fields are listed at the end.
struct LayoutAdvice {
  LayoutSearchResult search;
  std::vector<LayoutPrediction> best;
  std::size_t equals = 0;
  double resolution = 0;
  std::optional<LayoutPrediction> fastest, unrunnable, untuned, data_parallel, sent_once, beside_products, moved_stages,
      without_recomputation, of_these_degrees_without_recomputation;
  std::string no_data_parallel;
  std::optional<BatchChoice> other_batch;
  std::vector<ModelOption> faster_options;
  std::vector<FittingOption> fitting_options;
  std::optional<LayoutPrediction> with_offload;
  std::vector<BandwidthCheck> networks;
};

/// Inapplicable when the space is empty; `best` is empty when nothing fits (search.nothing says why).
[[nodiscard]] Answer<LayoutAdvice> layout_advice(const Workload&, const Cluster&, const LayoutSpace&,
                                                 const LayoutAdviceOptions&);

/// Of one step, in the currency of the price.
[[nodiscard]] double cost_of(const LayoutPrediction&, double price_per_device_hour);
/// "shortest step", ...
[[nodiscard]] std::string_view words_of(Objective);

}  // namespace stepcast

namespace stepcast {

template <>
inline constexpr auto result_fields<BandwidthCheck> =
    std::tuple{ResultField{"bandwidth_factor", &BandwidthCheck::factor, "the network is so many times as fast"},
               ResultField{"iteration_s", &BandwidthCheck::own, "the winner's step there"},
               ResultField{"best_iteration_s", &BandwidthCheck::best,
                           "that of the best layout there that is faster by more than the answer resolves; if none, of "
                           "the best that are listed"},
               ResultField{"better", &BandwidthCheck::better,
                           "the layout that is faster there by more than the answer resolves; empty: the winner holds",
                           ShownAs::known},
               ResultField{"whole_space", &BandwidthCheck::whole_space,
                           "searched again; else only the best layouts were compared"}};

template <>
inline constexpr auto result_fields<BatchChoice> =
    std::tuple{ResultField{"global_batch_samples", &BatchChoice::global_batch, "a step on all devices"},
               ResultField{"best", &BatchChoice::best, "its fastest layout"}};

template <>
inline constexpr auto result_fields<ModelOption> = std::tuple{
    ResultField{"option", &ModelOption::option, "of the model's description, which says otherwise; empty: none"},
    ResultField{"framework", &ModelOption::framework, "by whose kernels it is, where no word is", ShownAs::known},
    ResultField{"what", &ModelOption::what, "what frameworks call it"},
    ResultField{"shorter", &ModelOption::shorter,
                "share of the step that it wins, of the winner's layout or of the fastest without it"},
    ResultField{"best", &ModelOption::best, "the winner's layout with it, or the best one"}};

template <>
inline constexpr auto result_fields<FittingOption> =
    std::tuple{ResultField{"option", &FittingOption::option, "of the model's description; empty: none is needed"},
               ResultField{"what", &FittingOption::what, "what frameworks call it", ShownAs::known},
               ResultField{"memory_share", &FittingOption::memory_share,
                           "of a device's memory that would have to be planned with; 0: no more than was"},
               ResultField{"best", &FittingOption::best, "the best layout with it"}};

template <>
inline constexpr auto result_fields<LayoutAdvice> = std::tuple{
    ResultField{"search", &LayoutAdvice::search, "of layouts with one gradient strategy"},
    ResultField{"networks", &LayoutAdvice::networks, "does the winner hold on others"},
    ResultField{"frontier", [](const LayoutAdvice& a) { return a.search.frontier; }, "of step time and memory",
                ShownAs::json_only},
    ResultField{"best", &LayoutAdvice::best,
                "with tuned gradients, equals first, then by step; at most as many as asked for"},
    ResultField{"equals", &LayoutAdvice::equals,
                "so many of `best`, from the first on, are not to be told from the fastest"},
    ResultField{"resolution", &LayoutAdvice::resolution, "the share of a step within which they are not"},
    ResultField{"fastest", &LayoutAdvice::fastest, "if that is not the one to run"},
    ResultField{"unrunnable", &LayoutAdvice::unrunnable,
                "the best of all layouts, if no framework runs it; the others are run by one"},
    ResultField{"before_tuning", &LayoutAdvice::untuned, "the winner, if tuning changed it"},
    ResultField{"data_parallel", &LayoutAdvice::data_parallel, "the best one without any other dimension"},
    ResultField{
        "sent_once", &LayoutAdvice::sent_once,
        "the winner with tokens sent once to each machine (ep_comm=deepep), if that was not in the space and is "
        "faster by half a per cent and more"},
    ResultField{"beside_products", &LayoutAdvice::beside_products,
                "the winner with tensor-parallel messages beside products (overlap_tp=products), if that was not in "
                "the space and is faster by half a per cent and more"},
    ResultField{"moved_stages", &LayoutAdvice::moved_stages,
                "the winner with other units in its stages than equal numbers or a division by time has, if the answer "
                "resolves what that saves"},
    ResultField{"without_recomputation", &LayoutAdvice::without_recomputation,
                "where the winner computes layers again, though that was not asked for: the best that does not, if one "
                "fits"},
    ResultField{"of_these_degrees_without_recomputation", &LayoutAdvice::of_these_degrees_without_recomputation,
                "the best of the winner's degrees that does not, if one fits and that is another one"},
    ResultField{"no_data_parallel", &LayoutAdvice::no_data_parallel, "why there is none", ShownAs::known},
    ResultField{"other_batch", &LayoutAdvice::other_batch,
                "within a fifth of the one asked for, if it trains more samples a second than the answer resolves"},
    ResultField{"faster_options", &LayoutAdvice::faster_options,
                "words of the model's description, and frameworks, by which the step would be shorter"},
    ResultField{"fitting_options", &LayoutAdvice::fitting_options,
                "where nothing fits: what would have to be said for something to fit, the least first"},
    ResultField{"with_offload", &LayoutAdvice::with_offload,
                "where nothing fits: the best layout with the least in the host's memory that makes one fit"}};

}  // namespace stepcast
