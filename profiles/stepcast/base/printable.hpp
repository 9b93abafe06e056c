#pragma once
// Printable: texts of strangers as a terminal may show them.
//
// Names of layers, models, devices and files come from traces that somebody else recorded; what steers a terminal
// (escape sequences, bells) must not get there, nor bytes that are no text. Every line of text that leaves the library
// or the program for people goes through here. Not modelled: letters that look alike, and letters that are wide.
#include <cstddef>
#include <string>
#include <string_view>

namespace stepcast {

/// The bytes of the UTF-8 character at the start of `text`; 0 where none starts there.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

/// One line in UTF-8: control characters (C0, DEL and C1, line breaks among them) stand as spaces, other bytes that are
/// no UTF-8 as '?'.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace stepcast
