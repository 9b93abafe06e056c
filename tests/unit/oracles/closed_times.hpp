#pragma once
// Closed forms: iteration times that the literature writes down, next to which the scheduler is tested.
//
// Valid for one serial channel, no contention, and a compute stream that never waits for its host (t_F, t_G and the
// rest are elapsed times of the profile). r_l is the time at which gradient l is ready, M the sum of the gradients, U
// everything after the backward pass (update, other, input). Formulas: Shi, Chu, Li 2019 (WFBP, MG-WFBP), Zhang et al.
// 2023 (DeAR). The library predicts with the scheduler.
#include <stepcast/cluster/collective.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/strategies/shared/grouping.hpp>

#include <span>

namespace stepcast::test {

/// One message of a serial channel: ready at, lasts.
struct Message {
  Seconds ready, duration;
};
/// end_x = max(ready_x, end_{x-1}) + duration_x; returns the last end (0 without messages).
[[nodiscard]] Seconds pipelined_end(std::span<const Message> messages);

/// max(t_F + t_G, end of the pipeline of the groups, each ready with its last gradient) + U.
[[nodiscard]] Seconds wfbp_time(const Profile&, const Grouping&, const CostLine& all_reduce);
/// t_F + t_G + sum of T(m) over the groups + U.
[[nodiscard]] Seconds no_overlap_time(const Profile&, const Grouping&, const CostLine& all_reduce);
/// max(t_F + t_G + U, T(M)): the gradient of one iteration ago, reduced under a whole iteration (LB-SGD).
[[nodiscard]] Seconds stale_time(const Profile&, const CostLine& all_reduce);
/// max(t_F + t_U, T_AG(M)) + max(t_G, T_RS(M)) with t_U the update alone: no DeAR schedule is faster when an operation
/// on M is no slower than the same operation on its parts.
[[nodiscard]] Seconds dear_bound(const Profile&, const CostLine& reduce_scatter, const CostLine& all_gather);

}  // namespace stepcast::test
