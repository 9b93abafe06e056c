// The table of what-ifs, and scenarios made to profiles and plans.
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/whatif/input_pipeline.hpp>
#include <stepcast/whatif/whatif.hpp>

#include <utility>

#include <algorithm>
#include <optional>
namespace stepcast {

#define STEPCAST_MEMBER(name) \
  namespace whatif::name {    \
  extern const WhatIf record; \
  }
#include <stepcast/whatifs/whatifs.inc>
#undef STEPCAST_MEMBER

std::span<const WhatIf> whatifs() {
  static const WhatIf all[] = {
#define STEPCAST_MEMBER(name) whatif::name::record,
#include <stepcast/whatifs/whatifs.inc>
#undef STEPCAST_MEMBER
  };
  return all;
}

const WhatIf* whatif_named(std::string_view name) {
  for (const WhatIf& w : whatifs())
    if (w.name == name) return &w;
  return nullptr;
}

WhatIfSpec whatif_with(std::string_view name, std::string_view option, double value) {
  const WhatIf* what = whatif_named(name);
  WhatIfSpec spec{what, standard_options(what->options), std::string(standard_layers(what->options))};
  spec.options[position_of(option, what->options)] = value;
  return spec;
}

namespace {

// A described layer that the host is late for takes as long on the device as its kernels take to launch
// (described_profile.cpp). What-ifs change kernels and launches apart, and their result is late as the profile was.
bool host_is_late(const Profile& p) {
  constexpr double rounding = 1 + 1e-9;
  return p.described && p.has_device() && std::ranges::any_of(p.layers, [](const Layer& layer) {
           return layer.forward.device > layer.forward.part.sum() * rounding ||
                  layer.backward.device > layer.backward.part.sum() * rounding;
         });
}

Profile kernels_alone(Profile p) {
  for (Layer& layer : p.layers)
    for (PassCost* pass : {&layer.forward, &layer.backward}) pass->device = pass->part.sum();
  return p;
}

Profile with_late_host(Profile p) {
  for (Layer& layer : p.layers)
    for (PassCost* pass : {&layer.forward, &layer.backward}) pass->device = std::max(pass->device, pass->host);
  return p;
}

}  // namespace

Answer<Profile> profile_after(const Scenario& scenario, const Profile& before, const Profile* other_batch, Feed* feed) {
  const bool late = !scenario.empty() && host_is_late(before);
  Answer<Profile> profile = late ? kernels_alone(before) : before;
  std::optional<Profile> other;
  if (late && other_batch != nullptr) other_batch = &other.emplace(kernels_alone(*other_batch));
  if (!scenario.empty()) profile->messages.clear();  // they were those of another step
  for (std::size_t i = 0; i < scenario.size(); ++i) {
    const WhatIf& what = *scenario[i].what;
    const WhatIfInput in{*profile, scenario[i].options, scenario[i].layers, other_batch, i, feed};
    Answer<Profile> changed = what.apply(in);
    if (!changed) return Inapplicable{std::string(what.name) + ": " + changed.reason()};
    if (what.feed_after && feed)
      if (Answer<InputPipeline> after = what.feed_after(in)) feed->pipeline = std::make_shared<InputPipeline>(*after);
    profile = std::move(changed);
  }
  if (late) *profile = with_late_host(std::move(*profile));
  return checked(with_step_times_scaled(std::move(*profile), before), "what-if");
}

PlanSpec plan_after(const Scenario& scenario, PlanSpec plan) {
  for (const WhatIfSpec& spec : scenario)
    if (!spec.what->collective.empty()) plan.collective = spec.what->collective;
  return plan;
}

}  // namespace stepcast
