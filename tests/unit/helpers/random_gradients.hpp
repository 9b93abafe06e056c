#pragma once
// Random gradients on random rings, and every way to group them: for the identities of single strategies.
#include "helpers/plan_cases.hpp"
#include "helpers/random_input.hpp"

#include <stepcast/schedule/schedule.hpp>
#include <stepcast/strategies/shared/grouping.hpp>
#include <stepcast/strategies/shared/plan_writing.hpp>

#include <cmath>

namespace stepcast::test {

inline constexpr double tolerance = 1e-9;  // rounding to picoseconds

inline Seconds scheduled(const Profile& profile, const Grouping& groups, const CommunicationCost& cost) {
  return schedule(lowered(profile, all_reduced(profile, groups), cost, {})).iteration_time();
}
inline CostLine all_reduce_line(const Cluster& c) { return communication_cost(c)->line(Operation::all_reduce); }
inline double ratio(Seconds a, Seconds b) { return a / b; }

/// All 2^(n-1) ways to cut n tensors into runs.
template <class Use>
void for_each_grouping(const Profile& profile, const Use& use) {
  const auto n = static_cast<std::uint32_t>(profile.tensors.size());
  for (std::uint32_t cuts = 0; cuts < (1u << (n - 1)); ++cuts) {
    Grouping groups;
    for (std::uint32_t t = 0; t < n; ++t) {
      if (t == 0 || (cuts >> (t - 1) & 1u)) groups.push_back({t, 0, Bytes(0)});
      ++groups.back().count;
      groups.back().size += profile.tensors[t].size;
    }
    use(groups);
  }
}

inline Profile random_gradients(Draw& draw, int most) {
  std::vector<Produced> gradients(static_cast<std::size_t>(draw.whole(1, most)));
  for (Produced& g : gradients) g = {microseconds(draw.whole(0, 3000)), Bytes(std::round(draw.log_uniform(100, 1e7)))};
  return profile_of_gradients(gradients, microseconds(draw.whole(0, 20000)), microseconds(draw.whole(0, 2000)));
}
inline Cluster random_ring(Draw& draw) {
  return plain_cluster(draw.whole(2, 64), BytesPerSecond(draw.log_uniform(1e8, 1e11)), microseconds(draw.whole(0, 50)));
}

}  // namespace stepcast::test
