// Insert: a layer without parameters, such as a regulariser or a monitoring hook, after another layer.
#include <stepcast/base/words.hpp>
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/whatif/common.hpp>

#include <algorithm>

namespace stepcast::whatif::insert {
namespace {

constexpr OptionSpec options[] = {
    {.name = "after",
     .kind = OptionKind::layers,
     .summary = "the layer that it follows; of several that fit, each gets one",
     .required = true},
    {.name = "forward", .kind = OptionKind::duration, .low = 0, .high = 1000, .summary = "time of its forward pass"},
    {.name = "backward", .kind = OptionKind::duration, .low = 0, .high = 1000, .summary = "time of its backward pass"},
    {.name = "launch",
     .kind = OptionKind::duration,
     .standard = 10e-6,
     .low = 0,
     .high = 1000,
     .summary = "host time of a pass, beside a device"}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

std::string unused_name(const Profile& p, const std::string& after) {
  std::string name = after + "+inserted";
  while (std::any_of(p.layers.begin(), p.layers.end(), [&](const Layer& l) { return l.name == name; })) name += "'";
  return name;
}

Answer<Profile> with_inserted_layers(const WhatIfInput& in) {
  const std::vector<std::uint32_t> layers = selected_layers(in.profile, in.layers);
  if (layers.empty()) return no_such_layer(in.profile, in.layers);
  // Stacked, `insert(after=*)` doubles the layers each time.
  constexpr std::size_t most = 4096;
  if (layers.size() > most)
    return Inapplicable{std::to_string(layers.size()) + " layers fit '" + in.layers + "'; at most " +
                        std::to_string(most) + " can be inserted at a time"};
  const Seconds forward(in.options[named("forward")]), backward(in.options[named("backward")]),
      launch(in.options[named("launch")]);
  const auto cost = [&](Seconds time) { return in.profile.has_device() ? PassCost{launch, time} : PassCost{time, {}}; };
  Profile changed = in.profile;
  for (auto l = layers.rbegin(); l != layers.rend(); ++l) {
    const std::string& after = in.profile.layers[*l].name;
    changed = with_layer(std::move(changed), *l + 1, {unused_name(changed, after), cost(forward), cost(backward)});
  }
  changed.assumed.push_back("inserted " + counted(std::ssize(layers), "layer") + " without parameters after " +
                            in.layers + ": " + text_of(forward) + " forward, " + text_of(backward) + " backward");
  return changed;
}

}  // namespace

extern constinit const WhatIf record{.name = "insert",
                                     .title = "inserted layers",
                                     .summary = "layers without parameters after the named ones",
                                     .reference = "Daydream's primitive insert (Zhu, Phanishayee, Pekhimenko 2020)",
                                     .options = options,
                                     .apply = with_inserted_layers};

}  // namespace stepcast::whatif::insert
