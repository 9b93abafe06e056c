#pragma once
// Numbers without a unit as text, for reports and remarks (internal to the library).
#include <string>

namespace stepcast {

/// `digits` decimals; `sign` writes + as well. Zero has no sign.
[[nodiscard]] std::string fixed(double value, int digits, bool sign = false);
/// 0.123 is "12.3 %".
[[nodiscard]] std::string percent(double share, bool sign = false);

}  // namespace stepcast
