// AD-PSGD: asynchronous and decentralised; each step a worker averages its weights with those of one neighbour, drawn
// at random, while it computes its gradient.
//
//   compute |  F B        U | F B        U | ...
//   net     |  [ model ]    | [ model ]    |          to and from one neighbour
//
//   T = max(t_C, alpha + n M / B) + t_U, n = 1 where a worker has a card of its own
//
// The average is that of two models and nobody else waits (Lian et al. 2018, algorithm 1): among stragglers every
// worker goes at its own pace, and a step of the job is the time in which it takes as many samples as all workers in
// one step (pace/own_pace.hpp). Neighbours stand on a ring of `degree` neighbours each, all equally likely; on
// links that devices share the expected number of models counts. In the authors' form one half of the workers asks and
// the other answers, so that every worker takes part in one exchange a step. Not modelled: the wait for a partner that
// is busy.
#include <stepcast/strategies/shared/neighbours.hpp>
#include <stepcast/strategies/shared/plan_writing.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast::strategy::ad_psgd {
namespace {

constexpr OptionSpec options[] = {degree_option("neighbours on the ring, of which one is drawn each step")};
consteval std::size_t named(std::string_view name) { return option(options, name); }

double lead(const OptionValues&) { return HUGE_VAL; }

Answer<CommPlan> plan(const StrategyInput& in) {
  const auto degree = static_cast<std::int64_t>(in.options[named("degree")]);
  const double drawn_of = static_cast<double>(std::clamp<std::int64_t>(in.cluster.workers() - 1, 1, degree));
  // A message takes as long as it takes, however rarely it crosses: a share of one model is none.
  const double flows = neighbour_load(in.cluster, degree).flows() / drawn_of;
  return mixed_beside_compute(in, in.cluster.workers() > 1 ? std::max(1.0, flows) : 0);
}

std::string settings(const OptionValues& v) {
  return "AD-PSGD: a thread that averages with one of " + std::to_string(static_cast<long long>(v[named("degree")])) +
         " neighbours each step (bipartite: one half asks)";
}

}  // namespace

extern constinit const Strategy record{
    .name = "ad_psgd",
    .title = "AD-PSGD",
    .summary = "asynchronous, decentralised: weights averaged with one random neighbour a step",
    .reference = "Lian et al., ICML 2018, arXiv 1710.06952",
    .fidelity = Fidelity::periodic,
    .needs = "its authors' code",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .caution =
        "every worker has weights of its own, and gradients are stale by what happens meanwhile; more iterations are "
        "needed, which the step time does not show",
    .lead = lead,
};

}  // namespace stepcast::strategy::ad_psgd
