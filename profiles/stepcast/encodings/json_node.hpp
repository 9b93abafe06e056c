#pragma once
// JsonNode: a value of a JSON document with its place in it, for readers that are strict and say where they are.
//
// Whatever does not fit throws InputError with a JSON pointer, what was expected and what was found. An unknown key is
// an error with a suggestion, since a misspelt key would be a silent default; quantities are strings with their unit.
// Example:
//   const JsonNode top(parsed_json(text, source), source + "#");
//   top.require_keys({"name", "nodes"});
//   const std::int64_t nodes = top.at("nodes").integer();   // cluster.json#/nodes: expected a whole number, found
//   'two'
// Not public: it includes the parser.
#include <stepcast/base/error.hpp>
#include <stepcast/base/units.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepcast {

class JsonNode {
 public:
  using Json = nlohmann::ordered_json;

  /// `json` must outlive the node; `where` is its place ("cluster.json#").
  JsonNode(const Json& json, std::string where) : json_(&json), where_(std::move(where)) {}

  /// Throws unless this is an object that has only `known` keys and all of `needed`, of which it names all that miss.
  void require_keys(const std::vector<std::string>& known, std::initializer_list<const char*> needed = {}) const;
  /// Throws unless this is an object of that schema, or of none.
  void require_schema(std::string_view schema) const;
  void require_object() const;
  [[nodiscard]] bool has(const char* key) const { return json_->contains(key); }
  /// Throws when the key is absent, of which `expected` says what it would hold.
  [[nodiscard]] JsonNode at(const char* key, const char* expected = "a value") const;
  [[nodiscard]] std::vector<JsonNode> elements(const char* expected) const;
  /// The values of an object with their keys.
  [[nodiscard]] std::vector<std::pair<std::string, JsonNode>> members() const;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::int64_t integer() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] Seconds seconds() const;
  [[nodiscard]] Bytes bytes() const;
  [[nodiscard]] BytesPerSecond bandwidth() const;

  /// What an object has under a key that may be left out.
  [[nodiscard]] JsonNode object(const char* key) const;  ///< or one without keys
  [[nodiscard]] std::vector<JsonNode> elements(const char* key, const char* expected) const;
  [[nodiscard]] std::string text(const char* key) const { return has(key) ? at(key).text() : std::string(); }
  [[nodiscard]] std::vector<std::string> texts(const char* key, const char* expected) const;
  [[nodiscard]] double number(const char* key, double otherwise = 0) const;
  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t otherwise) const;
  [[nodiscard]] bool boolean(const char* key) const { return has(key) && at(key).boolean(); }

  [[nodiscard]] const Json& json() const { return *json_; }
  [[nodiscard]] const std::string& place() const { return where_; }
  /// Where the value of a key is, or would be.
  [[nodiscard]] std::string place(const char* key) const { return where_ + "/" + key; }
  [[noreturn]] void refuse(std::string expected, std::string hint = {}) const;

 private:
  [[nodiscard]] std::string quantity(const char* example) const;

  const Json* json_;
  std::string where_;
};

/// Parses; refuses bottomless documents and repeated keys, of which JSON parsers silently keep one. The result must
/// outlive the nodes that point into it.
[[nodiscard]] JsonNode::Json parsed_json(std::string_view text, std::string_view source);

}  // namespace stepcast
