// Gradient accumulation: the gradients of k micro-steps are summed on the worker; the last one exchanges and updates.
//
//   compute |  F B  F B  F B  F B      U   F B ...        k = 4
//   net     |                   [ 1 ][2]
//
// A step is a micro-step here: the period divided by k.
//
//   time over bsp: T = t_C + (t_U + T(M)) / k
#include <stepcast/modifiers/shared/periodic.hpp>
#include <stepcast/plan/modifier.hpp>

namespace stepcast::modifier::accumulate {
namespace {

constexpr OptionSpec options[] = {{.name = "steps",
                                   .kind = OptionKind::count,
                                   .standard = 4,
                                   .low = 1,
                                   .high = 1024,
                                   .summary = "micro-steps per update"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<CommPlan> apply(CommPlan plan, const ModifierInput& in) {
  return communicating_every(static_cast<std::uint32_t>(in.options[named("steps")]), std::move(plan), true);
}

std::string settings(const OptionValues& v) {
  return "with model.no_sync(): for all but every " + std::to_string(static_cast<long long>(v[named("steps")])) +
         "th micro-step";
}

}  // namespace

extern constinit const Modifier record{
    .name = "accumulate",
    .title = "gradient accumulation",
    .summary = "gradients are summed over k micro-steps and exchanged once",
    .reference = "PyTorch DistributedDataParallel.no_sync",
    .fidelity = Fidelity::periodic,
    .usual_base = "ddp",
    .options = options,
    .apply = apply,
    .settings = settings,
    .caution = "the batch of an update grows by the number of steps",
};

}  // namespace stepcast::modifier::accumulate
