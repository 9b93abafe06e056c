#pragma once
// Stragglers: what slow, late and irregular workers do to a synchronous step.
//
// A collective starts when its last participant is ready, and all leave it together. So workers that are alike act as
// one, and a worker that is worst in everything sets the pace alone: its own task graph, with collectives on its own
// links, is that of the whole job (every start is a maximum of sums, and its sums are the largest). Of several kinds of
// slow workers the one is predicted that has the faults of all: an upper bound, exact when one kind is worst in
// everything (`one_is_slowest`). Jitter: in each step every worker draws a compute factor, and the step is that of the
// largest one, whose distribution is a product of the workers' own. The step time as a function of that factor is
// monotone, and convex where every start is a maximum of sums; it is sampled at quantiles and integrated.
//
// Asymptotically the extra time of P alike workers is sigma sqrt(2 ln P) for a normal and mean * H_P for an exponential
// distribution (H_P = 1 + 1/2 + ... + 1/P). Not modelled: jitter that lasts for several steps or hits single layers;
// gains from a worker that is late in one step and early in the next, which plans without a barrier have.
#include <stepcast/base/units.hpp>
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/profile/profile.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace stepcast {

/// The same training step where all compute takes `factor` times as long and each step starts `delay` later, on the
/// host and on the device: no run-ahead of the host makes up for it.
[[nodiscard]] Profile slowed(Profile, double factor, Seconds delay = {});

/// Compute factor and delay of the worker that all others wait for, before jitter: 1 and 0 without slow workers.
struct Slowness {
  double factor = 1;
  Seconds delay;
};
[[nodiscard]] Slowness slowest(const Stragglers&);
/// True when one kind of slow workers (or none) is worst in everything.
[[nodiscard]] bool one_is_slowest(const Stragglers&);
/// "1 slow worker (compute 1.3 x, link 0.5 x), normal jitter 5 %"; empty without stragglers.
[[nodiscard]] std::string text_of(const Stragglers&);

/// The largest compute factor among all workers in one step: a random variable where there is jitter.
class LargestFactor {
 public:
  LargestFactor(const Stragglers&, std::int64_t workers);
  /// Probability that no worker's factor exceeds `factor`.
  [[nodiscard]] double probability_up_to(double factor) const;
  /// Smallest factor that is not exceeded with probability `p`, 0 < p < 1.
  [[nodiscard]] double quantile(double p) const;

 private:
  struct Alike {
    double workers, factor;
  };
  std::vector<Alike> kinds_;
  Jitter jitter_;
};

/// Step times over many steps.
struct StepDistribution {
  Seconds mean, deviation;
  Seconds p10, p90;
  double typical_factor = 1;            ///< the compute factor whose step takes the mean
  std::vector<Seconds> equally_likely;  ///< steps at evenly spaced probabilities, in increasing order
};
/// `step_at(factor)`: the step time at a compute factor, not decreasing; asked about twenty times.
[[nodiscard]] StepDistribution step_distribution(const LargestFactor&, const std::function<Seconds(double)>& step_at);

/// The profile of the worker that the others wait for, at the mean of the largest factor of each step; the same one
/// without stragglers.
[[nodiscard]] Profile slowest_worker(Profile, const Cluster&);

}  // namespace stepcast
