#pragma once
// Fit: latency and bandwidth from measured (size, time) points, with residuals.
//
// Least squares on the *relative* error (every size counts the same, from 1 KiB to 1 GiB), piecewise where one line
// does not fit: breakpoints are chosen by dynamic programming over the sorted points, and a further piece is kept only
// when it lowers the Bayesian information criterion. Also reads what benchmarks print. Not modelled: outliers; look at
// the residuals.
#include <stepcast/cluster/cluster.hpp>
#include <stepcast/cluster/collective.hpp>

#include <span>
#include <string>
#include <string_view>
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

/// All tables of an nccl-tests log (out-of-place times; lines may carry an "[1,0]<stdout>:" prefix), one a table.
/// Throws InputError when there is none.
[[nodiscard]] std::vector<MeasuredCollective> collectives_of_nccl_tests(std::string_view text, std::string_view source);
/// CSV with the columns size/bytes and time (unit in the header: time_s, ms_median, time_us, ...), and optionally op,
/// world/workers. Throws InputError naming line and column.
[[nodiscard]] std::vector<MeasuredCollective> collectives_of_csv(std::string_view text, std::string_view source);

struct Calibration {
  Cluster cluster;  ///< base cluster with fitted links and the measured tables
  struct Entry {
    MeasuredCollective measured;
    Fit fit;
    /// What the fitted links say, one time a size; empty for all but all-reduces of two workers or more.
    std::vector<Seconds> by_links{};
  };
  std::vector<Entry> entries;  ///< one per table, with residuals
  std::vector<std::string> notes;
};
/// Fits the links of `base` (its nodes, devices per node and names are kept) to measured all-reduces of one or several
/// world sizes with the cluster's algorithm ("table": with the ring). What `provenance` says of a replaced number goes.
[[nodiscard]] Calibration calibrated(Cluster base, std::span<const MeasuredCollective> measured);

}  // namespace stepcast
