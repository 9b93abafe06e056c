#pragma once
// Tuning: the best values of a plan's options on one cluster.
//
// Searched are the options that are marked `tuned`, or, if the plan leaves some open (`auto`), those. Several options
// are searched one after the other, twice, and again from the best point of a coarse grid of both, where that is
// better. The result is never worse than the default. Not modelled: options of modifiers.
#include <stepcast/plan/strategy.hpp>

#include <cstdint>
#include <functional>
#include <optional>

namespace [[gnu::visibility("default")]] stepcast {

/// How options are searched.
enum class Search : std::uint8_t {
  grid,      ///< a coarse grid and golden section: the best that the model knows
  bayesian,  ///< a Gaussian process (bayesian.hpp): what the strategy's run-time tuner (Strategy::tuner) would end with
};

/// The spec with its tuned options replaced by the best values found.
[[nodiscard]] PlanSpec tuned(const Profile&, const Cluster&, const PlanSpec&, Search = Search::grid);
/// The same by any measure of a plan; infinite where it does not apply.
[[nodiscard]] PlanSpec tuned(const std::function<Seconds(const PlanSpec&)>& time_of, const PlanSpec&,
                             Search = Search::grid);

/// The same plan with the least and the largest value of one option up to which it stays as good.
struct AsGoodOptions {
  PlanSpec low, high;
};
/// Of the first option that is not at its default: tried are the values around the plan's own, half as large again each
/// time, until one takes longer by more than `tolerance` (a share of the step) than the plan. Nothing where all are at
/// their defaults, or where none of its neighbours is as good.
[[nodiscard]] std::optional<AsGoodOptions> as_good_options(const std::function<Seconds(const PlanSpec&)>& time_of,
                                                           const PlanSpec&, double tolerance);

}  // namespace stepcast
