#pragma once
// Validation page: the results of suites as one HTML page without scripts or further files.
//
// Every case is a point: what was measured against what was predicted, with a bar for the prediction's interval.
#include <stepcast/validation/validation.hpp>

#include <iosfwd>
#include <span>

namespace [[gnu::visibility("default")]] stepcast {

void write_validation_html(std::ostream&, std::span<const SuiteResult>);

}  // namespace stepcast
