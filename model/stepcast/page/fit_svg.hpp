#pragma once
// Picture of a fit: measured collectives and what a calibration makes of them, as one SVG, a panel for each operation.
//
//   all_reduce
//   bus bandwidth |              o  .- o -  64 workers     o measured, as nccl-tests counts it
//                 |         o .-'~~~~~~~                   - fitted
//                 |    o .-' ~                             ~ within the band four of five measurements are expected
//                 +------------------------ message
//
// Both axes are logarithmic, and all panels have one vertical axis. A line is what the fitted links say (`by_links`),
// where they say anything, else the table's own fit. Its band is as wide as the lines of this operation miss what they
// were fitted to, root mean square of the logarithm by the band of the size (size_bands.hpp), made an interval as
// predictions make theirs. Points that the fit left out are rings. No script, no font, no network; light and dark
// follow `prefers-color-scheme`, and on a telephone the panels are drawn for its width. Invariant: same input, same
// bytes. Not modelled: what the cluster's tables answer, which is what was measured.
#include <stepcast/calibration/calibration.hpp>

#include <iosfwd>

namespace [[gnu::visibility("default")]] stepcast {

/// One worker exchanges nothing and is left out. Throws InputError where there is nothing else.
void write_fit_svg(std::ostream&, const Calibration&);

}  // namespace stepcast
