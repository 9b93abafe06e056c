#pragma once
// TensorScheme: a published way of dividing the matrix products of a layer over a grid of devices.
//
// An open family: one record each in tensor_schemes/, listed in tensor_schemes.inc: 1-D (Megatron-LM), 2-D (Optimus,
// SUMMA), 2.5-D (Tesseract), 3-D. A scheme says which group sizes it can use, which collectives one unit needs forward
// and backward, and what share of operands and activations a device holds. The collectives lie on the critical path;
// none of these papers overlaps them. Invariant: one device sends nothing; volumes equal the published formulas
// (strategies.md's: `elements_per_layer`). Not modelled: rectangular grids.
#include <stepcast/base/error.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/roofline/model_shape.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct TensorGrid {
  std::int64_t devices = 1;
  std::int64_t side = 1;   ///< q
  std::int64_t depth = 1;  ///< 2.5-D
  bool operator==(const TensorGrid&) const = default;
};

/// A collective among a part of the tensor group.
struct TensorTransfer {
  Operation operation = Operation::all_reduce;
  std::int64_t members = 1;  ///< how many devices take part together
  Bytes size;                ///< full buffer (collective.hpp)
  double count = 1;          ///< per unit and pass
  std::int64_t stride = 1;   ///< between its members, in ranks of the group: a row of a grid 1, a column `side`
  bool operator==(const TensorTransfer&) const = default;
};

/// What one unit with hidden size h looks like to a scheme, for one micro-batch on one pipeline.
struct TensorWork {
  Bytes activation;                ///< batch x sequence x hidden
  Bytes weights;                   ///< all divided weights of the unit (a transformer block: 12 h^2)
  double weight_ratio = 0;         ///< divided weights / hidden^2: 12 for a transformer block with an MLP of 4 h
  int reductions = 2;              ///< sums over the group per forward pass in 1-D
  bool sequence_parallel = false;  ///< 1-D: all-gather and reduce-scatter in place of each all-reduce
  bool recomputed = false;         ///< the forward collectives run again in the backward pass
};

struct TensorScheme {
  std::string_view name;  ///< "1d", "2d", "2.5d", "3d"
  std::string_view title, summary, reference;
  /// The grid for so many devices (and depth), or why there is none.
  Answer<TensorGrid> (*grid)(std::int64_t devices, std::int64_t depth);
  /// Collectives of one unit, forward or backward.
  std::vector<TensorTransfer> (*forward)(const TensorGrid&, const TensorWork&);
  std::vector<TensorTransfer> (*backward)(const TensorGrid&, const TensorWork&);
  /// Elements sent per device and transformer layer, forward and backward, ring, no recomputation (tp_volumes).
  double (*elements_per_layer)(const TensorGrid&, double batch, double sequence, double hidden);
  /// Shares of an undivided unit that one device holds.
  double (*parameter_share)(const TensorGrid&);
  double (*activation_share)(const TensorGrid&);  ///< the share that a device keeps of what 1-D repeats on every device
  /// The product that one device computes, and how many of them.
  MatrixProduct (*local_product)(const TensorGrid&, const MatrixProduct&, Division);
};

[[nodiscard]] std::span<const TensorScheme> tensor_schemes();
[[nodiscard]] const TensorScheme* tensor_scheme(std::string_view name);

}  // namespace stepcast
