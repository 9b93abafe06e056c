// LB-SGD: last-batch SGD; the all-reduce of the previous iteration runs under the whole current one.
//
//   compute |  F B (i)  | U | F B (i+1) | U | F B (i+2) ...
//   net     | [ C_{i-1} ]   | [  C_i    ]   | [ C_{i+1} ]         U_{i+1} applies C_i: gradients are one step old
//
//   T = max(t_F + t_G + t_U, T(M)): C_i may run under U_i too, as it works on another buffer than the one U_i reads.
//   (With t_U = 0 this is max(t_C, T(M)) of LB-OPT.pdf; max(t_C, T(M)) + t_U holds where the update excludes C.)
//
// A single message and a single start-up per iteration, independent of where the forward pass ends: the lower bound of
// every lossless schedule that sends M on one serial channel. Convergence with stale gradients is not modelled.
#include <stepcast/strategies/shared/plan_writing.hpp>

namespace stepcast::strategy::lb_sgd {
namespace {

Answer<CommPlan> plan(const StrategyInput& in) {
  CommPlan out = all_reduced(in, all_in_one(in.profile, in.memory));
  for (Edge& e : out.edges) {
    if (e.from.kind == NodeKind::backward) e.from.index = in.profile.backward_order.back();
    else e.lag = 1;
  }
  return out;
}

std::string settings(const OptionValues&) { return "lzhangbv/last-batch-ddl: apply the gradient of the previous step"; }

}  // namespace

extern constinit const Strategy record{
    .name = "lb_sgd",
    .title = "LB-SGD",
    .summary = "one all-reduce of the previous iteration's gradients under the whole current iteration",
    .reference = "lzhangbv/last-batch-ddl, LB-OPT.pdf",
    .fidelity = Fidelity::stale,
    .needs = "its authors' code",
    .options = {},
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .caution = "every gradient is one step old: what that costs in accuracy has to be tried out",
};

}  // namespace stepcast::strategy::lb_sgd
