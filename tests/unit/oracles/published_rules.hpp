#pragma once
// Published rules: what a worker does in each step under a strategy and its modifiers, written down once more from the
// papers and their code, as a Job of event_simulation.hpp. Oracle for strategies, modifiers, lowering and schedulers.
//
//   long_run_step(job_by_rules({profile, cluster, plan_spec_of("dear+fp16"), 0.5}))
//
// It takes profile, cluster and the values of options from the library, and no rule, cost or plan. Not covered: more
// than one compressor; compressors of plans that keep keys on servers (dist_sync and what delays or quantises it);
// modifiers of plans whose workers have models of their own.
#include "oracles/event_simulation.hpp"

#include <stepcast/plan/strategy.hpp>

#include <optional>

namespace stepcast::test {

struct AskedRules {
  const Profile& profile;
  const Cluster& cluster;
  const PlanSpec& spec;
  double phase = 0.5;  ///< of a free-running timer, within its period
};

/// Nothing where the rules are not written down here (see above) or the collective does not define an operation.
[[nodiscard]] std::optional<Job> job_by_rules(const AskedRules&);

/// What a plan that the library wrote says, message by message: oracle of its lowering, its costs and its schedulers.
/// The strategy and the modifiers of `asked` are not looked at, but its collective is.
[[nodiscard]] Job job_of_plan(const AskedRules&, const CommPlan&);

}  // namespace stepcast::test
