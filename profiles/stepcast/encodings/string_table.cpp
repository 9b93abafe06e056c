// Open addressing over the raw texts, which are copied once into blocks that never move.
#include <stepcast/encodings/string_table.hpp>

#include <cstring>
#include <utility>

namespace stepcast {
namespace {

// Multiply and fold eight bytes at a time, the last eight overlapping: names are short and mostly differ at the end.
std::uint32_t hash_of(std::string_view s) {
  constexpr std::uint64_t k = 0x9e3779b97f4a7c15u;
  std::uint64_t h = s.size() * k;
  const char* p = s.data();
  std::size_t n = s.size();
  if (n >= 8) {
    for (; n > 8; p += 8, n -= 8) {
      h = (h ^ word_at(p)) * k;
      h ^= h >> 29;
    }
    h = (h ^ word_at(p + n - 8)) * k;
  } else {
    std::uint64_t tail = 0;
    std::memcpy(&tail, p, n);
    h = (h ^ tail) * k;
  }
  h ^= h >> 32;
  return static_cast<std::uint32_t>((h * k) >> 32);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Four hexadecimal digits at `at`, or -1.
int code_unit(std::string_view raw, std::size_t at) {
  if (at + 4 > raw.size()) return -1;
  int unit = 0;
  for (std::size_t i = at; i < at + 4; ++i) {
    const int digit = hex_digit(raw[i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

void append_utf8(std::string& out, unsigned code) {
  const auto put = [&out](unsigned byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | (code >> 6));
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3f));
    put(0x80 | ((code >> 6) & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

// Appends what \uXXXX at raw[i] (the 'u') stands for; returns the index of its last character.
std::size_t append_unicode(std::string& out, std::string_view raw, std::size_t i) {
  const int unit = code_unit(raw, i + 1);
  if (unit < 0) {
    out += "\\u";
    return i;
  }
  if (unit >= 0xd800 && unit < 0xdc00 && raw.substr(i + 5, 2) == "\\u") {
    const int low = code_unit(raw, i + 7);
    if (low >= 0xdc00 && low < 0xe000) {
      append_utf8(out,
                  0x10000u + ((static_cast<unsigned>(unit) - 0xd800u) << 10) + static_cast<unsigned>(low) - 0xdc00u);
      return i + 10;
    }
  }
  const bool lone_surrogate = unit >= 0xd800 && unit < 0xe000;
  append_utf8(out, lone_surrogate ? 0xfffdu : static_cast<unsigned>(unit));
  return i + 4;
}

}  // namespace

std::string unescaped(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 == raw.size()) {
      out.push_back(raw[i]);
      continue;
    }
    switch (const char c = raw[++i]) {
      case 'n':
        out.push_back('\n');
        break;
      case 't':
        out.push_back('\t');
        break;
      case 'r':
        out.push_back('\r');
        break;
      case 'b':
        out.push_back('\b');
        break;
      case 'f':
        out.push_back('\f');
        break;
      case '"':
      case '\\':
      case '/':
        out.push_back(c);
        break;
      case 'u':
        i = append_unicode(out, raw, i);
        break;
      default:
        out.push_back('\\');
        out.push_back(c);
    }
  }
  return out;
}

StringTable::StringTable() : strings_(1), slots_(1024) {}

std::uint32_t StringTable::find_or_add(std::string_view key, bool escaped) {
  if (key.empty()) return 0;
  const std::uint32_t hash = hash_of(key);
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  for (; slots_[at].id; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.hash == hash && same_text({slot.key, slot.size}, key)) return slot.id;
  }
  const std::uint32_t id = add(key, escaped);
  // `add` may have entered another spelling and moved the slots: look for the free one again.
  if (++used_ * 2 > slots_.size()) grow();
  for (at = hash & (slots_.size() - 1); slots_[at].id; at = (at + 1) & (slots_.size() - 1)) {}
  slots_[at] = {hash, id, kept(key), key.size()};
  return id;
}

std::uint32_t StringTable::add(std::string_view key, bool escaped) {
  const auto fresh = [this](std::string text) {
    strings_.push_back(std::move(text));
    return static_cast<std::uint32_t>(strings_.size() - 1);
  };
  if (!escaped || key.find('\\') == std::string_view::npos) return fresh(std::string(key));
  std::string text = unescaped(key);
  if (text.find('\\') == std::string::npos) return text.empty() ? 0 : find_or_add(text, false);
  const auto [found, added] = unescaped_.try_emplace(text, 0);
  if (added) found->second = fresh(std::move(text));
  return found->second;
}

const char* StringTable::kept(std::string_view key) {
  constexpr std::size_t block_size = 1u << 16;
  if (key.size() > block_free_) {
    const std::size_t size = key.size() > block_size / 4 ? key.size() : block_size;
    blocks_.push_back(std::make_unique<char[]>(size));
    if (size == key.size()) {  // a block of its own; the current one goes on
      std::memcpy(blocks_.back().get(), key.data(), key.size());
      return blocks_.back().get();
    }
    block_next_ = blocks_.back().get();
    block_free_ = size;
  }
  char* const at = block_next_;
  std::memcpy(at, key.data(), key.size());
  block_next_ += key.size();
  block_free_ -= key.size();
  return at;
}

void StringTable::grow() {
  std::vector<Slot> larger(slots_.size() * 2);
  for (const Slot& slot : slots_) {
    if (!slot.id) continue;
    std::size_t at = slot.hash & (larger.size() - 1);
    while (larger[at].id) at = (at + 1) & (larger.size() - 1);
    larger[at] = slot;
  }
  slots_.swap(larger);
}

}  // namespace stepcast
