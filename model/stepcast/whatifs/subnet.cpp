// Subnet: the thin network that one worker trains in independent subnet training (strategy `ist`).
//
// Hidden units are dealt out to P workers, inputs and outputs are not: weights between two hidden layers shrink to
// 1/P^2, those next to the input or the output to 1/P, biases of hidden layers to 1/P. For layers in x h, h x h, h x
// out a worker holds in h/P + h^2/P^2 + h out/P elements (Yuan et al., arXiv 1910.02120). The compute of a layer
// shrinks with its weights: device time, or host time where the host computes; the host issues the same kernels. The
// optimizer shrinks with all of them. Layers without weights keep their time.
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/whatif/common.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

namespace stepcast::whatif::subnet {
namespace {

constexpr OptionSpec options[] = {{.name = "workers",
                                   .low = 1,
                                   .high = 1e6,
                                   .summary = "workers that the hidden units are dealt out to",
                                   .required = true}};
consteval std::size_t named(std::string_view name) { return option(options, name); }

/// The layers next to the input and next to the output.
struct Ends {
  std::uint32_t first = 0, last = 0;
};

/// Why the profile is not one of fully-connected layers; empty if it is.
std::string unfit(const Profile& p) {
  for (const Tensor& t : p.tensors) {
    if (t.shape.empty()) return "the shape of '" + t.name + "' is unknown";
    if (t.shape.size() > 2)
      return "'" + t.name + "' has " + std::to_string(t.shape.size()) +
             " dimensions: hidden units are dealt out in fully-connected layers only";
  }
  return {};
}

std::optional<Ends> ends_of(const Profile& p) {
  std::optional<Ends> ends;
  for (const Tensor& t : p.tensors) {
    if (t.shape.size() != 2) continue;
    if (!ends) ends = {t.layer, t.layer};
    ends->first = std::min(ends->first, t.layer), ends->last = std::max(ends->last, t.layer);
  }
  return ends && ends->first < ends->last ? ends : std::nullopt;
}

/// Hidden dimensions of a tensor: 2 inside, 1 next to the input or output; biases have one, the output's none.
int hidden_dimensions(const Tensor& t, const Ends& ends) {
  const bool first = t.layer <= ends.first, last = t.layer >= ends.last;
  return static_cast<int>(t.shape.size()) - (t.shape.size() == 2 && first) - last;
}

Bytes weights_of(const Profile& p, std::uint32_t layer) {
  Bytes sum;
  for (const Tensor& t : p.tensors)
    if (t.layer == layer && t.shape.size() == 2) sum += t.size;
  return sum;
}

Answer<Profile> one_subnet(const WhatIfInput& in) {
  const Profile& p = in.profile;
  const double workers = std::round(in.options[named("workers")]);
  if (const std::string why = unfit(p); !why.empty()) return Inapplicable{why};
  const std::optional<Ends> ends = ends_of(p);
  if (!ends) return Inapplicable{"the model has no hidden layer: fewer than two layers have weights"};
  Profile thin = p;
  for (Tensor& t : thin.tensors)
    if (const int hidden = hidden_dimensions(t, *ends); hidden > 0) {
      const double left = std::pow(workers, -hidden);
      t.size *= left, t.packing *= left, t.shape.clear();
    }
  const auto by = [&](double factor) { return Scale::compute(p, factor); };
  for (std::uint32_t l = 0; l < p.layers.size(); ++l) {
    const Bytes whole = weights_of(p, l);
    if (!(whole > Bytes(0))) continue;
    Bytes left;
    for (std::size_t t = 0; t < p.tensors.size(); ++t)
      if (p.tensors[t].layer == l && p.tensors[t].shape.size() == 2) left += thin.tensors[t].size;
    thin.layers[l].forward = scaled(p.layers[l].forward, by(left / whole));
    thin.layers[l].backward = scaled(p.layers[l].backward, by(left / whole));
  }
  const double share = thin.gradient_size() / p.gradient_size();
  thin.optimizer = scaled(p.optimizer, by(share));
  thin.communication.after *= share;
  thin.communication.sharding *= share;
  thin.assumed.push_back("one of " + number_text(workers) + " thin networks: " + number_text(100 * share) +
                         " % of the parameters; time of a layer proportional to its weights");
  return thin;
}

}  // namespace

extern constinit const WhatIf record{
    .name = "subnet",
    .title = "independent subnet",
    .summary = "the thin network that one of P workers trains: hidden units dealt out, compute and tensors shrunk",
    .reference = "Yuan et al., arXiv 1910.02120 (independent subnet training)",
    .options = options,
    .apply = one_subnet,
    .caution = "small matrix products do not fill a device: the time shrinks less than the weights do"};

}  // namespace stepcast::whatif::subnet
