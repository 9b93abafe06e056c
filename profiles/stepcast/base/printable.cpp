// A character at a time; what is no character goes a byte at a time.
#include <stepcast/base/printable.hpp>

#include <algorithm>

namespace stepcast {

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  if (text.empty()) return 0;
  const unsigned b = byte(0), next = byte(1);
  if (b < 0x80) return 1;
  if (b >= 0xc2 && b < 0xe0 && follows(1)) return 2;
  if (b >= 0xe0 && b < 0xf0 && follows(1) && follows(2)) {
    const bool overlong = b == 0xe0 && next < 0xa0, surrogate = b == 0xed && next >= 0xa0;
    return overlong || surrogate ? 0 : 3;
  }
  if (b >= 0xf0 && b < 0xf5 && follows(1) && follows(2) && follows(3)) {
    const bool overlong = b == 0xf0 && next < 0x90, beyond = b == 0xf4 && next >= 0x90;
    return overlong || beyond ? 0 : 4;
  }
  return 0;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    const bool is_c0 = length == 1 && (first < 0x20 || first == 0x7f);
    const bool is_c1 = length == 2 && first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    if (length == 0) out += first < 0xa0 ? ' ' : '?';  // a lone byte may be a control character of eight bits
    else if (is_c0 || is_c1) out += ' ';
    else out += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

}  // namespace stepcast
