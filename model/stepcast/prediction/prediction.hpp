#pragma once
// Room prediction: one plan on one cluster: its step, what it is made of, how sure that is; the best plan.
//
//   profile, plan, cluster -> step 412 ms = compute 301 + exposed 98 + idle 13; bound: communication bandwidth
//
// It may include base, cluster, plan and schedule.
//
// Prediction: the step time of one plan on one cluster, why it is so, and how sure we are.
//
// The breakdown partitions the steady-state iteration along the compute stream: compute (layers, update, host time that
// the device waits for), codec, input stall (the stream, or the host that it waits for, waits for the batch), exposed
// communication (the stream waits and a transfer runs), bubble (pipeline; 0 without one), idle (the rest: timers).
// Hidden communication, the time in which transfers run under compute, is outside the sum. Exposed is not what a faster
// network would save: where the host sets the pace, the device may wait for transfers at no cost. That is what the
// bound says, the largest part of the cycle that sets the pace. The interval is P10-P90 of the mean step from the
// spread of the measured steps and the residuals of the cluster's fit and of the model; step-to-step jitter is
// `step_spread`. With stragglers all of this is said of the slowest worker, whose compute the others wait for (their
// own breakdown differs by that wait). Not modelled: convergence; optimizer state and communication buffers in
// `memory`.
#include <stepcast/plan/strategy.hpp>
#include <stepcast/schedule/lower.hpp>
#include <stepcast/schedule/schedule.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct Breakdown {
  Seconds compute, exposed_communication, hidden_communication, codec, input_stall, bubble, idle;
};

/// Relative rms error of a predicted step of several workers over the rows of the survey suite (validation/) to which
/// its clusters were fitted; part of every interval. The rows held out of the fit do not enter. A test recomputes it.
inline constexpr double residual_of_model = 0.040;

/// What slow and irregular workers cost (stragglers.hpp).
struct StragglerEffect {
  std::string description;      ///< "1 slow worker (compute 1.3 x)"
  Seconds without;              ///< the step if no worker were slow or irregular
  Seconds step_low, step_high;  ///< P10, P90 from step to step, by jitter alone; equal without jitter
};

struct Prediction {
  PlanSpec plan;
  Seconds iteration;
  Seconds interval_low, interval_high;  ///< P10, P90 of the mean
  Seconds step_spread;                  ///< standard deviation from step to step
  Breakdown breakdown;
  double throughput_samples_per_s = 0;     ///< all workers; 0 when the batch is unknown
  Bytes memory;                            ///< activations, weights and gradients of a worker; 0 when unknown
  std::string bound;                       ///< the bound that binds, in words
  std::vector<std::string> critical_path;  ///< task names, first to last, over one period
  std::vector<std::string> warnings;
  std::size_t messages = 0;                   ///< transfers per iteration
  std::optional<StragglerEffect> stragglers;  ///< nothing where all workers are alike
  bool steady = true;
};

/// Predicts one plan. Inapplicable when the strategy or the collective is.
[[nodiscard]] Answer<Prediction> predicted(const Profile&, const Cluster&, const PlanSpec&);
/// Predicts a plan that the caller made itself, such as that of a strategy under development, on a collective ("" for
/// the cluster's default). `name` stands for it in reports. Inapplicable with its flaw, or as above.
[[nodiscard]] Answer<Prediction> predicted(const Profile&, const Cluster&, const CommPlan&, std::string_view name,
                                           std::string_view collective = {});
/// Only the iteration time of workers that are all like `profile` (stragglers: ask for slowest_worker's): the hot path
/// of tuners. `timeline` is scratch space.
[[nodiscard]] Answer<Seconds> predicted_iteration(const Profile&, const Cluster&, const CommunicationCost&,
                                                  const PlanSpec&, Timeline& timeline);
/// Task graph and timeline of a plan with one task per layer, for reports. Inapplicable as above.
struct DetailedTimeline {
  TaskGraph graph;
  Timeline timeline;
  CommPlan plan;
};
[[nodiscard]] Answer<DetailedTimeline> detailed_timeline(const Profile&, const Cluster&, const PlanSpec&,
                                                         std::uint32_t iterations = 4);
/// Of a plan that the caller made itself.
[[nodiscard]] Answer<DetailedTimeline> detailed_timeline(const Profile&, const Cluster&, const CommPlan&,
                                                         std::string_view collective = {},
                                                         std::uint32_t iterations = 4);

}  // namespace stepcast
