// What what-ifs share: refusals, numbers as text, and the activations of selected layers.
#include <stepcast/profile/profile_whatif.hpp>
#include <stepcast/whatif/common.hpp>

#include <algorithm>
#include <cstdio>

namespace stepcast {

Inapplicable computed_on_host(const std::string& why) { return {"the step was computed on the host: " + why}; }

Inapplicable no_such_layer(const Profile& p, const std::string& patterns) {
  constexpr std::size_t shown = 4;
  std::string names;
  for (std::size_t l = 0; l < std::min(shown, p.layers.size()); ++l) names += (l > 0 ? ", " : "") + p.layers[l].name;
  if (p.layers.size() > shown) names += ", ...";
  return {"no layer fits '" + patterns + "'; there are " + names};
}

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

Seconds host_time(const Profile& p, std::span<const PassPlace> places) {
  Seconds sum;
  for (const PassPlace& place : places) sum += cost_at(p, place).host;
  return sum;
}

Answer<std::vector<Bytes>> activations(const Profile& p, const std::string& patterns, Bytes size) {
  const Bytes total = size > Bytes(0) ? size : p.activation_memory;
  if (!(total > Bytes(0)))
    return Inapplicable{"the profile does not say how large the activations are: give size=, such as size=8 GiB"};
  std::vector<double> weight(p.layers.size());
  double sum = 0;
  for (const bool whole : {false, true}) {
    for (std::size_t l = 0; l < weight.size(); ++l) {
      const PassCost& forward = p.layers[l].forward;
      weight[l] = std::max(0.0, (whole ? forward.device : forward.device - forward.part[KernelClass::gemm]).value());
      sum += weight[l];
    }
    if (sum > 0) break;  // else all of it is matrix products
  }
  if (!(sum > 0)) return Inapplicable{"no layer has device time in its forward pass"};
  std::vector<Bytes> out(p.layers.size());
  for (const std::uint32_t l : selected_layers(p, patterns)) out[l] = total * (weight[l] / sum);
  return out;
}

}  // namespace stepcast
