// D-PSGD: decentralised; every worker averages its weights with its neighbours' while it computes its gradient.
//
//   compute |  F B        U | F B        U | ...
//   net     |  [ models ]   | [ models ]   |          to and from all neighbours, beside the passes of the same step
//
//   x_i <- sum_j W_ij x_j - eta g(x_i):  T = max(t_C, alpha + n M / B) + t_U, n models on the busiest link
//
// The gradient is taken at the weights before the average, so that neither waits for the other (Lian et al. 2017,
// algorithm 1); `overlay` is the exchange after the passes. Neighbours stand on a ring (neighbours.hpp). A worker
// waits for its neighbours, and so for all others in the end. Not modelled: that it can be a few steps ahead of a far
// one.
#include <stepcast/strategies/shared/neighbours.hpp>
#include <stepcast/strategies/shared/plan_writing.hpp>

namespace stepcast::strategy::d_psgd {
namespace {

constexpr OptionSpec options[] = {degree_option()};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> plan(const StrategyInput& in) {
  const auto degree = static_cast<std::int64_t>(in.options[named("degree")]);
  return mixed_beside_compute(in, neighbour_load(in.cluster, degree).flows());
}

std::string settings(const OptionValues& v) {
  return "bagua.torch_api.algorithms.decentralized (shift_one), or torch.distributed.batch_isend_irecv of the weights "
         "to " +
         std::to_string(static_cast<long long>(v[named("degree")])) + " neighbours beside the passes";
}

}  // namespace

extern constinit const Strategy record{
    .name = "d_psgd",
    .title = "D-PSGD",
    .summary = "decentralised: weights to and from neighbours beside the passes of the same step",
    .reference = "Lian et al., NeurIPS 2017, arXiv 1705.09056",
    .fidelity = Fidelity::periodic,
    .needs = "its authors' code",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .caution =
        "every worker has weights of its own; with few neighbours more iterations are needed, which the step time does "
        "not show",
};

}  // namespace stepcast::strategy::d_psgd
