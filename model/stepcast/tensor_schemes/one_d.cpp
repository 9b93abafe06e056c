// 1-D: weights are cut along one dimension, column-wise and then row-wise, so that a pair of products needs one sum.
// Shoeybi et al. 2019 (Megatron-LM).
//
//   per sum of b x s x h:   forward  all-reduce     2 (P-1)/P b s h
//                           backward all-reduce     the same
//   sequence parallel:      all-gather before the pair, reduce-scatter after it: the same volume, and what was repeated
//                           on every device (norms, dropout) is divided (Korthikanti et al. 2022). Their second
//                           all-gather of the input in the backward pass runs under the weight gradient: left out.
//
// A transformer block has two sums (attention, MLP): 4 (P-1)/P b s h a pass. Activations between the pairs are whole on
// every device. Bounds: the volume does not fall with P, so that it loses to grids for large activations and wins where
// weights are larger than activations.
#include <stepcast/layout/tensor_scheme.hpp>

namespace stepcast::scheme::one_d {
namespace {

Answer<TensorGrid> grid(std::int64_t devices, std::int64_t depth) {
  if (devices < 1) return Inapplicable{"1d: a tensor group has at least one device"};
  if (depth != 1) return Inapplicable{"1d: it has no depth; scheme=2.5d does"};
  return TensorGrid{devices, devices, 1};
}

void add_sums(const TensorGrid& g, const TensorWork& work, std::vector<TensorTransfer>& out) {
  if (g.devices == 1 || work.reductions == 0) return;
  const double count = work.reductions;
  if (work.sequence_parallel) {
    out.push_back({Operation::all_gather, g.devices, work.activation, count});
    out.push_back({Operation::reduce_scatter, g.devices, work.activation, count});
  } else {
    out.push_back({Operation::all_reduce, g.devices, work.activation, count});
  }
}
std::vector<TensorTransfer> forward(const TensorGrid& g, const TensorWork& work) {
  std::vector<TensorTransfer> out;
  add_sums(g, work, out);
  return out;
}
std::vector<TensorTransfer> backward(const TensorGrid& g, const TensorWork& work) {
  std::vector<TensorTransfer> out;
  if (work.recomputed) add_sums(g, work, out);
  add_sums(g, work, out);
  return out;
}

double elements_per_layer(const TensorGrid& g, double batch, double sequence, double hidden) {
  const double p = static_cast<double>(g.devices);
  return 2 * 4 * (p - 1) / p * batch * sequence * hidden;
}

double parameter_share(const TensorGrid& g) { return 1 / static_cast<double>(g.devices); }
double activation_share(const TensorGrid&) { return 1; }

MatrixProduct local_product(const TensorGrid& g, const MatrixProduct& whole, Division division) {
  MatrixProduct part = whole;
  const double p = static_cast<double>(g.devices);
  if (division == Division::columns) part.n /= p;
  else if (division == Division::rows) part.k /= p;
  else if (division == Division::heads) part.batch /= p;
  return part;
}

}  // namespace

extern constinit const TensorScheme record{
    .name = "1d",
    .title = "1-D (Megatron-LM)",
    .summary = "weights cut by columns, then by rows: one sum per pair of products",
    .reference = "Shoeybi et al., arXiv 1909.08053; Korthikanti et al., MLSys 2023",
    .grid = grid,
    .forward = forward,
    .backward = backward,
    .elements_per_layer = elements_per_layer,
    .parameter_share = parameter_share,
    .activation_share = activation_share,
    .local_product = local_product};

}  // namespace stepcast::scheme::one_d
