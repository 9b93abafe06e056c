#pragma once
// WireFormat: the fields of a protobuf message, one after the other, without a schema compiler.
//
// For the few messages of which a reader wants a few fields and which may be large: fields are views into the bytes,
// unknown ones are skipped. Malformed bytes end the walk; `damaged` tells it from a clean end. Groups (deprecated since
// 2008) count as damage.
#include <cstdint>
#include <cstring>
#include <string_view>

namespace stepcast {

class WireFields {
 public:
  explicit WireFields(std::string_view message) : rest_(message) {}

  /// Goes to the next field; false at the end.
  bool next() {
    if (rest_.empty()) return false;
    std::uint64_t tag = 0;
    if (!varint(tag) || tag >> 3 == 0 || tag >> 3 > (1u << 29)) return fail();
    number_ = static_cast<std::uint32_t>(tag >> 3);
    bytes_ = {};
    value_ = 0;
    switch (tag & 7) {
      case 0:
        return varint(value_) || fail();
      case 1:
        return fixed(8) || fail();
      case 2: {
        std::uint64_t size = 0;
        if (!varint(size) || size > rest_.size()) return fail();
        bytes_ = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return true;
      }
      case 5:
        return fixed(4) || fail();
      default:
        return fail();
    }
  }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  /// Of a length-delimited field: text, bytes or a message.
  [[nodiscard]] std::string_view bytes() const { return bytes_; }
  /// Of a varint or a fixed field, as bits.
  [[nodiscard]] std::int64_t integer() const { return static_cast<std::int64_t>(value_); }
  [[nodiscard]] bool damaged() const { return damaged_; }

 private:
  bool varint(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool fixed(std::size_t size) {
    if (rest_.size() < size) return false;
    std::memcpy(&value_, rest_.data(), size);  // little-endian, like every machine that this runs on
    rest_.remove_prefix(size);
    return true;
  }
  bool fail() {
    damaged_ = true;
    rest_ = {};
    return false;
  }

  std::string_view rest_, bytes_;
  std::uint64_t value_ = 0;
  std::uint32_t number_ = 0;
  bool damaged_ = false;
};

}  // namespace stepcast
