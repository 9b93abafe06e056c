// ASGD: fully asynchronous SGD over parameter servers; nobody waits for anybody.
//
//   compute |  F B   F B   F B   ...      fetch=background: no pass waits; messages of several steps are under way
//   up      |    [push] [push] [push]
//   dn      |       [pull] [pull] [pull]
//
//   background (Downpour SGD): T = max(t_C, the busiest direction of a card), the bound of every plan over servers
//   blocking (MXNet dist_async): a forward pass waits for the pull that follows the worker's own push, as in dist_sync
//
// Servers apply every gradient as it comes in. All workers are alike here, so that they load the servers' cards as they
// would together: n M / S bytes a step. Among stragglers every worker goes at its own pace; a step of the job is then
// the time in which it takes as many samples as all workers in one step: P over the sum of the workers' rates
// (pace/own_pace.hpp). Messages of four steps at most are under way (keyed_plan.hpp). Not modelled: fast workers
// that use what slow ones leave of the servers' cards; several gradients of a worker that it adds up while a push is
// under way.
#include <stepcast/strategies/shared/keyed_plan.hpp>

#include <cmath>

namespace stepcast::strategy::asgd {
namespace {

enum class Fetch : std::uint8_t { background, blocking };
constexpr OptionSpec options[] = {{.name = "fetch",
                                   .kind = OptionKind::choice,
                                   .standard = static_cast<double>(Fetch::background),
                                   .low = 0,
                                   .high = 1,
                                   .summary = "whether weights are fetched beside the compute, or before each step",
                                   .choices = {"background", "blocking"}}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

bool in_background(const OptionValues& v) { return v[named("fetch")] == static_cast<double>(Fetch::background); }
double lead(const OptionValues&) { return HUGE_VAL; }

Answer<CommPlan> plan(const StrategyInput& in) {
  return keyed_over_servers(in, {.late = in_background(in.options) ? most_late : 0});
}

std::string settings(const OptionValues& v) {
  return in_background(v) ? "Downpour SGD: threads that push gradients and fetch weights beside the training thread"
                          : "kv = mx.kv.create('dist_async')";
}

}  // namespace

extern constinit const Strategy record{
    .name = "asgd",
    .title = "Asynchronous SGD",
    .summary = "fully asynchronous over parameter servers: no worker waits for another",
    .reference = "Dean et al., NeurIPS 2012 (Downpour SGD); MXNet dist_async",
    .fidelity = Fidelity::stale,
    .needs = "servers",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .caution =
        "gradients are as stale as there are other workers, or more, without bound; more steps are needed to the same "
        "accuracy, or it is not reached",
    .lead = lead,
};

}  // namespace stepcast::strategy::asgd
