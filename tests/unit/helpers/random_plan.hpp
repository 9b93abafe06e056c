#pragma once
// Seeded random values of options, and random compositions of a strategy with modifiers.
#include "helpers/random_input.hpp"

#include <stepcast/plan/strategy.hpp>

namespace stepcast::test {

/// Random values of all options, within the ranges in which they are searched (else, accepted).
inline OptionValues random_options(Draw& draw, std::span<const OptionSpec> options) {
  OptionValues values = standard_options(options);
  for (std::size_t i = 0; i < options.size(); ++i) {
    const OptionSpec& o = options[i];
    if (draw.whole(0, 2) == 0) continue;
    if (o.kind == OptionKind::choice) values[i] = draw.whole(0, static_cast<int>(o.high));
    else if (o.kind == OptionKind::count) values[i] = draw.whole(static_cast<int>(o.low), 8);
    else if (o.kind == OptionKind::size) values[i] = std::round(draw.log_uniform(std::max(o.low, 1e4), 1e8));
    else if (o.kind == OptionKind::duration) values[i] = 1e-6 * draw.whole(0, 5000);
    else if (o.standard > 0) values[i] = o.standard * draw.log_uniform(0.1, 10);
    if (o.high > 0) values[i] = std::clamp(values[i], o.low, o.high);
  }
  return values;
}

/// A strategy with up to `most` modifiers, all with random options.
inline PlanSpec random_composition(Draw& draw, int most) {
  const Strategy& strategy = any_of(draw, strategies());
  PlanSpec spec{&strategy, random_options(draw, strategy.options)};
  for (int i = draw.whole(0, most); i > 0; --i) {
    const Modifier& modifier = any_of(draw, modifiers());
    spec.modifiers.push_back({&modifier, random_options(draw, modifier.options)});
  }
  return spec;
}

}  // namespace stepcast::test
