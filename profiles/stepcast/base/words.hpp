#pragma once
// Words: what readers ask of a piece of text, and how messages and reports put words and numbers together.
//
// One wording each: a list is "a, b, c", a count is "1 worker" or "4 workers", a share is "12.3 %", zero has no sign,
// and a word that nobody knows is answered by the nearest that is known. Internal to the library and its program. ASCII
// white space only.
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace stepcast {

[[nodiscard]] inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/// Without white space at both ends.
[[nodiscard]] inline std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

[[nodiscard]] inline bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](std::string_view b) { return text.starts_with(b); });
}

[[nodiscard]] inline bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

/// `digits` decimals; `sign` writes + as well. Zero has no sign.
[[nodiscard]] std::string fixed(double value, int digits, bool sign = false);
/// 0.123 is "12.3 %".
[[nodiscard]] std::string percent(double share, bool sign = false);
/// "1 worker", "4 workers".
[[nodiscard]] std::string counted(std::int64_t n, std::string_view noun);
/// "a, b, c".
[[nodiscard]] std::string listed(std::span<const std::string> names);
/// What name is near to `word`, as a hint: "did you mean 'x'?", else `otherwise`.
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> names,
                                       std::string_view otherwise = {});

}  // namespace stepcast
