#pragma once
// Fit: latency and bandwidth from measured (size, time) points, with residuals.
//
// Least squares on the *relative* error (every size counts the same, from 1 KiB to 1 GiB), piecewise where one line
// does not fit: breakpoints are chosen by dynamic programming over the sorted points, and a further piece is kept only
// when it lowers the Bayesian information criterion. Not modelled: outliers; look at the residuals.
#include <stepcast/cluster/collective.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// A line for sizes in [from, to].
struct FittedPiece {
  Bytes from, to;
  CostLine line;
  double worst_relative_error = 0;
};
struct Fit {
  std::vector<FittedPiece> pieces;
  std::vector<double> relative_residuals;  ///< (fitted - measured) / measured, one a point
  double rms_relative_error = 0;
  [[nodiscard]] Seconds operator()(Bytes) const;
};

/// One line, a >= 0 and b >= 0. Requires >= 2 points, sizes > 0, times > 0 (else InputError).
[[nodiscard]] Fit line_fit(std::span<const Bytes> sizes, std::span<const Seconds> times);
/// Up to `most_pieces` lines of three points or more each; at most 4000 points (else InputError).
[[nodiscard]] Fit piecewise_fit(std::span<const Bytes> sizes, std::span<const Seconds> times,
                                std::size_t most_pieces = 4);

}  // namespace stepcast
