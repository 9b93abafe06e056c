#pragma once
// Validation reports: the results of suites as text of 80 columns and as JSON (schema "stepcast.validation/1"), both in
// text/validation.cpp.
#include <stepcast/validation/validation.hpp>

#include <iosfwd>
#include <span>

namespace [[gnu::visibility("default")]] stepcast {

/// A line a suite, the regret of its choices, and the cases that failed or were skipped; `in_full`: every case.
void write_validation_text(std::ostream&, std::span<const SuiteResult>, bool in_full = false);
void write_validation_json(std::ostream&, std::span<const SuiteResult>);

}  // namespace stepcast
