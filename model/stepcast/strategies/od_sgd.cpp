// OD-SGD: one-step-delay SGD; the next forward pass continues from a local update while the global one travels.
//
//   compute   | F1 F2 F3  B3 B2 B1 | F1 F2 F3  B3 B2 B1 | F1 F2 F3 ...      no pass waits for the network
//   processor |            u3 u2 u1|            u3 u2 u1|
//   up        |             [ 3 ][ 1 ][ 2 ]      [ 3 ][ 1 ][ 2 ]
//   dn        |                  [ 3 ][ 1 ][ 2 ]      [ 3 ][ 1 ][ 2 ]
//
//   LU_i(l) -> F_{i+1}(l);  pull_i(l) -> {copy_{i+1}(l), LU_{i+1}(l)}: gradients are exactly one step old
//   T = max(t_C + the local update's part that no pass hides, busiest direction of a card) where no key binds:
//   T >= copy_l + push_l + pull_l of every key l
//
// The forward pass runs under the network, too, which S-SGD leaves idle then. The local update takes about six reads
// and writes of the gradient's size in the host's memory (derived; keyed_plan.hpp says why the host). Not modelled: the
// the update on the servers. A run starts with 200 synchronous iterations.
#include <stepcast/strategies/shared/keyed_plan.hpp>

namespace stepcast::strategy::od_sgd {
namespace {

constexpr OptionSpec options[] = {update_passes_option, host_memory_option, warm_up_option(200)};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> plan(const StrategyInput& in) {
  return keyed_over_servers(in, {.local_update = true,
                                 .memory = BytesPerSecond(in.options[named("memory")]),
                                 .update_passes = in.options[named("passes")]});
}

std::string settings(const OptionValues&) {
  return "CynthiaProtector/OD-SGD (MXNet): kvstore dist_sync, local optimizer SGD, DC-ASGD or adaptive DC-ASGD";
}

}  // namespace

extern constinit const Strategy record{
    .name = "od_sgd",
    .title = "OD-SGD",
    .summary = "forward passes continue from a local update while the global one travels, one step late",
    .reference = "Xu et al., arXiv 2005.06728; CynthiaProtector/OD-SGD",
    .fidelity = Fidelity::stale,
    .needs = "servers",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .caution = "gradients are one step old; the authors start with 200 synchronous iterations [source]",
    .framework = "MXNet",
    .warm_up = {.option = "warmup", .plan = "dist_sync"},
};

}  // namespace stepcast::strategy::od_sgd
