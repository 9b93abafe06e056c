#pragma once
// C settings: "key=value" texts, as the C interface takes them (internal to the library).
//
// Invariant: every key is known and, unless it may be repeated, given once; an empty value says nothing, as does a key
// that is not given. Not modelled: what the values mean, but for yes and no.
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepcast {

class CSettings {
 public:
  /// `list` ends with a null pointer, or is one. Throws InputError.
  CSettings(const char* const* list, std::span<const std::string_view> keys, std::string_view repeatable = {});

  /// The value; empty when nothing was said.
  [[nodiscard]] std::string text(std::string_view key) const;
  /// The values of a key that may be repeated, in order.
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const;
  /// Throws InputError for a value that is neither yes nor no.
  [[nodiscard]] bool yes(std::string_view key, bool otherwise) const;

 private:
  std::vector<std::pair<std::string, std::string>> said_;
};

}  // namespace stepcast
