#pragma once
// Reports of an explanation: text and JSON (internal to the reports and the program).
//
// text/explanation.cpp and json/explanation.cpp each write one of them.
#include <stepcast/baseline/explanation.hpp>

#include <iosfwd>

namespace stepcast {

void write_explanation_text(std::ostream&, const Explanation&);
void write_explanation_json(std::ostream&, const Explanation&);

}  // namespace stepcast
