// 2-D: products by SUMMA on a q x q grid, activations and weights both in blocks. Xu et al. 2021 (Optimus).
//
//   forward    (7 b s h + 12 h^2) / q x (q-1)/q elements a device (block with an MLP of 4 h)
//   backward   twice that
//
// Every device holds 1/q^2 of weights and of activations. Bounds: volumes fall with q = sqrt(P), where the 1-D scheme's
// stay; weights travel too, so that small batches lose. Grids are squares.
#include <stepcast/layout/summa.hpp>

#include <cmath>

namespace stepcast::scheme::two_d {
namespace {

Answer<TensorGrid> grid(std::int64_t devices, std::int64_t depth) {
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(devices))));
  if (depth != 1) return Inapplicable{"2d: it has no depth; scheme=2.5d does"};
  if (devices < 1 || side * side != devices)
    return Inapplicable{"2d: " + std::to_string(devices) + " devices are no square grid"};
  return TensorGrid{devices, side, 1};
}

std::vector<TensorTransfer> forward(const TensorGrid& g, const TensorWork& work) {
  std::vector<TensorTransfer> out;
  summa::add_forward(g, work, 1, out);
  return out;
}
std::vector<TensorTransfer> backward(const TensorGrid& g, const TensorWork& work) {
  std::vector<TensorTransfer> out;
  summa::add_backward(g, work, 1, out);
  return out;
}

double elements_per_layer(const TensorGrid& g, double batch, double sequence, double hidden) {
  const double q = static_cast<double>(g.side);
  return 3 * (7 * batch * sequence * hidden + 12 * hidden * hidden) / q * (q - 1) / q;
}

double share(const TensorGrid& g) { return 1 / static_cast<double>(g.devices); }

}  // namespace

extern constinit const TensorScheme record{.name = "2d",
                                           .title = "2-D (Optimus, SUMMA)",
                                           .summary = "blocks of activations and weights on a square grid",
                                           .reference = "Xu et al., arXiv 2104.05343",
                                           .grid = grid,
                                           .forward = forward,
                                           .backward = backward,
                                           .elements_per_layer = elements_per_layer,
                                           .parameter_share = share,
                                           .activation_share = share,
                                           .local_product = summa::local_product};

}  // namespace stepcast::scheme::two_d
