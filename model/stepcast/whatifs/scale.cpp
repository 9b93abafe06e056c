// Scale: layers whose device or host time changes by a factor, as after a better kernel or a substitution.
#include <stepcast/base/words.hpp>
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/whatif/common.hpp>

namespace stepcast::whatif::scale {
namespace {

constexpr WhatIfOption options[] = {
    {.name = "layers",
     .kind = WhatIfValue::layers,
     .summary = "patterns of the layers, such as attn*|*.mlp.*",
     .required = true},
    {.name = "device", .standard = 1, .low = 0, .high = 1000, .summary = "factor on their device time"},
    {.name = "host", .standard = 1, .low = 0, .high = 1000, .summary = "factor on their host time"}};

Answer<Profile> with_layers_scaled(const WhatIfInput& in) {
  const std::vector<std::uint32_t> layers = selected_layers(in.profile, in.text(0));
  if (layers.empty()) return no_such_layer(in.profile, in.text(0));
  if (!in.profile.has_device() && in.number(1) != 1)
    return computed_on_host("it has no device time to scale: give host=");
  const double device = in.number(1);
  Profile changed = with_scaled(in.profile, passes_of(layers), {in.number(2), device, device, device});
  changed.assumed.push_back(counted(std::ssize(layers), "layer") + " (" + in.text(0) + "): device time times " +
                            number_text(device) + ", host time times " + number_text(in.number(2)));
  return changed;
}

}  // namespace

extern const WhatIf record = {.name = "scale",
                              .title = "scaled layers",
                              .summary = "device or host time of layers, forward and backward, times a factor",
                              .reference = "Jia et al. 2019 (MetaFlow); Daydream's primitive scale",
                              .options = options,
                              .apply = with_layers_scaled};

}  // namespace stepcast::whatif::scale
