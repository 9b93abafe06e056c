// Reconstructed batch norm: Jung et al. 2019 split batch normalisation in two and fuse the halves with the convolutions
// beside it; activations fuse with them as well. Daydream models it as: activation kernels removed, batch-norm kernels
// halved.
//
// A layer of a profile is the batch norm together with the activation that follows it, so one factor stands for both.
// Memory passes over the activations, forward: batch norm reads twice and writes once, ReLU reads and writes once: 5,
// of which half of 3 is left: 0.3. Backward: batch norm 5 passes (reads x and dy twice, writes dx), ReLU 3 (reads dz
// and z, writes dy): half of 5 out of 8: 0.31.
#include <stepcast/base/words.hpp>
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/whatif/common.hpp>

namespace stepcast::whatif::reconstructed_batch_norm {
namespace {

constexpr OptionSpec options[] = {
    {.name = "layers",
     .kind = OptionKind::layers,
     .summary = "patterns of the batch-norm layers",
     .patterns = "*bn*|*batch_norm*|*batchnorm*|*downsample.1"},
    {.name = "forward", .standard = 0.3, .low = 0, .high = 1, .summary = "share of their forward time that is left"},
    {.name = "backward", .standard = 0.31, .low = 0, .high = 1, .summary = "share of their backward time"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

Answer<Profile> with_reconstructed_norm(const WhatIfInput& in) {
  if (!in.profile.has_device()) return computed_on_host("the passes over memory that it saves are those of a device");
  const std::vector<std::uint32_t> layers = selected_layers(in.profile, in.layers);
  if (layers.empty()) return no_such_layer(in.profile, in.layers);
  const std::vector<PassPlace> places = passes_of(layers);
  const std::span all(places);
  const double forward = in.options[named("forward")], backward = in.options[named("backward")];
  Profile changed = with_scaled(in.profile, all.first(layers.size()), Scale::device(forward));
  changed = with_scaled(std::move(changed), all.last(layers.size()), Scale::device(backward));
  changed.assumed.push_back("reconstructed batch norm: of the device time of " + counted(std::ssize(layers), "layer") +
                            ", activations included, " + number_text(forward) + " is left forward and " +
                            number_text(backward) + " backward");
  return changed;
}

}  // namespace

extern constinit const WhatIf record{
    .name = "reconstructed_batch_norm",
    .title = "reconstructed batch norm",
    .summary = "batch norm split and fused with its neighbours: activations gone, batch norm halved",
    .reference = "Jung et al. 2019; Zhu, Phanishayee, Pekhimenko 2020 (Daydream)",
    .options = options,
    .apply = with_reconstructed_norm,
    .caution = "Daydream's own rule predicted 12.7 % where about 7 % were measured"};

}  // namespace stepcast::whatif::reconstructed_batch_norm
