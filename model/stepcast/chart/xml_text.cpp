// UTF-8 is checked character by character: what is malformed is replaced, not passed on.
#include <stepcast/chart/xml_text.hpp>

namespace stepcast {
namespace {

/// Bytes of the character that starts at `at`, 0 if they are no UTF-8.
std::size_t character_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned lead = byte(at);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xc2 ? 0
                             : lead < 0xe0 ? 2
                             : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4
                                           : 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  const unsigned second = byte(at + 1);  // overlong forms, surrogates and what is beyond Unicode
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) || (lead == 0xf0 && second < 0x90) ||
      (lead == 0xf4 && second > 0x8f))
    return 0;
  return length;
}

/// U+202A to U+202E and U+2066 to U+2069 turn the direction of the text around them: a name could pose as another.
bool turns_direction(std::string_view character) {
  return (character >= "\xe2\x80\xaa" && character <= "\xe2\x80\xae") ||
         (character >= "\xe2\x81\xa6" && character <= "\xe2\x81\xa9");
}

}  // namespace

std::string escaped_xml(std::string_view text) {
  constexpr std::string_view replacement = "\xef\xbf\xbd";
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text, at);
    const std::string_view character = text.substr(at, length);
    at += length == 0 ? 1 : length;
    if (length != 1) {
      // U+FFFE and U+FFFF are no characters of XML.
      const bool none = length == 0 || character == "\xef\xbf\xbe" || character == "\xef\xbf\xbf";
      out += none || turns_direction(character) ? replacement : character;
      continue;
    }
    switch (const char c = character.front()) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if ((static_cast<unsigned char>(c) >= 0x20 && c != '\x7f') || c == '\t' || c == '\n') out += c;
        else out += replacement;
    }
  }
  return out;
}

}  // namespace stepcast
