#pragma once
// Tuner: Bayesian optimisation of one option, as DeAR and ByteScheduler do at run time (Snoek, Larochelle, Adams 2012).
//
// A Gaussian process (Matern 5/2) over the value or its logarithm is fitted to the step times seen so far; the next
// value is the one with the largest expected improvement, until the budget is spent. It needs few evaluations where
// each is dear (a real training run) and copes with step times that jump where a tensor changes buckets. Deterministic:
// the first points are a fixed spread, ties go to the smaller value. The result is never worse than the start. Not
// modelled: noisy measurements; several options at once.
#include <stepcast/plan/strategy.hpp>

#include <cstdint>
#include <functional>
#include <vector>

namespace stepcast {

struct TunerOptions {
  std::uint32_t evaluations = 15;  ///< budget, the start included (ByteScheduler: 15 points)
  std::uint32_t spread = 4;        ///< evaluations at fixed places before the first fit
  bool linear = false;             ///< values lie evenly, not their logarithms
  double exploration = 0.1;        ///< xi: the improvement that is looked for, in standard deviations of the times seen
};

struct Trial {
  double value = 0;  ///< SI
  Seconds time;      ///< infinite where the value is inapplicable
};
struct Tuned {
  Trial best;
  std::vector<Trial> trials;  ///< in the order in which they were made
};

/// Searches [low, high], 0 < low <= high. `start` is tried first, wherever it lies.
[[nodiscard]] Tuned bayesian_minimum(const std::function<Seconds(double)>& time_of, double start, double low,
                                     double high, const TunerOptions& options = {});

/// The best value found for an option within its search range, whole numbers where the option counts bytes or things.
[[nodiscard]] Tuned tuned_option(const OptionSpec& option, double start, const std::function<Seconds(double)>& time_of,
                                 const TunerOptions& options = {});

}  // namespace stepcast
