// SSD-SGD: several-step delay; gradients are pushed every iteration, weights pulled every k-th, local updates between.
//
//   compute |  F B    F B    F B    F B    ...                 k = 4
//   up      |    [push] [push] [push] [push] ...
//   dn      |                              [pull]
//
//   with X, Y the time of a push and a pull of M, t'_C = t_C + local update:
//   T >= max(t'_C, X, Y / k), where servers share the workers' cards max(t'_C, X + Y / k)
//   T <= [(k-1) max(t'_C, X) + max(t'_C, X + Y)] / k, but for the round of one key
//   traffic: M up and M/k down; k = 1 is OD-SGD
//
// The pull of the last iteration of a period lands after the devices got their local weights, so that it is one step
// late, too. The host buffer of a key is free again when its push is through (acknowledged after the sum), or its pull.
// A run starts with 500 synchronous iterations. Not modelled: that the local update also reads the last pulled weights.
#include <stepcast/strategies/shared/keyed_plan.hpp>

namespace stepcast::strategy::ssd_sgd {
namespace {

constexpr OptionSpec options[] = {period_option(5, "iterations between two pulls"), update_passes_option,
                                  host_memory_option, warm_up_option(500)};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> plan(const StrategyInput& in) {
  return keyed_over_servers(in, {.period = static_cast<std::uint32_t>(in.options[named("period")]),
                                 .local_update = true,
                                 .pulls_last_only = true,
                                 .memory = BytesPerSecond(in.options[named("memory")]),
                                 .update_passes = in.options[named("passes")]});
}

std::string settings(const OptionValues& v) {
  return "main-520/SSD-SGD (MXNet): pull every " + std::to_string(static_cast<long long>(v[named("period")])) +
         "th iteration (5 is fixed in kvstore_dist.h), local learning rate 4 times the global one";
}

}  // namespace

extern constinit const Strategy record{
    .name = "ssd_sgd",
    .title = "SSD-SGD",
    .summary = "pushes every iteration, pulls every k-th, local updates in between",
    .reference = "Xu et al., arXiv 2012.05396; main-520/SSD-SGD",
    .fidelity = Fidelity::periodic,
    .needs = "servers",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .caution = "weights are 1 to k steps old; the authors warm up the learning rate for 5 epochs [source]",
    .framework = "MXNet",
    .warm_up = {.option = "warmup", .plan = "dist_sync"},
};

}  // namespace stepcast::strategy::ssd_sgd
