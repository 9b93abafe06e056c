// Chakra: execution traces of MLCommons (*.et), the input of ASTRA-sim and the output of its converters.
//
// A stream of protobuf messages, each behind its length (chakra.hpp): one GlobalMetadata, then the nodes of one rank.
// A text that ends within a message has lost its last node; a message that is none ends the reading. Written by
// mlcommons/chakra (et_converter, pytorch linker), astra-sim, and stepcast (chakra_export.hpp).
#include <stepcast/base/error.hpp>
#include <stepcast/encodings/inflate.hpp>
#include <stepcast/encodings/wire_format.hpp>
#include <stepcast/formats/chakra/chakra_trace.hpp>
#include <stepcast/formats/shared/format.hpp>

#include <algorithm>

namespace stepcast::format::chakra {
namespace {

using chakra_et::Schema;

/// Longer messages exist in no trace; a length beyond is damage.
constexpr std::uint64_t longest_message = std::uint64_t{64} << 20;

/// The messages of a stream, one by one, in memory bounded by the longest.
class Messages {
 public:
  explicit Messages(std::span<const std::byte> bytes) : plain_(bytes) {}

  enum class Next : std::uint8_t { message, end, cut, no_message };
  Next next(std::string_view& message) {
    fill(10);
    if (here().empty()) return Next::end;
    std::uint64_t length = 0;
    const std::size_t size = read_varint(here(), length);
    if (size == 0) return here().size() < 10 ? Next::cut : Next::no_message;
    if (length > longest_message) return Next::no_message;
    fill(size + length);
    if (here().size() < size + length) return Next::cut;
    message = here().substr(size, length);
    begin_ += size + length;
    return Next::message;
  }
  [[nodiscard]] std::uint64_t offset() const { return dropped_ + begin_; }
  [[nodiscard]] const PlainText& plain() const { return plain_; }

 private:
  [[nodiscard]] std::string_view here() const { return std::string_view(buffer_).substr(begin_); }
  // Reads on in steps, so that a length that the file does not have costs no memory.
  void fill(std::size_t wanted) {
    constexpr std::size_t step = std::size_t{1} << 20;
    if (buffer_.size() - begin_ >= wanted || ended_) return;
    dropped_ += begin_;
    buffer_.erase(0, begin_);
    begin_ = 0;
    while (buffer_.size() < wanted && !ended_) {
      const std::size_t old = buffer_.size();
      buffer_.resize(old + step);
      const std::size_t got = plain_.read(std::span(buffer_).subspan(old));
      buffer_.resize(old + got);
      ended_ = got < step;
    }
  }

  PlainText plain_;
  std::string buffer_;
  std::size_t begin_ = 0;
  std::uint64_t dropped_ = 0;
  bool ended_ = false;
};

/// A node of either schema with a name; the schema of nodes before 2023 had no attributes.
bool is_node(std::string_view message, Schema& schema) {
  chakra_et::Node node;
  for (const Schema candidate : {Schema::current, Schema::attribute_types}) {
    if (schema != Schema::unknown && schema != candidate) continue;
    if (!chakra_et::read_node(message, candidate, node) || node.name.empty()) continue;
    schema = candidate;
    return true;
  }
  return false;
}

std::string_view message_at(std::string_view& head, bool& whole) {
  std::uint64_t length = 0;
  const std::size_t size = read_varint(head, length);
  whole = size > 0 && length <= head.size() - size;
  if (!whole) return {};
  const std::string_view message = head.substr(size, length);
  head.remove_prefix(size + length);
  return message;
}

bool recognises(std::string_view head) {
  bool whole = false;
  chakra_et::Metadata metadata;
  Schema schema = Schema::unknown;
  const std::string_view first = message_at(head, whole);
  if (!whole) return false;
  if (!chakra_et::read_metadata(first, metadata, schema)) {
    // No metadata: nodes from the start.
    return is_node(first, schema) && (head.empty() || is_node(message_at(head, whole), schema));
  }
  const std::string_view second = message_at(head, whole);
  const bool said_something = !metadata.version.empty() || !metadata.attributes.empty();
  return whole ? is_node(second, schema) : said_something;
}

/// Before there was metadata, nodes had other fields under the same numbers, and no attributes.
void refuse_graph_of_2022(std::string_view message, Schema schema, const std::string& where) {
  chakra_et::Node node;
  if (schema != Schema::unknown && chakra_et::read_node(message, schema, node) && node.attributes.empty())
    throw InputError(where, "a Chakra execution trace (metadata, then nodes)",
                     "nodes without metadata and attributes, as execution graphs before 2023 had them",
                     "convert it again with a Chakra of 2023 or later");
}

Reading read(const Source& source, const ReadOptions& options) {
  Messages messages(source.bytes);
  ChakraTrace trace(source.name, options);
  chakra_et::Metadata metadata;
  chakra_et::Node node;
  Schema schema = Schema::unknown;
  std::string_view message;
  bool first = true;
  for (;; first = false) {
    const std::string at = source.name + "@" + std::to_string(messages.offset());
    const Messages::Next next = messages.next(message);
    if (next == Messages::Next::end) break;
    const bool is_metadata = next == Messages::Next::message && first && read_metadata(message, metadata, schema);
    if (is_metadata) continue;
    if (next == Messages::Next::message && schema == Schema::unknown) is_node(message, schema);
    if (first) refuse_graph_of_2022(message, schema, at);
    const bool good = next == Messages::Next::message && chakra_et::read_node(message, schema, node);
    if (!good && trace.size() == 0)
      throw InputError(at, "a node of a Chakra execution trace",
                       next == Messages::Next::cut ? "the end of the file" : "something else");
    if (!good) {
      trace.repaired(next == Messages::Next::cut ? "truncated tail: the file ends inside a node, 1 node dropped"
                                                 : "from byte " + std::to_string(messages.offset()) +
                                                       " on there are no nodes; the rest is left out");
      break;
    }
    trace.add(node, schema);
    if (options.progress && trace.size() % 4096 == 0) options.progress(messages.plain().share_read());
  }
  if (!messages.plain().damage().empty()) trace.repaired("truncated: " + messages.plain().damage());
  const bool old = schema == Schema::attribute_types;
  Reading reading;
  reading.traces.push_back(trace.finish(
      metadata, "chakra", old ? "Chakra execution trace (schema with attribute types, 2023)" : "Chakra execution trace",
      messages.offset()));
  return reading;
}

}  // namespace

Format record() {
  return {"chakra", "Chakra execution trace (*.et), the input of ASTRA-sim",
          "mlcommons/chakra schema/protobuf/et_def.proto", recognises, read};
}

}  // namespace stepcast::format::chakra
