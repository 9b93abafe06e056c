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
#include <vector>

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

/// ASCII letters in lower case, whatever the locale; all else as it is.
[[nodiscard]] constexpr char lower_case(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
[[nodiscard]] std::string lower_case(std::string_view text);
/// Letters and digits in lower case, parted by all else: "iteration time (ms)" is iteration, time, ms.
[[nodiscard]] std::vector<std::string> lower_words(std::string_view text);

/// "'a word'".
[[nodiscard]] std::string in_quotes(std::string_view text);
/// What was found where a word is expected: "'a word'", or "nothing" for an empty text.
[[nodiscard]] std::string in_quotes_or_nothing(std::string_view text);
/// `digits` decimals; `sign` writes + as well. Zero has no sign.
[[nodiscard]] std::string fixed(double value, int digits, bool sign = false);
/// 0.123 is "12.3 %".
[[nodiscard]] std::string percent(double share, bool sign = false);
/// 0.123 is "12 %".
[[nodiscard]] std::string whole_percent(double share);
/// "529.6 billion", "1.5 million"; below a million a whole number.
[[nodiscard]] std::string large_number_text(double n);
/// "1 worker", "4 workers".
[[nodiscard]] std::string counted(std::int64_t n, std::string_view noun);
/// "1 other plan was", "4 other plans were": where more than an s is added.
[[nodiscard]] std::string counted(std::int64_t n, std::string_view one, std::string_view many);
/// "a, b, c".
[[nodiscard]] std::string listed(std::span<const std::string> names);
/// Adds one to such a list.
void add_to_list(std::string& list, std::string_view item);
/// The list of anything that `text` turns into words.
template <class Range, class Text>
[[nodiscard]] std::string listed(const Range& all, const Text& text) {
  std::string list;
  for (const auto& one : all) add_to_list(list, text(one));
  return list;
}
/// What name is near to `word`, as a hint: "did you mean 'x'?", else `otherwise`.
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> names,
                                       std::string_view otherwise = {});

}  // namespace stepcast
