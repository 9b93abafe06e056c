// StepDifference: two splits side by side, with the standard errors of their medians.
#include <stepcast/base/error.hpp>
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/baseline/step_difference.hpp>
#include <stepcast/extraction/profile_of.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace stepcast {
namespace {

constexpr std::size_t enough_to_vary = 2;

template <class Value>
std::vector<double> values_of(const StepSplit& split, const Value& value) {
  std::vector<double> values;
  for (std::size_t i = 0; i < split.durations.size(); ++i) values.push_back(value(split, i).value());
  return values;
}

bool varies(const StepDifference& d) {
  return d.before.of_steps && d.after.of_steps && d.before.durations.size() >= enough_to_vary &&
         d.after.durations.size() >= enough_to_vary;
}

template <class Value>
ChangedPart changed(const StepDifference& d, std::string what, Seconds before, Seconds after, const Value& value) {
  ChangedPart part{std::move(what), before, after, Seconds(0)};
  if (!varies(d)) return part;
  part.doubt =
      Seconds(std::hypot(doubt_of_median(values_of(d.before, value)), doubt_of_median(values_of(d.after, value))));
  // What is a small part of the step is known no better than the step's clock ticks.
  const Seconds least = std::max(part.doubt, d.before.step * (indifference / 10));
  part.change = part.by() > least ? Change::slower : -part.by() > least ? Change::faster : Change::noise;
  return part;
}

void largest_first(std::vector<ChangedPart>& parts) {
  std::ranges::stable_sort(parts, std::greater{}, [](const ChangedPart& p) { return std::abs(p.by().value()); });
}

void add_communication(StepDifference& d) {
  std::map<std::pair<CollectiveRole, std::string>, ChangedPart> by_purpose;
  for (const auto& [split, time] : {std::pair{&d.before, &ChangedPart::before}, {&d.after, &ChangedPart::after}})
    for (const SplitCommunication& c : split->communication) by_purpose[{c.role, c.operation}].*time += c.exposed;
  for (auto& [purpose, part] : by_purpose) {
    part.what = std::string(words_of(purpose.first)) + ", " + purpose.second;
    d.communication.push_back(std::move(part));
  }
  largest_first(d.communication);
}

Seconds time_of(const Profile& profile, std::size_t layer) {
  const auto pass = [&](const PassCost& cost) { return profile.has_device() ? cost.device : cost.host; };
  return pass(profile.layers[layer].forward) + pass(profile.layers[layer].backward);
}

void add_layers(StepDifference& d, const Trace& before, const Trace& after) {
  try {
    const Profile a = profile_of(before), b = profile_of(after);
    if (!std::ranges::equal(a.layers, b.layers, {}, &Layer::name, &Layer::name)) {
      d.no_layers = "the two have other layers";
      return;
    }
    for (std::size_t l = 0; l < a.layers.size(); ++l)
      d.layers.push_back({a.layers[l].name, time_of(a, l), time_of(b, l), Seconds(0)});
  } catch (const InputError& refusal) { d.no_layers = refusal.found; }
  largest_first(d.layers);
}

void add_cautions(StepDifference& d, const Trace& before, const Trace& after) {
  const auto differ = [&](const std::string& what, const std::string& a, const std::string& b) {
    const bool known = !a.empty() && !b.empty() && a != "-1" && b != "-1";
    if (known && a != b) d.cautions.push_back(what + ": " + a + " and " + b);
  };
  differ("other devices", d.before.device, d.after.device);
  differ("other numbers of workers", std::to_string(before.world_size), std::to_string(after.world_size));
  differ("other ranks", std::to_string(before.rank), std::to_string(after.rank));
}

}  // namespace

std::string_view name_of(Change change) {
  constexpr std::string_view names[] = {"slower", "faster", "noise", "cannot tell"};
  return names[static_cast<std::size_t>(change)];
}

StepDifference difference_of(const Trace& before, const Trace& after) {
  StepDifference d{.before = split_of(before),
                   .after = split_of(after),
                   .step = {},
                   .parts = {},
                   .communication = {},
                   .layers = {},
                   .no_layers = {},
                   .cautions = {}};
  d.step = changed(d, "step", d.before.step, d.after.step,
                   [](const StepSplit& split, std::size_t i) { return split.durations[i]; });
  for (std::size_t p = 0; p < split_parts; ++p) {
    const auto part = SplitPart(p);
    if (d.before[part] > Seconds(0) || d.after[part] > Seconds(0))
      d.parts.push_back(changed(d, std::string(words_of(part)), d.before[part], d.after[part],
                                [p](const StepSplit& split, std::size_t i) { return split.parts_of[i][p]; }));
  }
  largest_first(d.parts);
  add_communication(d);
  add_layers(d, before, after);
  add_cautions(d, before, after);
  return d;
}

}  // namespace stepcast
