// Optimal merge: the contiguous grouping that ends the all-reduce pipeline first, by dynamic programming.
//
//   compute |  F1 F2 F3 F4  B4 B3 B2 B1        | U | F1 ...
//   net     |                  [4][ 3+2+1     ]|
//
// With groups in production order, end(j) = min over i < j of max(ready_j, end(i)) + T(p_{i+1} + ... + p_j) is the
// earliest moment at which tensors 1 .. j can have been sent. A group's end grows with the end before it, so an optimal
// plan has optimal prefixes and n (n + 1) / 2 steps find the best of the 2^(n-1) groupings. T is any cost, measured
// tables included. It is the floor for ddp, horovod, mg_wfbp and every other contiguous fusion behind a barrier, and
// says how much a greedy rule leaves on the table. Ties go to fewer, larger groups.
//
// It minimises the recurrence, not the contended schedule: where compute and communication disturb one another the
// optimum may shift. Not modelled: groupings that are not contiguous in gradient-ready order.
#include <stepcast/strategies/shared/plan_writing.hpp>

#include <algorithm>
#include <limits>

namespace stepcast::strategy::optimal_merge {
namespace {

Grouping optimal(const StrategyInput& in) {
  const Profile& profile = in.profile;
  const auto ready = ready_times(in);
  const std::size_t n = profile.tensors.size();
  std::pmr::vector<double> end(n + 1, 0, in.memory), prefix(n + 1, 0, in.memory);
  std::pmr::vector<std::uint32_t> from(n + 1, 0, in.memory);
  for (std::size_t j = 1; j <= n; ++j) {
    prefix[j] = prefix[j - 1] + profile.tensors[j - 1].size.value();
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < j; ++i) {
      const double at =
          std::max(ready[j - 1].value(), end[i]) + in.cost(Operation::all_reduce, Bytes(prefix[j] - prefix[i])).value();
      if (at < best) best = at, from[j] = static_cast<std::uint32_t>(i);
    }
    end[j] = best;
  }
  Grouping groups(in.memory);
  for (auto j = static_cast<std::uint32_t>(n); j > 0; j = from[j])
    groups.push_back({from[j], j - from[j], Bytes(prefix[j] - prefix[from[j]])});
  std::reverse(groups.begin(), groups.end());
  return groups;
}

Answer<CommPlan> plan(const StrategyInput& in) {
  constexpr std::size_t most_tensors = 4096;
  if (in.profile.tensors.size() > most_tensors)
    return Inapplicable{"the optimal grouping is searched for up to " + std::to_string(most_tensors) + " tensors"};
  return all_reduced(in, optimal(in));
}

std::string settings(const OptionValues&) { return "one all_reduce per group of the plan (see the timeline)"; }

}  // namespace

extern constinit const Strategy record{
    .name = "optimal_merge",
    .title = "Optimal merge",
    .summary = "the best contiguous grouping for all-reduce under the backward pass",
    .reference = "dynamic programme over the recurrence of Shi, Chu, Li, INFOCOM 2019",
    .fidelity = Fidelity::exact,
    .needs = "a hook per tensor that merges as planned",
    .options = {},
    .phases = 1,
    .plan = plan,
    .settings = settings,
};

}  // namespace stepcast::strategy::optimal_merge
