// SSP: stale synchronous parallel; a worker may be s steps ahead of the slowest one, and computes with weights that
// miss the others' last s updates at most.
//
//   compute |  F B   F B   F B   F B   ...                    s = 1: nobody waits for the exchange
//   up      |     [push] [push] [push]                        of the step before, but for the one before that
//   dn      |        [pull] [pull] [pull]
//
//   pull_i(l) -> F_{i+1+s}(l): before step i+1+s a worker has to have read every worker's update of step i
//   s = 0 is dist_sync, but for the update, which is the servers'; T never grows with s, down to max(t_C, the busiest
//   direction of a card), which three steps reach (keyed_plan.hpp); asgd bounds it from below
//
// Until the pull is there the worker reads its cache (Ho et al. 2013, section 3). Workers that are slow in every step
// hold up all others once these are s steps ahead, so that a job takes the slowest one's step however large s is. What
// s helps against is jitter: a worker that was slow catches up within s steps (pace/own_pace.hpp). Not modelled:
// a cache that is fresher than it has to be; that reading it more rarely saves pulls.
#include <stepcast/strategies/shared/keyed_plan.hpp>

#include <algorithm>

namespace stepcast::strategy::ssp {
namespace {

constexpr OptionSpec options[] = {{.name = "staleness",
                                   .kind = OptionKind::count,
                                   .standard = 3,
                                   .low = 0,
                                   .high = 64,
                                   .summary = "steps that a worker may be ahead of the slowest one"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

double lead(const OptionValues& v) { return v[named("staleness")]; }

Answer<CommPlan> plan(const StrategyInput& in) {
  return keyed_over_servers(in,
                            {.late = std::min(most_late, static_cast<std::uint32_t>(in.options[named("staleness")]))});
}

std::string settings(const OptionValues& v) {
  return "a parameter server with clocks (Petuum Bosen: table_staleness=" +
         std::to_string(static_cast<long long>(v[named("staleness")])) + ")";
}

}  // namespace

extern constinit const Strategy record{
    .name = "ssp",
    .title = "Stale synchronous parallel",
    .summary = "workers may be s steps ahead of the slowest one and read weights as stale",
    .reference = "Ho et al., NeurIPS 2013",
    .fidelity = Fidelity::stale,
    .needs = "servers",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .caution = "weights miss up to s updates of every other worker; more steps may be needed to the same accuracy",
    .lead = lead,
};

}  // namespace stepcast::strategy::ssp
