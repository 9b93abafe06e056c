// 3-D: products on a q x q x q cube; inputs, weights and outputs each lie on two of its dimensions and are divided over
// the third. Bian et al. 2021.
//
//   forward    all-gather inputs (7 b s h) and weights (12 h^2), reduce-scatter outputs (9 b s h):
//              (q-1)/q^3 x (16 b s h + 12 h^2) elements a device (block with an MLP of 4 h)
//   backward   all-gather the outputs' gradients, reduce-scatter those of inputs and weights: the same
//
// The gathered operands stay until the backward pass, which therefore does not gather them again; weights and
// activations at rest are 1/q^3 each, as in Colossal-AI's table. Bounds: the least volume of the schemes for large
// activations; grids are cubes.
#include <stepcast/layout/summa.hpp>

#include <cmath>

namespace stepcast::scheme::three_d {
namespace {

Answer<TensorGrid> grid(std::int64_t devices, std::int64_t depth) {
  const auto side = static_cast<std::int64_t>(std::llround(std::cbrt(static_cast<double>(devices))));
  if (depth != 1) return Inapplicable{"3d: its depth is its side; scheme=2.5d has one of its own"};
  if (devices < 1 || side * side * side != devices)
    return Inapplicable{"3d: " + std::to_string(devices) + " devices are no cube"};
  return TensorGrid{devices, side, 1};
}

/// Panels of a product: what q devices in a row hold together is 1/q^2 of the whole.
struct Panels {
  Bytes inputs, weights, outputs;
};
Panels panels_of(const TensorGrid& g, const TensorWork& work) {
  const double face = static_cast<double>(g.side * g.side);
  return {work.activation * (summa::inputs_of(work) / face), work.weights / face,
          work.activation * (summa::outputs_of(work) / face)};
}

void add_forward(const TensorGrid& g, const TensorWork& work, std::vector<TensorTransfer>& out) {
  const Panels p = panels_of(g, work);
  summa::add(out, Operation::all_gather, g.side, p.inputs, work, 1);
  summa::add(out, Operation::all_gather, g.side, p.weights, work, g.side);
  summa::add(out, Operation::reduce_scatter, g.side, p.outputs, work, g.side * g.side);
}
std::vector<TensorTransfer> forward(const TensorGrid& g, const TensorWork& work) {
  std::vector<TensorTransfer> out;
  add_forward(g, work, out);
  return out;
}
std::vector<TensorTransfer> backward(const TensorGrid& g, const TensorWork& work) {
  std::vector<TensorTransfer> out;
  if (work.recomputed) add_forward(g, work, out);
  const Panels p = panels_of(g, work);
  summa::add(out, Operation::all_gather, g.side, p.outputs, work, g.side * g.side);
  summa::add(out, Operation::reduce_scatter, g.side, p.inputs, work, 1);
  summa::add(out, Operation::reduce_scatter, g.side, p.weights, work, g.side);
  return out;
}

double elements_per_layer(const TensorGrid& g, double batch, double sequence, double hidden) {
  const double q = static_cast<double>(g.side);
  return 2 * (q - 1) / (q * q * q) * (16 * batch * sequence * hidden + 12 * hidden * hidden);
}

double share(const TensorGrid& g) { return 1 / static_cast<double>(g.devices); }

MatrixProduct local_product(const TensorGrid& g, const MatrixProduct& whole, Division division) {
  MatrixProduct part = whole;
  const double q = static_cast<double>(g.side);
  if (division == Division::columns || division == Division::rows) {
    part.m /= q;
    part.n /= q;
    part.k /= q;
  } else if (division == Division::heads) {
    part.batch /= q * q * q;
  }
  return part;
}

}  // namespace

extern constinit const TensorScheme record{.name = "3d",
                                           .title = "3-D",
                                           .summary = "inputs, weights and outputs divided over a cube",
                                           .reference = "Bian et al., arXiv 2105.14450",
                                           .grid = grid,
                                           .forward = forward,
                                           .backward = backward,
                                           .elements_per_layer = elements_per_layer,
                                           .parameter_share = share,
                                           .activation_share = share,
                                           .local_product = local_product};

}  // namespace stepcast::scheme::three_d
