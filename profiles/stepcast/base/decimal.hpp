#pragma once
// Decimal text to integers: times in microseconds to whole nanoseconds, and 64-bit ids, never through a double.
#include <cstdint>
#include <string_view>

namespace stepcast {

enum class Parsed : std::uint8_t { fine, unreadable, out_of_range };

/// "123", "-1"; the whole text must be a number. A fraction is accepted if it is zero.
[[nodiscard]] Parsed read_integer(std::string_view text, std::int64_t& value);
/// Microseconds as decimal text ("1669783687464181", "4458676522718.702", "1.5e3") to nanoseconds; digits below one
/// nanosecond are rounded half up (away from zero). Out of range beyond 2^62 ns (146 years).
[[nodiscard]] Parsed read_microseconds(std::string_view text, std::int64_t& nanoseconds);

}  // namespace stepcast
