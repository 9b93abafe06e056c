// What-if on profiles.
#include <stepcast/profile/profile_whatif.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <utility>

namespace stepcast {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; }

/// One pattern. A star is tried with the shortest text first; only the last star ever has to be taken back.
bool fits_one(std::string_view name, std::string_view pattern) {
  std::size_t n = 0, p = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || lower(pattern[p]) == lower(name[n]))) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

PassCost& cost_at(Profile& p, const PassPlace& place) {
  return const_cast<PassCost&>(cost_at(std::as_const(p), place));
}

}  // namespace

bool fits(std::string_view name, std::string_view patterns) {
  while (true) {
    const std::size_t bar = patterns.find('|');
    if (fits_one(name, patterns.substr(0, bar))) return true;
    if (bar == std::string_view::npos) return false;
    patterns.remove_prefix(bar + 1);
  }
}

std::vector<std::uint32_t> selected_layers(const Profile& p, std::string_view patterns) {
  std::vector<std::uint32_t> selected;
  for (std::size_t l = 0; l < p.layers.size(); ++l)
    if (fits(p.layers[l].name, patterns)) selected.push_back(std::uint32_t(l));
  return selected;
}

std::vector<PassPlace> passes_of(std::span<const std::uint32_t> layers) {
  std::vector<PassPlace> places;
  places.reserve(2 * layers.size() + 2);
  for (const std::uint32_t l : layers) places.push_back({Pass::forward, l});
  for (const std::uint32_t l : layers) places.push_back({Pass::backward, l});
  return places;
}

std::vector<PassPlace> all_passes(const Profile& p) {
  std::vector<PassPlace> places = passes_of(selected_layers(p, "*"));
  places.push_back({Pass::optimizer});
  places.push_back({Pass::other});
  return places;
}

Seconds time_of_buffers(const Profile& p) {
  const auto broadcast = [](const ObservedCollective& c) { return c.operation == "broadcast"; };
  if (std::ranges::none_of(p.collectives, broadcast)) return Seconds(0);
  return std::max(p.communication.before.host, p.communication.before.device);
}

const PassCost& cost_at(const Profile& p, const PassPlace& place) {
  switch (place.pass) {
    case Pass::forward:
      return p.layers[place.layer].forward;
    case Pass::backward:
      return p.layers[place.layer].backward;
    case Pass::optimizer:
      return p.optimizer;
    case Pass::other:
      break;
  }
  return p.other;
}

PassCost scaled(const PassCost& cost, const Scale& by) {
  PassCost out{cost.host * by.host, {}};
  for (const KernelClass kind : classes_apart) out.part[kind] = cost.part[kind] * by.part[kind];
  // One factor on all device work is applied to the sum, so that a factor of 1 changes no bit.
  const bool alike = by.part == ByKernelClass<double>::all(by.rest);
  out.device = alike ? cost.device * by.rest : out.part.sum() + cost.rest() * by.rest;
  return out;
}

Profile with_scaled(Profile p, std::span<const PassPlace> places, const Scale& by) {
  for (const PassPlace& place : places) cost_at(p, place) = scaled(cost_at(p, place), by);
  return p;
}

Profile with_all_scaled(Profile p, const Scale& by) {
  for_each_communication_cost(p, [&](PassCost& cost) { cost = scaled(cost, by); });
  p.communication.message *= by.host;
  const std::vector<PassPlace> places = all_passes(p);
  return with_scaled(std::move(p), places, by);
}

Profile with_kernel(Profile p, const PassPlace& place, const PassCost& kernel) {
  cost_at(p, place) += kernel;
  return p;
}

Profile with_layer(Profile p, std::uint32_t position, Layer layer) {
  assert(position <= p.layers.size());
  // The backward pass meets the new layer just after the one that follows it in the forward pass.
  const auto following = std::find(p.backward_order.begin(), p.backward_order.end(), position);
  const auto place = following == p.backward_order.end() ? 0 : following - p.backward_order.begin() + 1;
  for (std::uint32_t& l : p.backward_order) l += l >= position;
  for (Tensor& tensor : p.tensors) tensor.layer += tensor.layer >= position;
  p.backward_order.insert(p.backward_order.begin() + place, position);
  p.layers.insert(p.layers.begin() + position, std::move(layer));
  return p;
}

Profile without_layers(Profile p, std::span<const std::uint32_t> layers) {
  constexpr std::uint32_t gone = ~std::uint32_t{0};
  std::vector<std::uint32_t> renamed(p.layers.size(), 0);
  for (const std::uint32_t l : layers) renamed[l] = gone;
  std::uint32_t left = 0;
  for (std::uint32_t l = 0; l < renamed.size(); ++l) {
    if (renamed[l] == gone) continue;
    if (left != l) p.layers[left] = std::move(p.layers[l]);
    renamed[l] = left++;
  }
  assert(left > 0);
  p.layers.resize(left);
  std::erase_if(p.backward_order, [&](std::uint32_t l) { return renamed[l] == gone; });
  for (std::uint32_t& l : p.backward_order) l = renamed[l];
  const Bytes before = p.gradient_size();
  std::erase_if(p.tensors, [&](const Tensor& t) { return renamed[t.layer] == gone; });
  if (before > Bytes(0)) {
    p.communication.after *= p.gradient_size() / before;
    p.communication.sharding *= p.gradient_size() / before;
  }
  for (Tensor& tensor : p.tensors) tensor.layer = renamed[tensor.layer];
  p.messages.clear();  // they carried other tensors
  return p;
}

Profile without_cost(Profile p, std::span<const PassPlace> places) {
  for (const PassPlace& place : places) cost_at(p, place) = {};
  return p;
}

Profile with_step_times_scaled(Profile changed, const Profile& before) {
  const Seconds traced = lone_step_time(before);
  if (traced > Seconds(0))
    for (Seconds& step : changed.step_times) step *= lone_step_time(changed) / traced;
  return changed;
}

Profile with_faster_compute(Profile profile, double factor) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", factor);
  if (!(factor > 0) || !std::isfinite(factor)) throw InputError("faster compute", "a positive factor", text);
  const Scale by = Scale::compute(profile, 1 / factor);
  Profile changed = with_step_times_scaled(with_all_scaled(profile, by), profile);
  changed.assumed.push_back(std::string("compute is ") + text + " times as fast as traced; step times scaled with it");
  return changed;
}

}  // namespace stepcast
