#pragma once
// Links fit report: the links that measured steps of a job show, and how far off every step is (text/links_fit.cpp).
//
// Text and JSON (schema "stepcast.links_fit/1") are made from the same value.
#include <stepcast/calibration/links_of_steps.hpp>

#include <iosfwd>
#include <span>

namespace [[gnu::visibility("default")]] stepcast {

struct LinksFitReport {
  const LinksFit& fit;
  std::span<const JobStep> steps;
};
void write_links_fit_text(std::ostream&, const LinksFitReport&);
void write_links_fit_json(std::ostream&, const LinksFitReport&);

}  // namespace stepcast
