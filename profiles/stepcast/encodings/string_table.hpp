#pragma once
// StringTable: strings of a trace, each once, found by the raw text between the quotes of a JSON string.
//
// Looking up by raw text means that a name is unescaped once per trace and not once per event. Two raw spellings of the
// same text get the same id. Escapes are read leniently: old writers put file paths with single backslashes into names.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stepcast {

/// Eight bytes as a number, from any address.
[[nodiscard]] inline std::uint64_t word_at(const char* p) {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

/// Equality of texts that are mostly short and mostly equal, without a call.
[[nodiscard]] inline bool same_text(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  if (a.size() < 8) {
    for (std::size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i]) return false;
    return true;
  }
  const std::size_t last = a.size() - 8;
  for (std::size_t i = 0; i < last; i += 8)
    if (word_at(a.data() + i) != word_at(b.data() + i)) return false;
  return word_at(a.data() + last) == word_at(b.data() + last);
}

class StringTable {
 public:
  StringTable();
  /// The id of the JSON string whose text between the quotes is `raw`; 0 for the empty string.
  std::uint32_t id_of_json(std::string_view raw) { return find_or_add(raw, true); }
  /// The id of `text` as it stands.
  std::uint32_t id_of(std::string_view text) { return find_or_add(text, false); }
  [[nodiscard]] const std::string& operator[](std::uint32_t id) const { return strings_[id]; }
  [[nodiscard]] std::size_t size() const { return strings_.size(); }
  /// Hands over the strings; the table is empty afterwards.
  [[nodiscard]] std::vector<std::string> release() {
    return {std::make_move_iterator(strings_.begin()), std::make_move_iterator(strings_.end())};
  }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t id = 0;  ///< 0: free
    const char* key = nullptr;
    std::size_t size = 0;
  };
  std::uint32_t find_or_add(std::string_view key, bool escaped);
  std::uint32_t add(std::string_view key, bool escaped);
  const char* kept(std::string_view key);
  void grow();

  std::deque<std::string> strings_;  ///< stay where they are
  std::vector<Slot> slots_;
  std::size_t used_ = 0;
  std::deque<std::unique_ptr<char[]>> blocks_;
  std::size_t block_free_ = 0;
  char* block_next_ = nullptr;
  std::unordered_map<std::string, std::uint32_t> unescaped_;  ///< texts that were written with escapes
};

/// The text of a JSON string from between its quotes; an unknown escape stands for itself.
[[nodiscard]] std::string unescaped(std::string_view raw);

}  // namespace stepcast
