// CD-SGD: OD-SGD whose push is quantised to two bits, corrected by a dense push every k-th iteration.
//
//   compute   |  F B        F B        F B       ...              k = 3
//   processor |     u  Q       u  Q       u
//   up        |        [q]        [q]     [  dense  ]
//   dn        |           [ pull ]   [ pull ]        [ pull ]     pulls are never compressed
//
//   with X, Y the time of a push and a pull of M, t'_C = t_C + local update, Q the quantiser:
//   max(t'_C, mean network work)  <=  T  <=  [(k-1) max(t'_C, Q + X/16 + Y) + max(t'_C, X + Y)] / k
//   16 values in a word: up (1 + (k-1)/16) / k of M (k = 5: 25 %), down all of it
//
// Per key LU -> Q -> push: the quantiser is off the forward path and on that of the push. The dense push skips it, so
// that k = 1 is OD-SGD. It reads gradient and residual and writes the residual and the words, in the host's memory. On
// one processor the updates of later keys queue behind it: where Q counts, the form above holds with t'_C + Q. A run
// starts with 1,000 synchronous iterations.
#include <stepcast/strategies/shared/keyed_plan.hpp>

namespace stepcast::strategy::cd_sgd {
namespace {

constexpr OptionSpec options[] = {period_option(5, "iterations between two dense pushes"), update_passes_option,
                                  host_memory_option, warm_up_option(1000)};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> plan(const StrategyInput& in) {
  return keyed_over_servers(in, {.period = static_cast<std::uint32_t>(in.options[named("period")]),
                                 .local_update = true,
                                 .push = KeyedExchange::Push::corrected,
                                 .memory = BytesPerSecond(in.options[named("memory")]),
                                 .update_passes = in.options[named("passes")]});
}

std::string settings(const OptionValues& v) {
  return "Tugraph/CD-SGD (MXNet): kv.set_gradient_compression({'type': '2bit'}), compress_steps = " +
         std::to_string(static_cast<long long>(v[named("period")]));
}

}  // namespace

extern constinit const Strategy record{
    .name = "cd_sgd",
    .title = "CD-SGD",
    .summary = "OD-SGD with a push of two bits an element, dense every k-th iteration",
    .reference = "Yu et al., arXiv 2106.10796; Tugraph/CD-SGD",
    .fidelity = Fidelity::stale,
    .needs = "servers",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .caution = "gradients are one step old and quantised; the authors start with 1,000 synchronous iterations [source]",
    .framework = "MXNet",
    .warm_up = {.option = "warmup", .plan = "dist_sync"},
};

}  // namespace stepcast::strategy::cd_sgd
