#pragma once
// Model: one profile on one cluster, prepared once and asked for thousands of plans: the hot loop of autotuners.
//
// What no plan changes is computed when the model is made (costs of the collectives, the slowest worker, sums over
// layers); what few plans change is kept in a `Scratch` (groupings of tensors, task graphs, timelines): a plan that
// differs from the last one in one bucket size, or a cluster that differs in one bandwidth, does not start anew. A
// Model is immutable, cheap to copy, and may be shared by threads; each thread has its own Scratch, whose buffers grow
// to the largest plan and are then reused, so that the loop allocates nothing. Invariants: the same plan gives the same
// bytes whatever was asked before, on any number of threads; `iteration` equals `prediction(...).iteration` to the last
// bit, unless workers jitter: then it takes the mean of the slowest one's compute, `prediction` the mean step. Not
// modelled in the hot loop: uncertainty and breakdown (ask `prediction`), layouts (ask a PreparedQuestion). Options
// left open (`auto`) are not tuned here. Modifiers still allocate.
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/prediction/recommend.hpp>

#include <cstddef>
#include <memory>
#include <span>

namespace [[gnu::visibility("default")]] stepcast {

class Model {
 public:
  /// Throws InputError when profile or cluster violate their invariants.
  Model(Profile, Cluster);

  [[nodiscard]] const Profile& profile() const;
  [[nodiscard]] const Cluster& cluster() const;

  /// The buffers of one thread. May be used with any model, one call at a time.
  class Scratch {
   public:
    Scratch();
    Scratch(Scratch&&) noexcept;
    Scratch& operator=(Scratch&&) noexcept;
    ~Scratch();

   private:
    friend class Model;
    struct State;
    std::unique_ptr<State> state_;
  };

  /// Steady-state step time of a plan whose options are all numbers; Inapplicable with the reason.
  [[nodiscard]] Answer<Seconds> iteration(const PlanSpec&, Scratch&) const;
  /// Seconds of each plan, NaN where it is inapplicable. Requires seconds.size() == plans.size(). `threads`: 0 for as
  /// many as the machine has cores.
  void iterations(std::span<const PlanSpec> plans, std::span<double> seconds, unsigned threads = 1) const;
  /// Seconds of one plan with its option number `option` (an index into its strategy's options) set to each of `values`
  /// (SI), NaN where that is inapplicable or out of the option's range. Requires seconds.size() == values.size().
  /// Throws InputError for an option that the strategy does not have.
  void iterations(const PlanSpec& plan, std::size_t option, std::span<const double> values, std::span<double> seconds,
                  unsigned threads = 1) const;

  /// The whole answer.
  [[nodiscard]] Answer<Prediction> prediction(const PlanSpec&) const;
  [[nodiscard]] Ranking recommendation(const RecommendOptions& = {}) const;

  /// The same profile on another cluster, sharing all that does not depend on it. Throws InputError.
  [[nodiscard]] Model on(Cluster) const;

 private:
  struct Prepared;
  explicit Model(std::shared_ptr<const Prepared>);
  std::shared_ptr<const Prepared> prepared_;
};

}  // namespace stepcast
