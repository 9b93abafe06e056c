#pragma once
// Axis rules: what is asked of an axis by whoever makes a grid or a chart of it; defined in axis.cpp (internal to the
// library).
#include <stepcast/sweep/axis.hpp>

#include <span>
#include <string>
#include <string_view>

namespace stepcast {

/// The shape of the quantities that are no options.
struct SweepQuantityRule {
  SweepQuantity quantity;
  std::string_view name, column, title;
  std::string_view expected;  ///< what a value should be, for errors
};
[[nodiscard]] const SweepQuantityRule* rule_of(SweepQuantity);
/// Throws InputError for an axis whose name or values are none, in a question with these plans.
void check_axis(const SweepAxis&, std::span<const Plan> plans);
/// "network bandwidth (goodput)", "bucket of ddp": for the axis of a chart.
[[nodiscard]] std::string title_of(const SweepAxis&);

/// "5 ms" for text_of's "5.000 ms".
[[nodiscard]] std::string trimmed_text_of(Seconds);
/// Where an axis of the option named `name` ("bucket", "ddp.bucket") writes its value: the option of the plan's
/// strategy or of its modifiers; null where the plan has none. `spec` receives its kind and range.
[[nodiscard]] double* option_of(PlanSpec& plan, std::string_view name, const OptionSpec** spec = nullptr);
/// The same for an axis named after a what-if ("input.cache"): of the last one of that name in the scenario, which is
/// added where there is none. Throws InputError where that cannot be, because it has other options to be told.
void set_change(Scenario&, const SweepAxis&, double value);

}  // namespace stepcast
