#pragma once
// SUMMA: matrix products on a q x q grid, as the 2-D and 2.5-D tensor schemes use it.
//
// Operands and results lie in blocks on the grid. C = A B: in q steps a block of A is broadcast along each row and a
// block of B along each column (van de Geijn and Watts 1997); the steps of one product together move what a ring
// all-gather of the row's (column's) panel moves, (q-1)/q of it per device in q-1 steps, and that is how they are
// written here. Backward, A' = C' B^T and B' = A^T C': a broadcast of one operand and a reduction of the result each,
// so twice the volume of forward (Optimus, Xu et al. 2021). Internal to the library.
#include <stepcast/layout/tensor_scheme.hpp>

namespace stepcast::summa {

/// Elements of the inputs of a unit's products, in units of batch x sequence x hidden: a block with an MLP of r h has
/// inputs h (QKV), h (projection), h and r h (MLP), and weights (4 + 2 r) h^2, so that r follows from the weights.
inline double inputs_of(const TensorWork& work) { return work.reductions >= 2 ? 1 + work.weight_ratio / 2 : 1; }
/// The same for the outputs: 3 h (QKV), h, r h, h.
inline double outputs_of(const TensorWork& work) {
  return work.reductions >= 2 ? 3 + work.weight_ratio / 2 : work.weight_ratio;
}
/// Products of a unit: two per sum of the 1-D scheme.
inline double products_of(const TensorWork& work) { return work.reductions >= 2 ? 2.0 * work.reductions : 1; }

/// One panel per product, `total` over all of them.
inline void add(std::vector<TensorTransfer>& out, Operation operation, std::int64_t members, Bytes total,
                const TensorWork& work, std::int64_t stride) {
  const double count = products_of(work);
  if (members > 1 && total > Bytes(0)) out.push_back({operation, members, total / count, count, stride});
}

/// `activations` is the share of a unit's rows that one layer of the grid works on (1 / depth).
inline void add_forward(const TensorGrid& g, const TensorWork& work, double activations,
                        std::vector<TensorTransfer>& out) {
  const double q = static_cast<double>(g.side);
  add(out, Operation::all_gather, g.side, work.activation * (inputs_of(work) * activations / q), work, 1);
  add(out, Operation::all_gather, g.side, work.weights / q, work, g.side);
}
inline void add_backward(const TensorGrid& g, const TensorWork& work, double activations,
                         std::vector<TensorTransfer>& out) {
  if (work.recomputed) add_forward(g, work, activations, out);
  add_forward(g, work, activations, out);
  const double q = static_cast<double>(g.side);
  add(out, Operation::reduce_scatter, g.side, work.activation * (inputs_of(work) * activations / q), work, 1);
  add(out, Operation::reduce_scatter, g.side, work.weights / q, work, g.side);
}

/// A device's share of a product: q steps, each a product of blocks. Attention's products stay whole: batch over the
/// rows of the grid, heads over its columns.
inline MatrixProduct local_product(const TensorGrid& g, const MatrixProduct& whole, Division division) {
  MatrixProduct part = whole;
  const double q = static_cast<double>(g.side), depth = static_cast<double>(g.depth);
  if (division == Division::columns || division == Division::rows) {
    part.batch *= q;
    part.m /= q * depth;
    part.n /= q;
    part.k /= q;
  } else if (division == Division::heads) {
    part.batch /= q * q * depth;
  }
  return part;
}

}  // namespace stepcast::summa
