// SwitchML's own plan: one all-reduce per tensor in the order of readiness, and no barrier.
//
//   compute |  F1 F2 F3  B3 B2 B1      U1 F1 U2 F2 U3 F3 ...
//   net     |              [ 3 ][ 2 ][ 1 ]
//
//   T >= max(t_C + t_U, sum T(p_l));  never slower than wfbp, which waits for all of them
//
// Its benchmark issues the all-reduces of a step asynchronously in backward order, and each layer of the next forward
// pass waits only for its own result (p4lang/p4app-switchML, dnn_benchmark; Sapio et al., NSDI 2021). The collective is
// `switchml` unless the plan names another one, which turns it into WFBP without its barrier on any network.
#include <stepcast/strategies/shared/plan_writing.hpp>

namespace stepcast::strategy::switchml {
namespace {

Answer<CommPlan> plan(const StrategyInput& in) {
  CommPlan plan = in.blank();
  plan.update = UpdatePlace::before_forward;
  plan.channels.push_back({"net", Discipline::fifo, Bytes(0)});
  for (std::uint32_t t = 0; t < in.profile.tensors.size(); ++t) {
    Transfer all_reduce;
    all_reduce.priority = static_cast<std::int32_t>(t);
    all_reduce.size = in.profile.tensors[t].size;
    all_reduce.first_tensor = t;
    all_reduce.tensors = 1;
    plan.transfers.push_back(all_reduce);
    plan.edges.push_back({gradient(in.profile, t), transfer(t)});
    plan.edges.push_back({transfer(t), forward_of(in.profile.tensors[t].layer), 1});
  }
  return plan;
}

std::string settings(const OptionValues&) {
  return "PyTorch with the SwitchML back end of p4lang/p4app-switchML: all_reduce(p.grad, async_op=True) in a gradient "
         "hook of every parameter, wait() before that layer's next forward";
}

}  // namespace

extern constinit const Strategy record{
    .name = "switchml",
    .title = "SwitchML",
    .summary = "one all-reduce per tensor through an aggregating switch; a layer's next forward waits only for its own",
    .reference = "Sapio et al., NSDI 2021; p4lang/p4app-switchML",
    .fidelity = Fidelity::exact,
    .needs = {},
    .options = {},
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .collective = "switchml",
};

}  // namespace stepcast::strategy::switchml
