// Fused optimizer: one kernel updates all parameters. Zhu, Phanishayee, Pekhimenko 2020 (Daydream)
// (FusedAdam): all launches and kernels of the update are removed and one kernel is inserted. It reads weight, gradient
// and state of each parameter once and writes all but the gradient, where kernels of one operation each read and write
// what lies between them: its device time is what that takes to cross the memory of the device, if the device is one
// that is shipped, and never more than the summed time of the kernels that it replaces.
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/device_match.hpp>
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/profile/training_memory.hpp>
#include <stepcast/roofline/device.hpp>
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

/// What an update moves that meets every parameter once.
Bytes traffic_of_update(const Profile& p) {
  const BytesPerParameter bytes = bytes_per_parameter(p);
  double parameters = 0;
  for (const Tensor& tensor : p.tensors) parameters += tensor.size.value() / size_of(tensor.dtype);
  return Bytes(parameters * (2 * bytes.state - bytes.gradient));
}

/// Device time of the fused kernel, and why it is that.
struct FusedKernel {
  Seconds time;
  std::string why;
};
FusedKernel fused_kernel(const Profile& p) {
  const Seconds traced = p.optimizer.device;
  const std::optional<Device> device = shipped_device_like(p.device);
  if (!device || device->on_host) return {traced, "the device time of all"};
  const Bytes traffic = traffic_of_update(p);
  const Seconds crossing = memory_time(*device, traffic);
  if (!(crossing < traced)) return {traced, "the device time of all"};
  return {crossing, "what " + text_of(traffic) + " of parameters and state take to cross the memory once"};
}

Answer<Profile> with_fused_optimizer(const WhatIfInput& in) {
  if (!in.profile.has_device()) return computed_on_host("there are no launches to save");
  const PassCost update = in.profile.optimizer;
  if (update.host == Seconds(0) && update.device == Seconds(0))
    return Inapplicable{"the profile holds no optimizer step"};
  constexpr double mostly = 0.5;  // beside it may be what counts steps, or clips gradients
  if (in.profile.fused_update_share > mostly)
    return Inapplicable{"the update is fused already: " + percent(in.profile.fused_update_share) +
                        " of its kernels' time is spent in kernels that meet each parameter once"};
  const FusedKernel kernel = fused_kernel(in.profile);
  PassCost fused = update;
  if (kernel.time < update.device) fused *= kernel.time / update.device;
  fused.host = std::min(update.host, Seconds(in.options[named("launch")]));
  const PassPlace place{Pass::optimizer};
  Profile changed = with_kernel(without_cost(in.profile, std::span(&place, 1)), place, fused);
  changed.assumed.push_back("fused optimizer: one kernel with " + kernel.why + " (" + text_of(fused.device) +
                            (fused.device < update.device ? ", was " + text_of(update.device) : "") + "), issued in " +
                            text_of(fused.host) + " instead of " + text_of(update.host));
  return changed;
}

}  // namespace

extern constinit const WhatIf record{
    .name = "fused_optimizer",
    .title = "fused optimizer",
    .summary = "the update is one kernel: its launches go, its device time is that of meeting each parameter once",
    .reference = "Zhu, Phanishayee, Pekhimenko 2020 (Daydream, FusedAdam)",
    .options = options,
    .apply = with_fused_optimizer,
    .caution =
        "clipping and unscaling of gradients are taken to be part of the kernel; of a device that is not shipped the "
        "device time "
        "stays, which a kernel that reads each parameter once undercuts"};

}  // namespace stepcast::whatif::fused_optimizer
