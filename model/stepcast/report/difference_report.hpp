#pragma once
// Reports of a difference of two recordings: text and JSON (internal to the reports and the program).
//
// text/difference.cpp and json/difference.cpp each write one of them.
#include <stepcast/baseline/step_difference.hpp>

#include <iosfwd>

namespace stepcast {

void write_difference_text(std::ostream&, const StepDifference&);
void write_difference_json(std::ostream&, const StepDifference&);

}  // namespace stepcast
