// WFBP: wait-free backpropagation, Zhang et al. 2017 (Poseidon); each gradient is all-reduced as soon as it is ready.
//
//   compute |  F1 F2 F3  B3 B2 B1             | U | F1 ...
//   net     |               [ 3 ][ 2 ]   [ 1 ]|
//
//   start_L = r_L;  start_l = max(start_{l+1} + T(p_{l+1}), r_l);  T = start_1 + T(p_1) + t_U
//   bounds: t_C + T(p_1) <= T - t_U <= t_C + sum T(p_l)
//
// One message per tensor in the order of readiness, a barrier at the update (HKBU-HPML/ddl-benchmarks `horovod/`). Pays
// the start-up of a collective once per tensor: that is what fusion (ddp, horovod, mg_wfbp) saves.
#include <stepcast/strategies/shared/plan_writing.hpp>

namespace stepcast::strategy::wfbp {
namespace {

Answer<CommPlan> plan(const StrategyInput& in) { return all_reduced(in, per_tensor(in.profile, in.memory)); }

std::string settings(const OptionValues&) {
  return "all_reduce(p.grad, async_op=True) in a gradient hook of every parameter; "
         "Horovod: HOROVOD_FUSION_THRESHOLD=0 HOROVOD_CYCLE_TIME=0";
}

}  // namespace

extern constinit const Strategy record{
    .name = "wfbp",
    .title = "WFBP-A2A",
    .summary = "one all-reduce per tensor, as soon as its gradient is ready",
    .reference = "Zhang et al., USENIX ATC 2017 (Poseidon); Shi et al., arXiv 2005.13247 (WFBP-A2A)",
    .fidelity = Fidelity::exact,
    .needs = {},
    .options = {},
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .same_on_all_links = true,
};

}  // namespace stepcast::strategy::wfbp
