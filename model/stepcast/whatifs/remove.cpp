// Remove: layers, with their parameters and gradients, leave the model. Jia et al. 2019 (MetaFlow) substitutes
// subgraphs; of a substitution this is the half that disappears (scale and insert are the other half).
#include <stepcast/base/words.hpp>
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/whatif/common.hpp>

namespace stepcast::whatif::remove {
namespace {

constexpr OptionSpec options[] = {{.name = "layers",
                                   .kind = OptionKind::layers,
                                   .summary = "patterns of the layers that go, such as bn*|fc",
                                   .required = true}};

Answer<Profile> without(const WhatIfInput& in) {
  const std::vector<std::uint32_t> layers = selected_layers(in.profile, in.layers);
  if (layers.empty()) return no_such_layer(in.profile, in.layers);
  if (layers.size() == in.profile.layers.size()) return Inapplicable{"'" + in.layers + "' leaves no layer"};
  Profile changed = without_layers(in.profile, layers);
  changed.assumed.push_back("removed " + counted(std::ssize(layers), "layer") + " (" + in.layers + ") with " +
                            text_of(in.profile.gradient_size() - changed.gradient_size()) + " of gradients");
  return changed;
}

}  // namespace

extern constinit const WhatIf record{
    .name = "remove",
    .title = "removed layers",
    .summary = "layers leave the model with their parameters and gradients",
    .reference = "Jia et al. 2019 (MetaFlow); Daydream's primitive remove",
    .options = options,
    .apply = without,
    .caution =
        "the parameterless operators that follow a layer (activation, pooling) are part of it and go with it; "
        "the optimizer stays as long as it was"};

}  // namespace stepcast::whatif::remove
