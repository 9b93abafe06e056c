#pragma once
// Hot loop: the iteration time of plan after plan of one profile (internal to the library, which asks nothing else for
// it; programs ask a Model).
//
// The same steps as a prediction (plan, lower, schedule), each in storage that is used again. What the last plan of a
// strategy led to is kept: if the next one has the same structure (another bandwidth, a bucket size that groups alike),
// its graph only gets new durations, and if those are the same, too, the answer is known. Invariant: the answer depends
// on the arguments alone.
#include <stepcast/base/arena.hpp>
#include <stepcast/pace/own_pace.hpp>
#include <stepcast/plan/strategy.hpp>
#include <stepcast/schedule/in_order_period.hpp>
#include <stepcast/schedule/lowering.hpp>
#include <stepcast/schedule/steady_period.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

namespace stepcast {

/// What no plan and no cluster changes.
struct PreparedProfile {
  Profile profile;
  ComputeTimes compute;
  std::vector<Seconds> ready;  ///< gradient_ready_times
  explicit PreparedProfile(Profile p) : profile(std::move(p)), compute(profile), ready(gradient_ready_times(profile)) {}
};

/// The costs on one cluster of the collectives that plans ask for, each made when it is asked for first. Any number of
/// threads may ask.
class Costs {
 public:
  explicit Costs(const Cluster&);
  /// Of "", "table" or an algorithm; nothing for a name that is none of these.
  [[nodiscard]] const Answer<CommunicationCost>* of(std::string_view collective) const;

 private:
  struct Known {
    std::once_flag made;
    std::unique_ptr<const Answer<CommunicationCost>> cost;
  };
  const Cluster& cluster_;
  mutable std::vector<Known> known_;
};

/// One profile on one cluster: what no plan changes.
struct PreparedJob {
  std::shared_ptr<const PreparedProfile> given;
  Cluster cluster;
  std::shared_ptr<const PreparedProfile> slowest;  ///< the worker that the others wait for; where all are alike `given`
  Costs costs;
  PreparedJob(std::shared_ptr<const PreparedProfile>, Cluster);
};

class HotLoop {
 public:
  /// Steady-state iteration of workers that are all like the profile; Inapplicable with the reason. Options are
  /// numbers. `given`: a plan that the spec only names.
  [[nodiscard]] Answer<Seconds> iteration(const std::shared_ptr<const PreparedProfile>&, const Cluster&,
                                          const CommunicationCost&, const PlanSpec&, const CommPlan* given = nullptr);
  /// That of the slowest worker, without jitter; of workers that lead (own_pace.hpp) the job's step.
  [[nodiscard]] Answer<Seconds> iteration(const PreparedJob&, const PlanSpec&);
  /// The pace of workers that lead, among the cluster's stragglers. `together` as in job_pace.
  [[nodiscard]] Answer<JobPace> pace(const Profile&, const Cluster&, const PlanSpec&,
                                     const std::function<Answer<Seconds>()>& together);

 private:
  /// What the last plan of a strategy at one timer phase led to.
  struct Kept {
    const Strategy* strategy = nullptr;
    const Modifier* modifier = nullptr;  ///< its first one
    std::uint32_t phase = 0;
    std::shared_ptr<const PreparedProfile> profile;  ///< nothing: `graph` is of no use
    double contention = 1;
    Transport transport;
    CommPlan plan;
    OptionValues options{};      ///< of which `plan` was made
    std::int64_t workers = 0;    ///< and for how many
    bool is_of_options = false;  ///< `plan` follows from these and the profile alone
    TaskGraph graph;
    InOrderPeriod in_order;    ///< of `graph`
    bool is_in_order = false;  ///< that answers
    std::uint32_t misses = 0;  ///< how often in a row it did not
    std::uint32_t structures = 0;
    Seconds period;
    /// Is it worth while to look for an order in a graph of new structure?
    [[nodiscard]] bool may_be_in_order();
  };
  Kept& kept_for(const PlanSpec&, std::uint32_t phase);
  [[nodiscard]] Picoseconds period_of(Kept&);
  void update(Kept&, const std::shared_ptr<const PreparedProfile>&, const Cluster&, const CommunicationCost&,
              CommPlan* other_plan);

  Arena arena_;
  CommPlan spare_;
  Lowering lowering_;
  SteadyPeriod steady_period_;
  Timeline timeline_;
  std::deque<Kept> kept_;
};

}  // namespace stepcast
