#pragma once
// Inspection report: what files hold, as text (text/inspection.cpp) and as JSON (json/inspection.cpp).
#include <stepcast/documents/inspection.hpp>

#include <iosfwd>

namespace [[gnu::visibility("default")]] stepcast {

void write_inspection_text(std::ostream&, const Inspection&);
void write_inspection_json(std::ostream&, const Inspection&);

}  // namespace stepcast
