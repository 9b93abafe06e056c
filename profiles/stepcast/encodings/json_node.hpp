#pragma once
// JsonNode: a value of a JSON document with its place in it, for readers that are strict and say where they are.
//
// Whatever does not fit throws InputError with a JSON pointer. An unknown key is an error with a suggestion, since a
// misspelt key would be a silent default; quantities are strings with their unit. Not public: it includes the parser.
#include <stepcast/base/error.hpp>
#include <stepcast/base/units.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

class JsonNode {
 public:
  using Json = nlohmann::ordered_json;

  /// `json` must outlive the node; `where` is its place ("cluster.json#").
  JsonNode(const Json& json, std::string where) : json_(&json), where_(std::move(where)) {}

  /// Throws unless this is an object that has only `known` keys.
  void require_keys(std::span<const std::string> known) const;
  [[nodiscard]] bool has(const char* key) const { return json_->contains(key); }
  /// Throws when the key is absent.
  [[nodiscard]] JsonNode at(const char* key) const;
  [[nodiscard]] std::vector<JsonNode> elements(const char* expected) const;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::int64_t integer() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] Seconds seconds() const;
  [[nodiscard]] Bytes bytes() const;
  [[nodiscard]] BytesPerSecond bandwidth() const;

  [[noreturn]] void refuse(std::string expected) const;

 private:
  [[nodiscard]] std::string quantity(const char* example) const;

  const Json* json_;
  std::string where_;
};

/// Parses; refuses bottomless documents and repeated keys, of which JSON parsers silently keep one.
[[nodiscard]] JsonNode::Json parsed_json(std::string_view text, std::string_view source);

}  // namespace stepcast
