#pragma once
// XML text: any bytes as text that is safe between tags and in quoted attributes of XML and HTML.
//
// Names come from traces and files and are not to be trusted: what is no UTF-8, a control character or turns the
// direction of the text is replaced. Example: "a<b" is "a&lt;b".
#include <string>
#include <string_view>

namespace stepcast {

[[nodiscard]] std::string escaped_xml(std::string_view text);

}  // namespace stepcast
