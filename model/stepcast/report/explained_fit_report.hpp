#pragma once
// Explained fit: what a calibration of the algorithm `nccl` found, beside what it started from, and how well its forms
// describe each table, by size (text/explained_fit.cpp).
//
// Example: "tree 0.76, typically 0.75"; "all_reduce on 16: 19/25 to 8 KiB". Not modelled: who of its algorithms ran.
#include <stepcast/calibration/calibration.hpp>
#include <stepcast/cluster/size_bands.hpp>

#include <iosfwd>

namespace [[gnu::visibility("default")]] stepcast {

/// Tables of 80 columns. Says so where another algorithm was fitted, whose numbers are its two links.
void write_explained_fit_text(std::ostream&, const Calibration&);

}  // namespace stepcast
