#pragma once
// Plan text: the reader of plans, from any place of a line. Internal to the library.
#include <stepcast/plan/strategy.hpp>

#include <string_view>

namespace stepcast {

/// Reads the plan that starts at `from` and goes on to the end of the text; refusals count columns from the beginning.
[[nodiscard]] PlanSpec plan_spec_from(std::string_view text, std::size_t from);

}  // namespace stepcast
