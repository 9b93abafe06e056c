// ByteScheduler over parameter servers: cut tensors, push the most urgent part first, no barrier. Peng et al. 2019.
//
//   compute |  F1 F2 F3  B3 B2 B1       U1 F1  U2 F2  U3 F3 ...
//   up      |              [3][2][2][1][1][2][3]
//   dn      |                 [3][2][2][1][1][2][3]
//
// As bytescheduler, with push and pull instead of an all-reduce: the pull of a part follows its push and overlaps the
// push of the next one. The credit covers pushes (whether the code counts pulls as well is not documented; with a
// window of one part it could not: the directions would alternate). Worked example of the authors (three layers of 2
// units each way, tensors of 3, 6 and 3 units, part = credit = 1 unit): 18 units against 26 of wfbp_ps with whole
// tensors.
//
// It exists for MXNet and TensorFlow, whose engines call it from C++: over MXNet the published steps leave 0.03 to
// 0.07 ms a tensor for it (ResNet-50, 16 to 64 GPUs), a tenth of what the Python wrapper around Horovod takes
// (bytescheduler), so that none is charged.
//
// Defaults 1 M and 4 M elements of 4 bytes (bytedance/byteps, branch bytescheduler). The update is charged to the
// worker just before the layer's forward pass; servers that run the optimizer are not modelled.
#include <stepcast/strategies/shared/server_plan.hpp>

namespace stepcast::strategy::bytescheduler_ps {
namespace {

constexpr double million_elements = 4e6;  // bytes
constexpr OptionSpec options[] = {{.name = "partition",
                                   .kind = OptionKind::size,
                                   .standard = million_elements,
                                   .low = 1024,
                                   .high = 0x1p40,
                                   .summary = "largest message; larger tensors are cut",
                                   .tuned = true,
                                   .tune_low = 0x1p18,
                                   .tune_high = 8 * million_elements},
                                  {.name = "credit",
                                   .kind = OptionKind::size,
                                   .standard = 4 * million_elements,
                                   .low = 1024,
                                   .high = 0x1p50,
                                   .summary = "bytes of pushes that may be in flight",
                                   .tuned = true,
                                   .tune_low = million_elements,
                                   .tune_high = 16 * million_elements}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> plan(const StrategyInput& in) {
  return scheduled_over_servers(in, Bytes(in.options[named("partition")]), Bytes(in.options[named("credit")]));
}

std::string settings(const OptionValues& v) {
  return "USE_BYTESCHEDULER=1 BYTESCHEDULER_PARTITION=" +
         std::to_string(static_cast<long long>(v[named("partition")] / 4)) +
         " BYTESCHEDULER_CREDIT=" + std::to_string(static_cast<long long>(v[named("credit")] / 4)) + " (elements)";
}

}  // namespace

extern constinit const Strategy record{
    .name = "bytescheduler_ps",
    .title = "ByteScheduler-PS",
    .summary = "tensors cut into parts, pushed by urgency under a credit, across the barrier",
    .reference = "Peng et al., SOSP 2019; bytedance/byteps branch bytescheduler",
    .fidelity = Fidelity::exact,
    .needs = "servers",
    .options = options,
    .phases = 1,
    .plan = plan,
    .settings = settings,
    .framework = "MXNet",
};

}  // namespace stepcast::strategy::bytescheduler_ps
