// The sliding buffer, the string-aware scans that need no parser, and the repairs that are done in place.
#include <stepcast/base/printable.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/encodings/json_text.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

namespace stepcast {
namespace {

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

JsonText::JsonText(PlainText& plain, bool in_place) : plain_(plain) {
  const std::optional<std::string_view> stored = plain.as_stored();
  if (!in_place || !stored) return;
  text_ = const_cast<char*>(stored->data());
  end_ = stored->size();
  ended_ = true;
}

// The texts of `before`, then what is left behind the cursor, in a buffer of at least `size` bytes that nobody uses.
void JsonText::move_to_free_buffer(std::size_t size, std::span<const std::string_view> before) {
  const auto unused = [&](const std::shared_ptr<Buffer>& b) { return b.use_count() == 1 && b->size >= size; };
  auto next = std::find_if(buffers_.begin(), buffers_.end(), unused);
  if (next == buffers_.end()) {
    std::erase_if(buffers_, [](const std::shared_ptr<Buffer>& b) { return b.use_count() == 1; });
    // Not cleared: most of a large buffer is never touched where the text is short.
    size = std::bit_ceil(size);
    buffers_.push_back(std::make_shared<Buffer>(Buffer{std::unique_ptr<char[]>(new char[size]), size}));
    next = buffers_.end() - 1;
  }
  dropped_ = offset();
  char* at = (*next)->bytes.get();
  for (const std::string_view text : before) {
    at = std::copy(text.begin(), text.end(), at);
    dropped_ -= text.size();
  }
  at = std::copy(text_ + begin_, text_ + end_, at);
  buffer_ = *next;
  text_ = buffer_->bytes.get();
  begin_ = 0;
  end_ = static_cast<std::size_t>(at - text_);
}

void JsonText::refill(std::size_t count) {
  constexpr std::size_t piece = 1u << 20;
  const std::size_t rest = end_ - begin_, wanted = std::max(piece, count - rest);
  move_to_free_buffer(rest + wanted, {});
  const std::size_t got = plain_.read(std::span(buffer_->bytes.get() + rest, wanted));
  ended_ = got < wanted;
  end_ += got;
}

std::size_t JsonText::available(std::size_t count) {
  if (end_ - begin_ < count && !ended_) refill(count);
  return end_ - begin_;
}

JsonText::Piece JsonText::taken(std::size_t count) {
  Piece piece{{here(), count}, buffer_};
  advance(count);
  return piece;
}

void JsonText::put_back(std::span<const std::string_view> pieces) {
  std::size_t size = 0;
  for (const std::string_view text : pieces) size += text.size();
  if (size <= begin_ && (pieces.empty() || pieces.front().data() == here() - size)) {
    begin_ -= size;
  } else {
    move_to_free_buffer(size + end_ - begin_, pieces);
  }
}

void JsonText::used(std::uint64_t offset) {
  if (!buffer_) plain_.used(offset);
}

char JsonText::peek() {
  constexpr std::size_t piece = 1u << 16;
  for (;;) {
    if (begin_ == end_ && available(piece) == 0) return '\0';
    while (begin_ < end_ && is_space(text_[begin_])) ++begin_;
    if (begin_ < end_) return text_[begin_];
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
    while (begin_ < end_ && !done) done = scan.ends_with(text_[begin_++]);
    if (done && scan.before) --begin_;
    if (kept && kept->size() < limit) kept->append(text_ + first, begin_ - first);
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
  std::uint64_t replaced = 0;
  for (std::size_t i = 0; i < size;) {
    const std::size_t length =
        static_cast<unsigned char>(text[i]) < 0x80 ? 1 : utf8_length(std::string_view(text + i, size - i));
    if (length == 0) {
      text[i] = '?';
      ++replaced;
    }
    i += length == 0 ? 1 : length;
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
