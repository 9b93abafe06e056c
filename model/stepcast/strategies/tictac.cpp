// TicTac: a fixed order for the parameter receives of a worker. Hashemi, Jyothi, Campbell 2019.
//
//   dn      |[1][ 2 ][  3  ]                |[1][ 2 ]...
//   compute |   U1 F1 U2 F2    U3 F3 B3 B2 B1   U1 F1 ...
//   up      |                       [ 3 ][2][1]
//
// Every iteration starts with the receives of all parameters, in one order that was computed offline; a layer waits for
// its own receives only. Gradients are pushed as they become ready; the next receives start when all have been summed.
//
//   TAC: repeatedly take the receive A that beats every B by min(P_B, M_A) < min(P_A, M_B), ties by smallest M+
//        (P: compute unlocked by that receive alone; M: its time; M+: least outstanding time of an operation that needs
//        it and another one)
//
// For a chain of layers, which is what a profile is, TAC gives the order of the forward pass: only the first
// outstanding receive unlocks any compute (P > 0 for it, 0 for the others), and M+ grows along the chain. TIC (all
// transfers 1, no compute) gives the same up to a tie between the first two. So the order here is the forward order. T
// >= max(t_C + t_U, pull time of M, push time of M). Parameters have the size of their gradients. The update is charged
// to the worker; servers that run the optimizer are not modelled.
#include <stepcast/strategies/shared/server_plan.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

namespace stepcast::strategy::tictac {
namespace {

// Tensors in the order in which the forward pass needs them.
std::pmr::vector<std::uint32_t> receive_order(const StrategyInput& in) {
  const Profile& profile = in.profile;
  std::pmr::vector<std::uint32_t> order(profile.tensors.size(), in.memory);
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(profile.tensors[a].layer, a) < std::pair(profile.tensors[b].layer, b);
  });
  return order;
}

Answer<CommPlan> plan(const StrategyInput& in) {
  const auto tensors = static_cast<std::int32_t>(in.profile.tensors.size());
  ServerPlan servers(in, UpdatePlace::before_forward, {Discipline::fifo, Bytes(0), Discipline::in_order});
  const Node all_summed = servers.moment();
  const auto payload = [&](std::uint32_t t, std::int32_t priority) {
    return Payload{t, 1, in.profile.tensors[t].size, priority};
  };
  // Co-located servers have one queue for both directions: an iteration's receives, then its pushes.
  for (std::uint32_t t = 0; t < in.profile.tensors.size(); ++t)
    servers.wait(servers.pushed(gradient(in.profile, t), payload(t, tensors + static_cast<std::int32_t>(t))),
                 all_summed);
  std::int32_t rank = 0;
  for (const std::uint32_t t : receive_order(in))
    servers.wait(servers.pulled(all_summed, payload(t, rank++), 1), forward_of(in.profile.tensors[t].layer));
  servers.wait(all_summed, forward_of(0), 1);
  return servers.take();
}

std::string settings(const OptionValues&) { return "xldrx/tictac: enforce the order of parameter receives (TAC)"; }

}  // namespace

extern constinit const Strategy record{
    .name = "tictac",
    .title = "TicTac",
    .summary = "parameters are received at the start of an iteration in the order of the forward pass",
    .reference = "Hashemi, Jyothi, Campbell, MLSys 2019; xldrx/tictac",
    .fidelity = Fidelity::exact,
    .needs = "servers",
    .options = {},
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .framework = "TensorFlow",
};

}  // namespace stepcast::strategy::tictac
