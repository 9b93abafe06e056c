// The sliding buffer, the string-aware scans that need no parser, and the repairs that are done in place.
#include <stepcast/json_text.hpp>

#include <algorithm>
#include <cstring>
#include <span>

namespace stepcast {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Where a JSON value is while its text goes by, a character at a time.
class ValueScan {
 public:
  /// True when the value ended with this character, or before it (`before`).
  bool ends_with(char c) {
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
        return depth_ == 0;
      }
      return false;
    }
    switch (c) {
      case '"':
        in_string_ = true;
        return false;
      case '{':
      case '[':
        ++depth_;
        return false;
      case '}':
      case ']':
        if (depth_ == 0) return before = true;
        return --depth_ == 0;
      case ',':
        if (depth_ == 0) return before = true;
        return false;
      default:
        return false;
    }
  }
  bool before = false;

 private:
  bool in_string_ = false, escaped_ = false;
  std::size_t depth_ = 0;
};

}  // namespace

void JsonText::refill(std::size_t count) {
  // One byte before the cursor stays, so that a window can be given an opening bracket.
  const std::size_t rest = end_ - begin_;
  if (begin_ > 1) {
    std::memmove(buffer_.data() + 1, buffer_.data() + begin_, rest);
    dropped_ += begin_ - 1;
    begin_ = 1;
    end_ = 1 + rest;
  }
  // The buffer grows with what is there, not with what is asked for: most texts are shorter.
  constexpr std::size_t least = 1u << 16;
  while (end_ - begin_ < count && !ended_) {
    const std::size_t goal = std::min(count, std::max(least, 2 * (end_ - begin_)));
    if (buffer_.size() < 1 + goal + padding) buffer_.resize(1 + goal + padding);
    const std::size_t wanted = 1 + goal - end_;
    const std::size_t got = plain_.read(std::span(buffer_.data() + end_, wanted));
    ended_ = got < wanted;
    end_ += got;
  }
}

std::size_t JsonText::available(std::size_t count) {
  if (end_ - begin_ < count && !ended_) refill(count);
  return end_ - begin_;
}

char JsonText::peek() {
  constexpr std::size_t piece = 1u << 16;
  for (;;) {
    if (begin_ == end_ && available(piece) == 0) return '\0';
    while (begin_ < end_ && is_space(buffer_[begin_])) ++begin_;
    if (begin_ < end_) return buffer_[begin_];
  }
}

bool JsonText::take(char c) {
  if (peek() != c) return false;
  ++begin_;
  return true;
}

bool JsonText::value(std::string* kept, std::size_t limit) {
  constexpr std::size_t piece = 1u << 16;
  peek();
  ValueScan scan;
  for (;;) {
    if (begin_ == end_ && available(piece) == 0) return false;
    const std::size_t first = begin_;
    bool done = false;
    while (begin_ < end_ && !done) done = scan.ends_with(buffer_[begin_++]);
    if (done && scan.before) --begin_;
    if (kept && kept->size() < limit) kept->append(buffer_.data() + first, begin_ - first);
    if (done) return true;
  }
}

std::size_t bracketed_size(std::string_view text) {
  ValueScan scan;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (scan.ends_with(text[i])) return scan.before ? i : i + 1;
  return 0;
}

std::uint64_t repair_utf8(char* text, std::size_t size) {
  const auto byte = [&](std::size_t i) { return i < size ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  std::uint64_t replaced = 0;
  for (std::size_t i = 0; i < size;) {
    const unsigned b = byte(i), next = byte(i + 1);
    std::size_t length = 0;
    if (b < 0x80) {
      length = 1;
    } else if (b >= 0xc2 && b < 0xe0 && follows(i + 1)) {
      length = 2;
    } else if (b >= 0xe0 && b < 0xf0 && follows(i + 1) && follows(i + 2)) {
      const bool overlong = b == 0xe0 && next < 0xa0, surrogate = b == 0xed && next >= 0xa0;
      length = overlong || surrogate ? 0 : 3;
    } else if (b >= 0xf0 && b < 0xf5 && follows(i + 1) && follows(i + 2) && follows(i + 3)) {
      const bool overlong = b == 0xf0 && next < 0x90, beyond = b == 0xf4 && next >= 0x90;
      length = overlong || beyond ? 0 : 4;
    }
    if (length == 0) {
      text[i] = '?';
      ++replaced;
      length = 1;
    }
    i += length;
  }
  return replaced;
}

std::uint64_t repair_control_characters(char* text, std::size_t size) {
  std::vector<std::size_t> found;
  bool in_string = false;
  for (std::size_t i = 0; i < size; ++i) {
    const char c = text[i];
    if (c == '"') {
      in_string = !in_string;
    } else if (in_string && c == '\\') {
      ++i;
    } else if (in_string && static_cast<unsigned char>(c) < 0x20) {
      found.push_back(i);
    }
  }
  if (in_string) return 0;
  for (const std::size_t i : found) text[i] = ' ';
  return found.size();
}

}  // namespace stepcast
