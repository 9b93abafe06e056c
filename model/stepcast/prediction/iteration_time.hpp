#pragma once
// Iteration time: that of many plans of one profile on one cluster, as a function of the plan (internal to the
// library).
//
// With stragglers that of the slowest worker, without jitter. Not thread-safe: it keeps the costs of the collectives
// that were asked for, and the hot loop's buffers.
#include <stepcast/cluster/stragglers.hpp>
#include <stepcast/prediction/hot_loop.hpp>
#include <stepcast/prediction/prediction.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepcast {

class IterationTime {
 public:
  IterationTime(const Profile& profile, const Cluster& cluster)
      : profile_(std::make_shared<const PreparedProfile>(slowest_worker(profile, cluster))), cluster_(cluster) {}
  /// In seconds; infinite where the plan does not apply.
  double operator()(const PlanSpec& spec) {
    const Answer<CommunicationCost>& cost = cost_of(collective_of(spec));
    if (!cost) return HUGE_VAL;
    const Answer<Seconds> time = loop_.iteration(profile_, cluster_, *cost, spec);
    return time ? time->value() : HUGE_VAL;
  }

 private:
  const Answer<CommunicationCost>& cost_of(std::string_view collective) {
    const auto found = std::find_if(costs_.begin(), costs_.end(), [&](const auto& c) { return c.first == collective; });
    if (found != costs_.end()) return found->second;
    return costs_.emplace_back(collective, communication_cost(cluster_, collective)).second;
  }

  const std::shared_ptr<const PreparedProfile> profile_;
  const Cluster& cluster_;
  std::vector<std::pair<std::string, Answer<CommunicationCost>>> costs_;  // of the few collectives that plans name
  HotLoop loop_;
};

}  // namespace stepcast
