// Layers of the first pass give the forward times, those of the last one the backward times; the rest is summed.
#include <stepcast/extraction/accumulated_passes.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace stepcast {

std::size_t first_layer_of_last_pass(const Profile& p, int passes) {
  const std::size_t count = p.layers.size(), each = passes > 1 ? count / static_cast<std::size_t>(passes) : 0;
  if (each == 0 || each * static_cast<std::size_t>(passes) != count || p.backward_order.size() != count) return 0;
  const std::size_t first = count - each;
  const auto of_last = [&](std::uint32_t layer) { return layer >= first; };
  const auto in_last = [&](const Tensor& tensor) { return of_last(tensor.layer); };
  const bool alike = std::all_of(p.tensors.begin(), p.tensors.end(), in_last) &&
                     std::all_of(p.backward_order.end() - std::ptrdiff_t(each), p.backward_order.end(), of_last);
  return alike ? first : 0;
}

void fold_passes(Profile& p, int passes) {
  const std::size_t first = first_layer_of_last_pass(p, passes);
  if (first == 0) return;
  const std::size_t each = p.layers.size() - first;
  Layer between;
  between.name = "micro-batches 2 to " + std::to_string(passes);
  std::vector<Layer> layers;
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    if (l >= each) between.forward += p.layers[l].forward;
    if (l < first) between.forward += p.layers[l].backward;
    if (l < first) continue;
    Layer layer = std::move(p.layers[l]);
    layer.name = p.layers[l - first].name;
    layer.forward = p.layers[l - first].forward;
    for (std::size_t earlier = l; earlier >= each;) earlier -= each, layer.kept += p.layers[earlier].kept;
    layers.push_back(std::move(layer));
  }
  layers.push_back(std::move(between));
  std::vector<std::uint32_t> order{static_cast<std::uint32_t>(each)};
  for (auto at = p.backward_order.end() - std::ptrdiff_t(each); at != p.backward_order.end(); ++at)
    order.push_back(*at - static_cast<std::uint32_t>(first));
  for (Tensor& tensor : p.tensors) tensor.layer -= static_cast<std::uint32_t>(first);
  p.layers = std::move(layers);
  p.backward_order = std::move(order);
}

}  // namespace stepcast
