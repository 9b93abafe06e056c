// P3: priority-based parameter propagation; fixed slices, the most urgent slice first. Jayarajan et al. 2019.
//
//   compute |  F1 F2 F3  B3 B2 B1       U1 F1  U2 F2  U3 F3 ...
//   up      |              [3][2][2][1][1][2][3]               one slice in flight
//   dn      |                 [3][2][2][1][1][2][3]
//
// Every tensor is cut into slices that are pushed and pulled on their own, so that a worker never waits for a whole
// tensor before pulling; the forward pass of a layer waits for its own slices. This is bytescheduler_ps with a fixed
// partition and a credit of one slice. Slices of 40,000 elements of 4 bytes as in the authors' code (stock MXNet:
// 1,000,000), spread evenly over the servers. The update is charged to the worker just before the layer's forward pass;
// servers that run the optimizer are not modelled.
#include <stepcast/strategies/shared/server_plan.hpp>

namespace stepcast::strategy::p3 {
namespace {

constexpr OptionSpec options[] = {{.name = "slice",
                                   .kind = OptionKind::size,
                                   .standard = 160'000,
                                   .low = 1024,
                                   .high = 0x1p40,
                                   .summary = "size of a slice",
                                   .tuned = true,
                                   .tune_low = 0x1p16,
                                   .tune_high = 0x1p25}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> plan(const StrategyInput& in) {
  const Bytes slice(in.options[named("slice")]);
  return scheduled_over_servers(in, slice, slice);
}

std::string settings(const OptionValues& v) {
  return "anandj91/p3 (MXNet): slices of " + std::to_string(static_cast<long long>(v[named("slice")] / 4)) +
         " elements";
}

}  // namespace

extern constinit const Strategy record{
    .name = "p3",
    .title = "P3",
    .summary = "fixed slices pushed and pulled by urgency, one in flight, across the barrier",
    .reference = "Jayarajan et al., MLSys 2019; anandj91/p3",
    .fidelity = Fidelity::exact,
    .needs = "servers",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .framework = "MXNet",
};

}  // namespace stepcast::strategy::p3
