#pragma once
// ForeignFiles: files that people have beside their traces and that no reader can use: what they are, why not, and what
// to give instead.
//
// Asked only about files that no format recognises. Told by content like everything else. Not modelled: reading them.
#include <optional>
#include <string_view>

namespace stepcast {

struct ForeignFile {
  std::string_view found;  ///< what it is and why it is no use
  std::string_view hint;   ///< what to give instead
};

/// What the first bytes belong to, if it is anything known.
[[nodiscard]] std::optional<ForeignFile> foreign_file(std::string_view head);

}  // namespace stepcast
