// 2.5-D: d layers of a q x q grid share the rows of the activations; each layer has all weights. Wang et al. 2021
// (Tesseract).
//
//   forward    (7 b s h / d + 12 h^2) / q x (q-1)/q elements a device (block with an MLP of 4 h)
//   backward   twice that, and the sum of the weight gradients over the layers, 2 (d-1)/d x 12 h^2 / q^2
//
// Every device holds 1/q^2 of the weights and 1/(d q^2) of the activations. Bounds: d = 1 is the 2-D scheme; d <= q.
#include <stepcast/layout/summa.hpp>

#include <cmath>

namespace stepcast::scheme::two_and_a_half_d {
namespace {

Answer<TensorGrid> grid(std::int64_t devices, std::int64_t depth) {
  if (depth < 1 || devices < 1 || devices % depth != 0)
    return Inapplicable{"2.5d: " + std::to_string(devices) + " devices do not divide into " + std::to_string(depth) +
                        " layers"};
  const std::int64_t layer = devices / depth;
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(layer))));
  if (side * side != layer)
    return Inapplicable{"2.5d: " + std::to_string(devices) + " devices in " + std::to_string(depth) +
                        " layers are no square grids (depth= says how many layers)"};
  if (depth > side)
    return Inapplicable{"2.5d: the depth (" + std::to_string(depth) + ") exceeds the grid's side (" +
                        std::to_string(side) + ")"};
  return TensorGrid{devices, side, depth};
}

double rows_of(const TensorGrid& g) { return 1 / static_cast<double>(g.depth); }

std::vector<TensorTransfer> forward(const TensorGrid& g, const TensorWork& work) {
  std::vector<TensorTransfer> out;
  summa::add_forward(g, work, rows_of(g), out);
  return out;
}
std::vector<TensorTransfer> backward(const TensorGrid& g, const TensorWork& work) {
  std::vector<TensorTransfer> out;
  summa::add_backward(g, work, rows_of(g), out);
  const std::int64_t layer = g.side * g.side;
  summa::add(out, Operation::all_reduce, g.depth, work.weights / static_cast<double>(layer), work, layer);
  return out;
}

double elements_per_layer(const TensorGrid& g, double batch, double sequence, double hidden) {
  const double q = static_cast<double>(g.side), d = static_cast<double>(g.depth), weights = 12 * hidden * hidden;
  return 3 * (7 * batch * sequence * hidden / d + weights) / q * (q - 1) / q + 2 * (d - 1) / d * weights / (q * q);
}

double parameter_share(const TensorGrid& g) { return 1 / static_cast<double>(g.side * g.side); }
double activation_share(const TensorGrid& g) { return 1 / static_cast<double>(g.devices); }

}  // namespace

extern constinit const TensorScheme record{.name = "2.5d",
                                           .title = "2.5-D (Tesseract)",
                                           .summary = "layers of square grids that share the activations' rows",
                                           .reference = "Wang et al., arXiv 2105.14500",
                                           .grid = grid,
                                           .forward = forward,
                                           .backward = backward,
                                           .elements_per_layer = elements_per_layer,
                                           .parameter_share = parameter_share,
                                           .activation_share = activation_share,
                                           .local_product = summa::local_product};

}  // namespace stepcast::scheme::two_and_a_half_d
