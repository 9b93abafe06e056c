#pragma once
// JsonText: a cursor over JSON text of any length in bounded memory, with room to parse a part of it in place.
//
// The buffer slides: what lies before the cursor is given up when more is needed. It can be read a character at a time
// (the few values around an array) or a window at a time (the many events inside it). Damage is repaired in place.
#include <stepcast/inflate.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

class JsonText {
 public:
  /// Bytes that are readable behind any window, whatever they hold.
  static constexpr std::size_t padding = 128;
  explicit JsonText(PlainText& plain) : plain_(plain) {}

  /// Makes at least `count` bytes available from the cursor, or all that are left; returns how many there are.
  std::size_t available(std::size_t count);
  /// First byte at the cursor; valid until the next call of `available`. One byte before it may be overwritten.
  [[nodiscard]] char* here() { return buffer_.data() + begin_; }
  void advance(std::size_t count) { begin_ += count; }
  /// True when the buffer holds all that is left.
  [[nodiscard]] bool at_last_part() const { return ended_; }
  /// Bytes of plain text before the cursor.
  [[nodiscard]] std::uint64_t offset() const { return dropped_ + begin_ - 1; }

  /// Skips white space; the character at the cursor, or '\0' at the end.
  char peek();
  /// Skips white space and `c` if it is next.
  bool take(char c);
  /// The value at the cursor, which is left behind it. Appends its text to `*kept` while that is below `limit` bytes.
  /// False when the text ends before the value does.
  bool value(std::string* kept, std::size_t limit);

 private:
  void refill(std::size_t count);

  PlainText& plain_;
  std::vector<char> buffer_ = std::vector<char>(1 + padding);
  std::size_t begin_ = 1, end_ = 1;
  std::uint64_t dropped_ = 0;
  bool ended_ = false;
};

/// Length of the JSON object or array at the start of `text`, braces inside strings not counted; 0 if it does not end.
[[nodiscard]] std::size_t bracketed_size(std::string_view text);
/// Replaces bytes that are not UTF-8 by '?' and returns how many.
std::uint64_t repair_utf8(char* text, std::size_t size);
/// Replaces control characters inside strings by spaces and returns how many. A text that ends inside a string is left
/// alone: a quote is missing or too many, and what is inside a string cannot be told.
std::uint64_t repair_control_characters(char* text, std::size_t size);

}  // namespace stepcast
