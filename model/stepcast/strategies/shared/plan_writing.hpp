#pragma once
// Room strategies/shared: how strategies write their plans: groups of gradients, keys, servers, neighbours.
//
// Example: gradients of 10, 20 and 30 MiB in groups of 25 MiB or more are {10, 20} and {30}.
//
// It may include base, profile, cluster and plan.
//
// Plan writing: the pieces that several strategies share when they write a CommPlan.
//
// A strategy that all-reduces groups of gradients behind a barrier differs from its siblings only in the grouping and
// in the channel's discipline; strategies over servers share the pipeline of a partition. Both are written once, here.
#include <stepcast/plan/strategy.hpp>
#include <stepcast/profile/ready_times.hpp>
#include <stepcast/strategies/shared/grouping.hpp>

namespace stepcast {

/// Node of a gradient: the end of the backward pass of its layer.
[[nodiscard]] inline Node gradient(const Profile& profile, std::uint32_t tensor) {
  return {NodeKind::backward, profile.tensors[tensor].layer};
}
[[nodiscard]] inline Node transfer(std::size_t number) {
  return {NodeKind::transfer, static_cast<std::uint32_t>(number)};
}
inline constexpr Node common_update{NodeKind::update, 0};
[[nodiscard]] inline Node forward_of(std::uint32_t layer) { return {NodeKind::forward, layer}; }

/// One all-reduce per group as soon as the group's last gradient is ready, one channel "net" of the given discipline
/// (priority: position of the group), and a barrier: the common update waits for all.
[[nodiscard]] CommPlan all_reduced(const StrategyInput&, const Grouping&, Discipline discipline = Discipline::fifo);
/// The same, written into an empty plan.
[[nodiscard]] CommPlan all_reduced(const Profile&, const Grouping&, Discipline discipline = Discipline::fifo,
                                   CommPlan blank = {});
/// When each gradient is ready (profile.hpp).
[[nodiscard]] inline std::pmr::vector<Seconds> ready_times(const StrategyInput& in) {
  if (!in.ready.empty()) return {in.ready.begin(), in.ready.end(), in.memory};
  return gradient_ready_times(in.profile, in.memory);
}

/// A plan that can be written down at all: the reason why `messages` are too many, or empty.
[[nodiscard]] std::string too_many(double messages);

}  // namespace stepcast
