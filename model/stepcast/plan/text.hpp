#pragma once
// Plan text: the reader of plans, from any place of a line, and the texts of their options. Internal to the library.
#include <stepcast/plan/strategy.hpp>

#include <string>
#include <string_view>

namespace stepcast {

/// Reads the plan that starts at `from` and goes on to the end of the text; refusals count columns from the beginning.
[[nodiscard]] PlanSpec plan_spec_from(std::string_view text, std::size_t from);
/// "25 MiB", "3.5 ms", "4", the name of a choice, "auto": reads back to the same value.
[[nodiscard]] std::string option_value_text(const OptionSpec&, double value);

}  // namespace stepcast
