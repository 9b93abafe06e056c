#pragma once
// Room formats/chakra: the parts of the readers and the writer of Chakra execution traces.
//
// Example: node 7 "aten::mm" with data_deps [3, 5] waits for nodes 3 and 5.
//
// It may include base, encodings, profile, trace and formats/shared.
//
// Chakra: execution traces as MLCommons defines them (et_def.proto), a message at a time, for the reader and the
// writer.
//
// A file is a stream of messages, each behind its length: GlobalMetadata, then Nodes. Field numbers are those of the
// schema since 2023 (GlobalMetadata: version 1, attr 2; Node: id 1, name 2, type 3, ctrl_deps 4, data_deps 5,
// start_time_micros 6, duration_micros 7, inputs 8, outputs 9, attr 10; IOInfo: values 1, shapes 2, types 3;
// AttributeProto: name 1, the value in the field of its type) and of the one before (GlobalMetadata: attribute 1; Node:
// parent 4, input texts 5 to 7, attribute 11; AttributeProto: type 2, b 4, f 5, u 6, i 7, s 8). The wire format is read
// field by field, so that unknown fields pass. Not modelled: storage nodes' details, list attributes other than text.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast::chakra_et {

enum class NodeType : std::uint8_t { invalid, metadata, load, store, compute, send, receive, collective, other };

/// The collectives in the order of CollectiveCommType, named as event_names.hpp names operations.
inline constexpr std::string_view collective_names[] = {"allreduce",     "reduce",    "allgather", "gather",
                                                        "scatter",       "broadcast", "alltoall",  "reducescatter",
                                                        "reducescatter", "barrier"};
/// Those of the schema before.
inline constexpr std::string_view old_collective_names[] = {"allreduce", "alltoall", "allgather", "reducescatter",
                                                            "broadcast"};

/// Whole numbers of every type and booleans are `number`; what is neither text nor a number has neither.
struct Value {
  std::optional<std::int64_t> number;
  std::optional<std::string> text;
};

struct Node {
  std::uint64_t id = 0;
  std::string name;
  NodeType type = NodeType::invalid;
  std::vector<std::uint64_t> control, data;
  std::uint64_t start_us = 0, duration_us = 0;
  std::string values, shapes, types;        ///< what the inputs are, as text
  std::map<std::string, Value> attributes;  ///< the attributes by their name

  /// The number of an attribute, or nothing.
  [[nodiscard]] std::optional<std::int64_t> number(const std::string& attribute) const;
  /// The text of an attribute, or "".
  [[nodiscard]] std::string text(const std::string& attribute) const;
};

struct Metadata {
  std::string version;
  std::map<std::string, Value> attributes;
};

enum class Schema : std::uint8_t { unknown, attribute_types, current };

/// False when the bytes are no such message. `schema` is unknown when the message would be the same in both.
[[nodiscard]] bool read_metadata(std::string_view message, Metadata&, Schema& schema);
/// False when the bytes are no node of that schema (which must be known).
[[nodiscard]] bool read_node(std::string_view message, Schema, Node&);

/// The messages of the current schema with their lengths in front.
[[nodiscard]] std::string bytes_of(const Metadata&);
[[nodiscard]] std::string bytes_of(const Node&);
/// The same in parts, for nodes that differ in some attributes alone: a message without its length, more attributes of
/// it, and both behind their length at the end of `to`.
[[nodiscard]] std::string message_of(const Node&);
[[nodiscard]] std::string attribute_of(const std::string& name, const Value&);
void append(std::string& to, std::string_view message, std::string_view attributes);

}  // namespace stepcast::chakra_et
