#pragma once
// The nodes of a Chakra execution trace, as written.
#include <stepcast/formats/chakra/chakra.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <string_view>
#include <vector>

namespace stepcast::test {

/// Messages behind their lengths.
inline std::vector<std::string_view> chakra_messages_of(std::string_view bytes) {
  std::vector<std::string_view> messages;
  while (!bytes.empty()) {
    std::size_t length = 0, shift = 0, i = 0;
    for (;; ++i, shift += 7) {
      length |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[i]) & 0x7f) << shift;
      if ((static_cast<unsigned char>(bytes[i]) & 0x80) == 0) break;
    }
    messages.push_back(bytes.substr(i + 1, length));
    bytes.remove_prefix(i + 1 + length);
  }
  return messages;
}

inline std::vector<chakra_et::Node> chakra_nodes_of(std::string_view bytes) {
  std::vector<chakra_et::Node> nodes;
  const std::vector<std::string_view> messages = chakra_messages_of(bytes);
  for (std::size_t i = 1; i < messages.size(); ++i) {
    chakra_et::Node node;
    REQUIRE(chakra_et::read_node(messages[i], chakra_et::Schema::current, node));
    nodes.push_back(node);
  }
  return nodes;
}

}  // namespace stepcast::test
