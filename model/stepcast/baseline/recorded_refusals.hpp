#pragma once
// Recorded refusals: what cannot be asked of the recorded step, in the same words whoever asks (internal to the
// library).
//
//   --recorded: expected the step as it was recorded, found --step beside it; which scales the host's work ...
//
// `where` is the option by which the recorded step was asked for: "--recorded", "recorded" (SelfCheck::by_request).
#include <stepcast/base/error.hpp>

#include <string>
#include <string_view>

namespace stepcast::recorded_refusal {

/// A step that is said to take another time; `option`: how that was said, "--step".
[[nodiscard]] InputError beside_step(std::string_view where, std::string_view option);
/// The self-check was left out.
[[nodiscard]] InputError without_check(std::string_view where);
/// A profile that is not, or no longer, that of the traces.
[[nodiscard]] InputError of_changed_job(std::string_view where);
[[nodiscard]] InputError of_layouts(std::string_view where);
[[nodiscard]] InputError of_placement(std::string_view where);
[[nodiscard]] InputError of_own_plan(std::string_view where);
/// The timeline of another plan; `where`: what asked for it.
[[nodiscard]] InputError of_timeline(std::string_view where);

}  // namespace stepcast::recorded_refusal
