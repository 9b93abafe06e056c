// Numbers, counts and lists as they stand in sentences.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>

#include <cmath>
#include <cstdio>
#include <utility>

namespace stepcast {

std::string lower_case(std::string_view text) {
  std::string low(text);
  for (char& c : low) c = lower_case(c);
  return low;
}

std::vector<std::string> lower_words(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char letter : text) {
    const char c = lower_case(letter);
    const bool part = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (part && !inside) words.emplace_back();
    if (part) words.back() += c;
    inside = part;
  }
  return words;
}

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

std::string in_quotes_or_nothing(std::string_view text) { return text.empty() ? "nothing" : in_quotes(text); }

std::string fixed(double value, int digits, bool sign) {
  char text[512];  // the largest double has 309 digits before the point
  std::snprintf(text, sizeof text, sign ? "%+.*f" : "%.*f", digits, value);
  // Zero has no sign: otherwise the last bit of a residual would show.
  const bool zero = std::string_view(text).find_first_of("123456789") == std::string_view::npos;
  return zero && (text[0] == '-' || text[0] == '+') ? text + 1 : text;
}

std::string percent(double share, bool sign) { return fixed(100 * share, 1, sign) + " %"; }

std::string whole_percent(double share) { return std::to_string(std::lround(100 * share)) + " %"; }

std::string large_number_text(double n) {
  constexpr std::pair<double, std::string_view> scales[] = {{1e12, " trillion"}, {1e9, " billion"}, {1e6, " million"}};
  for (const auto& [scale, word] : scales)
    if (n >= scale) return fixed(n / scale, 1) + std::string(word);
  return fixed(n, 0);
}

std::string counted(std::int64_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

std::string counted(std::int64_t n, std::string_view one, std::string_view many) {
  return std::to_string(n) + " " + std::string(n == 1 ? one : many);
}

std::string listed(std::span<const std::string> names) {
  return listed(names, [](const std::string& name) -> const std::string& { return name; });
}

void add_to_list(std::string& list, std::string_view item) {
  if (!list.empty()) list += ", ";
  list += item;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> names, std::string_view otherwise) {
  const std::string near = suggestion_for(word, names);
  return near.empty() ? std::string(otherwise) : "did you mean " + in_quotes(near) + "?";
}

}  // namespace stepcast
