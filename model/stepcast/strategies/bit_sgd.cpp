// Bit-SGD: synchronous SGD over servers with pushes quantised to two bits an element; MXNet's 2-bit compression.
//
//   compute   |  F1 F2 F3  B3 B2 B1           F1  F2  F3 ...       a forward pass waits for its own layer's pull
//   processor |             Q3 Q2 Q1
//   up        |               [3][2][1]
//   dn        |                  [  3  ][  1  ][  2  ]             pulls are never compressed
//
//   T = t_C + Q + what no pass hides of X/16 + Y (X, Y: a push and a pull of M)
//
// The quantiser reads gradient and residual and writes the residual and the words, in the host's memory (derived). The
// server adds up dense values. No step is late: the price is accuracy only.
#include <stepcast/strategies/shared/keyed_plan.hpp>

namespace stepcast::strategy::bit_sgd {
namespace {

constexpr OptionSpec options[] = {host_memory_option};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> plan(const StrategyInput& in) {
  return keyed_over_servers(
      in, {.push = KeyedExchange::Push::quantised, .memory = BytesPerSecond(in.options[named("memory")])});
}

std::string settings(const OptionValues&) { return "kv.set_gradient_compression({'type': '2bit'})"; }

}  // namespace

extern constinit const Strategy record{
    .name = "bit_sgd",
    .title = "Bit-SGD",
    .summary = "pushes of two bits an element, dense pulls, no delay",
    .reference = "MXNet 2-bit gradient compression; Yu et al., arXiv 2106.10796 (Bit-SGD)",
    .fidelity = Fidelity::lossy,
    .needs = "servers",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .caution = "what the threshold cuts off is sent in later steps (residual): accuracy depends on the threshold",
    .framework = "MXNet",
};

}  // namespace stepcast::strategy::bit_sgd
