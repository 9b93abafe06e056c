#include <stepcast/number_text.hpp>

#include <cstdio>
#include <string_view>

namespace stepcast {

std::string fixed(double value, int digits, bool sign) {
  char text[512];  // the largest double has 309 digits before the point
  std::snprintf(text, sizeof text, sign ? "%+.*f" : "%.*f", digits, value);
  // Zero has no sign: otherwise the last bit of a residual would show.
  const bool zero = std::string_view(text).find_first_of("123456789") == std::string_view::npos;
  return zero && (text[0] == '-' || text[0] == '+') ? text + 1 : text;
}

std::string percent(double share, bool sign) { return fixed(100 * share, 1, sign) + " %"; }

}  // namespace stepcast
