// Numbers, counts and lists as they stand in sentences.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>

#include <cstdio>

namespace stepcast {

std::string fixed(double value, int digits, bool sign) {
  char text[512];  // the largest double has 309 digits before the point
  std::snprintf(text, sizeof text, sign ? "%+.*f" : "%.*f", digits, value);
  // Zero has no sign: otherwise the last bit of a residual would show.
  const bool zero = std::string_view(text).find_first_of("123456789") == std::string_view::npos;
  return zero && (text[0] == '-' || text[0] == '+') ? text + 1 : text;
}

std::string percent(double share, bool sign) { return fixed(100 * share, 1, sign) + " %"; }

std::string counted(std::int64_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

std::string listed(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> names, std::string_view otherwise) {
  const std::string near = suggestion_for(word, names);
  return near.empty() ? std::string(otherwise) : "did you mean '" + near + "'?";
}

}  // namespace stepcast
