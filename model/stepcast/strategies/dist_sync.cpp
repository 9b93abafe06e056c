// dist_sync: synchronous SGD over MXNet's key-value store, one key a tensor.
//
//   compute |  F1 F2 F3  B3 B2 B1                F1  F2  F3 ...    a forward pass waits for its own layer's pull
//   up      |              [3][ 2 ][1]
//   dn      |                 [3]  [ 2 ][1]
//
//   T >= max(t_C, occupancy of the busiest direction of a card)
//
// The baseline of the strategies that delay or quantise its exchange (od_sgd, ssd_sgd, cd_sgd, bit_sgd): whole tensors,
// the layer nearest the input first, never pre-empted, a pull only after its push. Charged to the worker is the update,
// which either side can do (`update_on_kvstore`): what it costs a server is unknown.
#include <stepcast/strategies/shared/keyed_plan.hpp>

namespace stepcast::strategy::dist_sync {
namespace {

Answer<CommPlan> plan(const StrategyInput& in) {
  Answer<CommPlan> plan = keyed_over_servers(in, {});
  if (plan) plan->update = UpdatePlace::before_forward;
  return plan;
}

std::string settings(const OptionValues&) { return "kv = mx.kv.create('dist_sync')"; }

}  // namespace

extern constinit const Strategy record{
    .name = "dist_sync",
    .title = "MXNet dist_sync",
    .summary = "whole tensors pushed to servers and pulled back, nearest layer first, no barrier",
    .reference = "MXNet kvstore_dist.h (as forked by CynthiaProtector/OD-SGD)",
    .fidelity = Fidelity::exact,
    .needs = "servers",
    .options = {},
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .framework = "MXNet",
};

}  // namespace stepcast::strategy::dist_sync
