// Chakra's messages on the wire.
#include <stepcast/encodings/wire_format.hpp>
#include <stepcast/formats/chakra/chakra.hpp>

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <bit>
#include <cmath>
#include <limits>

namespace stepcast::chakra_et {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

Value whole(std::uint64_t bits) {
  Value value;
  if (bits <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    value.number = static_cast<std::int64_t>(bits);
  return value;
}

Value real(double number) {
  Value value;
  if (std::isfinite(number) && std::abs(number) < 9e18) value.number = std::llround(number);
  return value;
}

// The number of the field is the type of the value.
Value current_value(const WireFields& field) {
  const auto signed_bits = static_cast<std::int64_t>(field.bits());
  switch (field.number()) {
    case 3:
      return real(std::bit_cast<double>(field.bits()));
    case 5:
      return real(std::bit_cast<float>(static_cast<std::uint32_t>(field.bits())));
    case 7:
    case 9:
      return {signed_bits, {}};
    case 15:
    case 17:
      return {WireFormatLite::ZigZagDecode64(field.bits()), {}};
    case 23:
      return {static_cast<std::int32_t>(static_cast<std::uint32_t>(field.bits())), {}};
    case 25:
      return {signed_bits, {}};
    case 29:
    case 31:
      return {{}, std::string(field.bytes())};
    default:
      return field.has_bytes() ? Value{} : whole(field.bits());
  }
}

Value old_value(const WireFields& field) {
  switch (field.number()) {
    case 5:
      return real(std::bit_cast<float>(static_cast<std::uint32_t>(field.bits())));
    case 7:
      return {static_cast<std::int64_t>(field.bits()), {}};
    case 8:
      return {{}, std::string(field.bytes())};
    default:
      return field.has_bytes() ? Value{} : whole(field.bits());
  }
}

bool expects_bytes(std::uint32_t number) { return number % 2 == 0 || number == 29 || number == 31; }

bool read_attribute(std::string_view message, std::map<std::string, Value>& attributes, Schema& schema) {
  WireFields field(message);
  std::string name;
  Value value;
  bool named = false;
  while (field.next()) {
    if (field.number() == 1) {
      if (!field.has_bytes()) return false;
      name = field.bytes();
      named = true;
    } else if (field.number() == 2 && !field.has_bytes()) {
      if (schema == Schema::current) return false;
      schema = Schema::attribute_types;
    } else if (schema == Schema::attribute_types) {
      if (field.number() >= 4 && field.number() <= 8) value = old_value(field);
    } else if (field.number() >= 3 && field.number() <= 34) {
      if (expects_bytes(field.number()) != field.has_bytes()) return false;
      if (schema == Schema::unknown) schema = Schema::current;
      value = current_value(field);
    }
  }
  if (field.damaged() || !named) return false;
  attributes.insert_or_assign(std::move(name), std::move(value));
  return true;
}

bool is_printable(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') return false;
  return true;
}

/// Repeated numbers: packed or one by one.
bool read_ids(const WireFields& field, std::vector<std::uint64_t>& ids) {
  if (field.is_varint()) {
    ids.push_back(field.bits());
    return true;
  }
  if (!field.has_bytes()) return false;
  for (std::string_view rest = field.bytes(); !rest.empty();) {
    std::uint64_t id = 0;
    const std::size_t size = read_varint(rest, id);
    if (size == 0) return false;
    ids.push_back(id);
    rest.remove_prefix(size);
  }
  return true;
}

bool read_inputs(std::string_view message, Node& node) {
  WireFields field(message);
  while (field.next()) {
    if (!field.has_bytes()) return false;
    if (field.number() == 1) node.values = field.bytes();
    if (field.number() == 2) node.shapes = field.bytes();
    if (field.number() == 3) node.types = field.bytes();
  }
  return !field.damaged();
}

bool read_current_field(const WireFields& field, Node& node) {
  Schema schema = Schema::current;
  switch (field.number()) {
    case 5:
      return read_ids(field, node.data);
    case 6:
      node.start_us = field.bits();
      return field.is_varint();
    case 7:
      node.duration_us = field.bits();
      return field.is_varint();
    case 8:
      return field.has_bytes() && read_inputs(field.bytes(), node);
    case 9:
      return field.has_bytes();
    case 10:
      return field.has_bytes() && read_attribute(field.bytes(), node.attributes, schema);
    default:
      return true;
  }
}

bool read_old_field(const WireFields& field, Node& node) {
  Schema schema = Schema::attribute_types;
  switch (field.number()) {
    case 5:
      node.values = field.bytes();
      return field.has_bytes();
    case 6:
      node.shapes = field.bytes();
      return field.has_bytes();
    case 7:
      node.types = field.bytes();
      return field.has_bytes();
    case 11:
      return field.has_bytes() && read_attribute(field.bytes(), node.attributes, schema);
    default:
      return true;
  }
}

void write_bytes(CodedOutputStream& out, int number, std::string_view bytes) {
  out.WriteTag(WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
  out.WriteVarint32(static_cast<std::uint32_t>(bytes.size()));
  out.WriteRaw(bytes.data(), static_cast<int>(bytes.size()));
}

void write_number(CodedOutputStream& out, int number, std::uint64_t value) {
  out.WriteTag(WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_VARINT));
  out.WriteVarint64(value);
}

/// The message that `write` writes.
template <class Write>
std::string written_by(Write write) {
  std::string bytes;
  {
    StringOutputStream stream(&bytes);
    CodedOutputStream out(&stream);
    write(out);
  }
  return bytes;
}

std::string with_length(const std::string& message) {
  return written_by([&](CodedOutputStream& out) {
    out.WriteVarint32(static_cast<std::uint32_t>(message.size()));
    out.WriteRaw(message.data(), static_cast<int>(message.size()));
  });
}

// What the reference feeder reads from which field: is_cpu_op as bool_val, the ends and the tag of a message as
// int32_val, tensor_size as uint64_val, all other numbers as int64_val.
int field_of(const std::string& attribute, const Value& value) {
  if (value.text) return 29;
  if (attribute == "is_cpu_op") return 27;
  if (attribute == "tensor_size") return 13;
  if (attribute == "comm_src" || attribute == "comm_dst" || attribute == "comm_tag" || attribute == "comm_priority")
    return 7;
  return 9;
}

void write_attributes(CodedOutputStream& out, int number, const std::map<std::string, Value>& attributes) {
  for (const auto& [name, value] : attributes) {
    write_bytes(out, number, written_by([&, &name = name, &value = value](CodedOutputStream& attribute) {
                  write_bytes(attribute, 1, name);
                  if (value.text) write_bytes(attribute, field_of(name, value), *value.text);
                  else if (value.number)
                    write_number(attribute, field_of(name, value), static_cast<std::uint64_t>(*value.number));
                }));
  }
}

void write_ids(CodedOutputStream& out, int number, const std::vector<std::uint64_t>& ids) {
  if (ids.empty()) return;
  write_bytes(out, number, written_by([&](CodedOutputStream& packed) {
                for (const std::uint64_t id : ids) packed.WriteVarint64(id);
              }));
}

}  // namespace

std::optional<std::int64_t> Node::number(const std::string& attribute) const {
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? std::nullopt : found->second.number;
}

std::string Node::text(const std::string& attribute) const {
  const auto found = attributes.find(attribute);
  if (found == attributes.end()) return {};
  if (found->second.text) return *found->second.text;
  return found->second.number ? std::to_string(*found->second.number) : std::string();
}

bool read_metadata(std::string_view message, Metadata& metadata, Schema& schema) {
  metadata = {};
  schema = Schema::unknown;
  WireFields field(message);
  while (field.next()) {
    if (!field.has_bytes()) return false;
    const bool attribute = field.number() == 2 || (field.number() == 1 && field.bytes().starts_with('\n'));
    if (attribute) {
      if (!read_attribute(field.bytes(), metadata.attributes, schema)) return false;
    } else if (field.number() == 1) {
      if (field.bytes().size() > 64 || !is_printable(field.bytes())) return false;
      metadata.version = field.bytes();
      schema = Schema::current;
    } else {
      return false;
    }
  }
  return !field.damaged();
}

bool read_node(std::string_view message, Schema schema, Node& node) {
  node = {};
  WireFields field(message);
  while (field.next()) {
    bool good = true;
    if (field.number() == 1) {
      node.id = field.bits();
      good = field.is_varint();
    } else if (field.number() == 2) {
      node.name = field.bytes();
      good = field.has_bytes();
    } else if (field.number() == 3) {
      node.type = field.bits() < 8 ? static_cast<NodeType>(field.bits()) : NodeType::other;
      good = field.is_varint();
    } else if (field.number() == 4) {
      good = read_ids(field, node.control);
    } else {
      good = schema == Schema::attribute_types ? read_old_field(field, node) : read_current_field(field, node);
    }
    if (!good) return false;
  }
  return !field.damaged();
}

std::string bytes_of(const Metadata& metadata) {
  return with_length(written_by([&](CodedOutputStream& out) {
    write_bytes(out, 1, metadata.version);
    write_attributes(out, 2, metadata.attributes);
  }));
}

std::string message_of(const Node& node) {
  return written_by([&](CodedOutputStream& out) {
    write_number(out, 1, node.id);
    write_bytes(out, 2, node.name);
    write_number(out, 3, static_cast<std::uint64_t>(node.type));
    write_ids(out, 4, node.control);
    write_ids(out, 5, node.data);
    write_number(out, 6, node.start_us);
    write_number(out, 7, node.duration_us);
    if (!node.values.empty() || !node.shapes.empty() || !node.types.empty())
      write_bytes(out, 8, written_by([&](CodedOutputStream& inputs) {
                    write_bytes(inputs, 1, node.values);
                    write_bytes(inputs, 2, node.shapes);
                    write_bytes(inputs, 3, node.types);
                  }));
    write_attributes(out, 10, node.attributes);
  });
}

std::string bytes_of(const Node& node) { return with_length(message_of(node)); }

std::string attribute_of(const std::string& name, const Value& value) {
  return written_by([&](CodedOutputStream& out) { write_attributes(out, 10, {{name, value}}); });
}

void append(std::string& to, std::string_view message, std::string_view attributes) {
  for (std::size_t left = message.size() + attributes.size();; left >>= 7) {
    to.push_back(static_cast<char>(left > 0x7f ? (left & 0x7f) | 0x80 : left));
    if (left <= 0x7f) break;
  }
  to.append(message).append(attributes);
}

}  // namespace stepcast::chakra_et
