#pragma once
// JsonText: a cursor over JSON text of any length in bounded memory.
//
// The text is read or inflated into buffers, of which the one with the cursor and those with pieces that somebody holds
// are kept; plain text can also be read where it is. It can be read a character at a time (the few values around an
// array) or taken in pieces (the many events inside it), which other threads may read meanwhile.
#include <stepcast/encodings/inflate.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

class JsonText {
 public:
  /// `in_place`: what is stored plain is read where it is, without a copy.
  explicit JsonText(PlainText& plain, bool in_place = false);

  /// A stretch of the text that stays readable while this lives.
  struct Piece {
    std::string_view text;
    std::shared_ptr<const void> memory;
  };

  /// Makes at least `count` bytes available from the cursor, or all that are left; returns how many there are.
  std::size_t available(std::size_t count);
  /// First byte at the cursor; valid until the next call of `available`. Not to be written to if read in place.
  [[nodiscard]] char* here() { return text_ + begin_; }
  void advance(std::size_t count) { begin_ += count; }
  /// The next `count` bytes, which are available; the cursor goes behind them.
  [[nodiscard]] Piece taken(std::size_t count);
  /// Undoes the last calls of `taken`, whose pieces these are in their order; nothing else was read since.
  void put_back(std::span<const std::string_view> pieces);
  /// Says that the text before `offset` is needed no more.
  void used(std::uint64_t offset);
  /// True when all that is left is available.
  [[nodiscard]] bool at_last_part() const { return ended_; }
  /// Bytes of plain text before the cursor.
  [[nodiscard]] std::uint64_t offset() const { return dropped_ + begin_; }

  /// Skips white space; the character at the cursor, or '\0' at the end.
  char peek();
  /// Skips white space and `c` if it is next.
  bool take(char c);
  /// The value at the cursor, which is left behind it. Appends its text to `*kept` while that is below `limit` bytes.
  /// False when the text ends before the value does.
  bool value(std::string* kept, std::size_t limit);

 private:
  struct Buffer {
    std::unique_ptr<char[]> bytes;
    std::size_t size = 0;
  };
  void refill(std::size_t count);
  void move_to_free_buffer(std::size_t size, std::span<const std::string_view> before);

  PlainText& plain_;
  std::vector<std::shared_ptr<Buffer>> buffers_;  ///< reused when no piece is left in them
  std::shared_ptr<Buffer> buffer_;                ///< the one with the cursor; null where the text is read in place
  char* text_ = nullptr;
  std::size_t begin_ = 0, end_ = 0;
  std::uint64_t dropped_ = 0;
  bool ended_ = false;
};

/// What is between the quotes of a JSON string, or the trimmed text of any other value.
[[nodiscard]] inline std::string_view content_of(std::string_view json) {
  while (!json.empty() && static_cast<unsigned char>(json.back()) <= ' ') json.remove_suffix(1);
  if (json.size() >= 2 && json.front() == '"' && json.back() == '"') return json.substr(1, json.size() - 2);
  return json;
}
/// Length of the JSON object or array at the start of `text`, braces inside strings not counted; 0 if it does not end.
[[nodiscard]] std::size_t bracketed_size(std::string_view text);
/// Replaces bytes that are not UTF-8 by '?' and returns how many.
std::uint64_t repair_utf8(char* text, std::size_t size);
/// Replaces control characters inside strings by spaces and returns how many. A text that ends inside a string is left
/// alone: a quote is missing or too many, and what is inside a string cannot be told.
std::uint64_t repair_control_characters(char* text, std::size_t size);

}  // namespace stepcast
