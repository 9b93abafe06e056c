#pragma once
// WireFormat: the fields of a protobuf message, one after the other, without a schema compiler.
//
// For the few messages of which a reader wants a few fields and which may be large: fields are views into the bytes,
// unknown ones are skipped. Varints and fixed words are read by protobuf's own stream. Malformed bytes end the walk;
// `damaged` tells that from a clean end. Groups (deprecated since 2008) count as damage. Not modelled: messages of
// 2 GiB and more, which protobuf does not know either.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>
#include <limits>
#include <string_view>

namespace stepcast {

class WireFields {
 public:
  static constexpr std::size_t longest_message = std::numeric_limits<std::int32_t>::max();

  explicit WireFields(std::string_view message)
      : message_(message.substr(0, longest_message)),
        input_(reinterpret_cast<const std::uint8_t*>(message_.data()), static_cast<int>(message_.size())),
        damaged_(message.size() > longest_message) {}

  /// Goes to the next field; false at the end.
  bool next() {
    bytes_ = {};
    value_ = 0;
    if (damaged_ || position() == message_.size()) return false;
    const std::uint32_t tag = input_.ReadTag();
    number_ = static_cast<std::uint32_t>(WireFormatLite::GetTagFieldNumber(tag));
    type_ = WireFormatLite::GetTagWireType(tag);
    damaged_ = number_ == 0 || !read_value();
    return !damaged_;
  }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] bool is_varint() const { return type_ == WireFormatLite::WIRETYPE_VARINT; }
  /// Length-delimited: text, bytes, a message, or packed numbers.
  [[nodiscard]] bool has_bytes() const { return type_ == WireFormatLite::WIRETYPE_LENGTH_DELIMITED; }
  [[nodiscard]] std::string_view bytes() const { return bytes_; }
  /// Of a varint or a fixed field.
  [[nodiscard]] std::uint64_t bits() const { return value_; }
  [[nodiscard]] std::int64_t integer() const { return static_cast<std::int64_t>(value_); }
  [[nodiscard]] bool damaged() const { return damaged_; }

 private:
  using WireFormatLite = google::protobuf::internal::WireFormatLite;

  [[nodiscard]] std::size_t position() const { return static_cast<std::size_t>(input_.CurrentPosition()); }

  bool read_value() {
    std::uint32_t small = 0;
    switch (type_) {
      case WireFormatLite::WIRETYPE_VARINT:
        return input_.ReadVarint64(&value_);
      case WireFormatLite::WIRETYPE_FIXED64:
        return input_.ReadLittleEndian64(&value_);
      case WireFormatLite::WIRETYPE_FIXED32:
        if (!input_.ReadLittleEndian32(&small)) return false;
        value_ = small;
        return true;
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        if (!input_.ReadVarint32(&small) || small > message_.size() - position()) return false;
        bytes_ = message_.substr(position(), small);
        return input_.Skip(static_cast<int>(small));
      default:
        return false;
    }
  }

  std::string_view message_, bytes_;
  google::protobuf::io::CodedInputStream input_;
  std::uint64_t value_ = 0;
  std::uint32_t number_ = 0;
  WireFormatLite::WireType type_ = WireFormatLite::WIRETYPE_VARINT;
  bool damaged_ = false;
};

/// Length of the varint at the start of `text` and its value; 0 when there is none within 10 bytes.
[[nodiscard]] inline std::size_t read_varint(std::string_view text, std::uint64_t& value) {
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const std::uint8_t*>(text.data()),
                                               static_cast<int>(text.substr(0, 10).size()));
  return input.ReadVarint64(&value) ? static_cast<std::size_t>(input.CurrentPosition()) : 0;
}

}  // namespace stepcast
