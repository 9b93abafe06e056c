// Scale: layers whose device or host time changes by a factor, as after a better kernel or a substitution.
#include <stepcast/base/words.hpp>
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/whatif/common.hpp>

namespace stepcast::whatif::scale {
namespace {

constexpr OptionSpec options[] = {
    {.name = "layers",
     .kind = OptionKind::layers,
     .summary = "patterns of the layers, such as attn*|*.mlp.*",
     .required = true},
    {.name = "device", .standard = 1, .low = 0, .high = 1000, .summary = "factor on their device time"},
    {.name = "host", .standard = 1, .low = 0, .high = 1000, .summary = "factor on their host time"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<Profile> with_layers_scaled(const WhatIfInput& in) {
  const std::vector<std::uint32_t> layers = selected_layers(in.profile, in.layers);
  if (layers.empty()) return no_such_layer(in.profile, in.layers);
  const double device = in.options[named("device")], host = in.options[named("host")];
  if (!in.profile.has_device() && device != 1) return computed_on_host("it has no device time to scale: give host=");
  Profile changed = with_scaled(in.profile, passes_of(layers), {host, device, device, device});
  changed.assumed.push_back(counted(std::ssize(layers), "layer") + " (" + in.layers + "): device time times " +
                            number_text(device) + ", host time times " + number_text(host));
  return changed;
}

}  // namespace

extern constinit const WhatIf record{.name = "scale",
                                     .title = "scaled layers",
                                     .summary = "device or host time of layers, forward and backward, times a factor",
                                     .reference = "Jia et al. 2019 (MetaFlow); Daydream's primitive scale",
                                     .options = options,
                                     .apply = with_layers_scaled};

}  // namespace stepcast::whatif::scale
