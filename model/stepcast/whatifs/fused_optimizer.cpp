// Fused optimizer: one kernel updates all parameters. Zhu, Phanishayee, Pekhimenko 2020 (Daydream)
// (FusedAdam): all launches and kernels of the update are removed and one kernel with their summed device time is
// inserted.
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/whatif/common.hpp>

#include <algorithm>

namespace stepcast::whatif::fused_optimizer {
namespace {

constexpr OptionSpec options[] = {{.name = "launch",
                                   .kind = OptionKind::duration,
                                   .standard = 20 * 1e-6,
                                   .low = 0,
                                   .high = 1,
                                   .summary = "host time that is left: one launch and the call around it"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<Profile> with_fused_optimizer(const WhatIfInput& in) {
  if (!in.profile.has_device()) return computed_on_host("there are no launches to save");
  const PassCost update = in.profile.optimizer;
  if (update.host == Seconds(0) && update.device == Seconds(0))
    return Inapplicable{"the profile holds no optimizer step"};
  PassCost fused = update;
  fused.host = std::min(update.host, Seconds(in.options[named("launch")]));
  const PassPlace place{Pass::optimizer};
  Profile changed = with_kernel(without_cost(in.profile, std::span(&place, 1)), place, fused);
  changed.assumed.push_back("fused optimizer: one kernel with the device time of all (" + text_of(fused.device) +
                            "), issued in " + text_of(fused.host) + " instead of " + text_of(update.host));
  return changed;
}

}  // namespace

extern constinit const WhatIf record{
    .name = "fused_optimizer",
    .title = "fused optimizer",
    .summary = "the update is one kernel: its launches go, its device time stays",
    .reference = "Zhu, Phanishayee, Pekhimenko 2020 (Daydream, FusedAdam)",
    .options = options,
    .apply = with_fused_optimizer,
    .caution = "a fused kernel also reads each parameter once only: device time falls further than said"};

}  // namespace stepcast::whatif::fused_optimizer
