#pragma once
// Hot loop: the iteration time of plan after plan of one profile (internal to the library).
//
// The same steps as a prediction (plan, lower, schedule), each in storage that is used again. What the last plan of a
// strategy led to is kept: if the next one has the same structure (another bandwidth, a bucket size that groups alike),
// its graph only gets new durations, and if those are the same, too, the answer is known. Invariant: the answer depends
// on the arguments alone.
#include <stepcast/base/arena.hpp>
#include <stepcast/plan/strategy.hpp>
#include <stepcast/schedule/lowering.hpp>
#include <stepcast/schedule/steady_period.hpp>

#include <deque>
#include <memory>
#include <vector>

namespace stepcast {

/// What no plan and no cluster changes.
struct PreparedProfile {
  Profile profile;
  ComputeTimes compute;
  explicit PreparedProfile(Profile p) : profile(std::move(p)), compute(profile) {}
};

class HotLoop {
 public:
  /// Steady-state iteration of workers that are all like the profile; Inapplicable with the reason. Options are
  /// numbers.
  [[nodiscard]] Answer<Seconds> iteration(const std::shared_ptr<const PreparedProfile>&, const Cluster&,
                                          const CommunicationCost&, const PlanSpec&);

 private:
  /// What the last plan of a strategy at one timer phase led to.
  struct Kept {
    const Strategy* strategy = nullptr;
    const Modifier* modifier = nullptr;  ///< its first one
    std::uint32_t phase = 0;
    std::shared_ptr<const PreparedProfile> profile;  ///< nothing: `graph` is of no use
    double contention = 1;
    CommPlan plan;
    TaskGraph graph;
    Seconds period;
  };
  Kept& kept_for(const PlanSpec&, std::uint32_t phase);
  void update(Kept&, const std::shared_ptr<const PreparedProfile>&, const Cluster&, const CommunicationCost&,
              CommPlan&& plan);

  Arena arena_;
  CommPlan spare_;
  Lowering lowering_;
  SteadyPeriod steady_period_;
  Timeline timeline_;
  std::deque<Kept> kept_;
};

}  // namespace stepcast
