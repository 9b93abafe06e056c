#pragma once
// Verdict: whether a case passed: within its tolerance, and not worse than when its error was last recorded.
//
// Example: a case of 10 % tolerance that was recorded at +3.0 % passes up to +3.2 % (`ratchet_slack`). Not modelled:
// the spread of the measurement.
#include <stepcast/validation/cases.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace [[gnu::visibility("default")]] stepcast {

enum class Outcome : std::uint8_t { passed, failed, skipped, excluded };
[[nodiscard]] std::string_view name_of(Outcome);

struct CaseResult {
  Outcome outcome = Outcome::skipped;
  std::string reason;          ///< why it failed, was skipped or is excluded
  bool predicted_any = false;  ///< the numbers below are valid
  double predicted = 0, measured = 0;
  double error = 0;           ///< (predicted - measured) / measured; 0 of a job that ran out of memory and exceeds it
  double held = 0, card = 0;  ///< bytes: what the layout holds, as predicted, and the device has; 0: not known
  double low = 0, high = 0;   ///< P10-P90 of the prediction; equal where it states none
  std::string_view measured_there{};  ///< of an operation by an algorithm that carries tables (carried.hpp)
  [[nodiscard]] bool has_interval() const { return high > low; }
  [[nodiscard]] bool inside() const { return low <= measured && measured <= high; }
};

/// The ratchet's slack: an error may be this much larger than recorded before it counts as worse.
inline constexpr double ratchet_slack = 0.002;
/// Judges `result` (its predicted and measured values) and fills in error, outcome and reason.
void judge(const ValidationCase&, CaseResult& result);

}  // namespace stepcast
