// Every value is read with the place at which it stands, for the error that names it.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/encodings/json_node.hpp>

#include <algorithm>
#include <set>

namespace stepcast {
namespace {

using Json = JsonNode::Json;

/// Builds a document while its text goes by. The parser's own builder would look through all keys of an object for each
/// further one.
class DocumentBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit DocumentBuilder(std::string source) : source_(std::move(source)) {}
  [[nodiscard]] Json taken() { return std::move(document_); }

  bool null() override { return put(nullptr), true; }
  bool boolean(bool value) override { return put(value), true; }
  bool number_integer(number_integer_t value) override { return put(value), true; }
  bool number_unsigned(number_unsigned_t value) override { return put(value), true; }
  bool number_float(number_float_t value, const string_t&) override { return put(value), true; }
  bool string(string_t& value) override { return put(std::move(value)), true; }
  bool binary(binary_t& value) override { return put(std::move(value)), true; }
  bool start_object(std::size_t) override { return open(Json::object()), true; }
  bool end_object() override { return close(), true; }
  bool start_array(std::size_t) override { return open(Json::array()), true; }
  bool end_array() override { return close(), true; }
  bool key(string_t& value) override {
    if (!open_.back().keys.insert(value).second) throw InputError(source_, "each key once", "'" + value + "' twice");
    key_ = std::move(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token, const Json::exception& error) override {
    constexpr int number_overflow = 406;
    if (error.id == number_overflow)
      throw InputError(source_ + "@" + std::to_string(position), "a number that fits 64 bits", in_quotes(token));
    throw InputError(source_ + "@" + std::to_string(position), "a JSON document", "text that is no JSON",
                     "it breaks off or goes wrong at this byte");
  }

 private:
  struct Open {
    Json* value;
    std::set<std::string, std::less<>> keys{};
  };

  Json* put(Json value) {
    if (open_.empty()) return &(document_ = std::move(value));
    Json& within = *open_.back().value;
    if (within.is_array()) return &within.get_ref<Json::array_t&>().emplace_back(std::move(value));
    // At the end of the list that an object is, past the look-up that its own members make.
    Json::object_t::Container& members = within.get_ref<Json::object_t&>();
    return &members.emplace_back(std::move(key_), std::move(value)).second;
  }
  void open(Json value) {
    constexpr std::size_t most = 32;  // deeper than any document of ours; values are walked recursively later
    if (open_.size() >= most) throw InputError(source_, "a document of at most 32 levels", "a deeper one");
    open_.push_back({put(std::move(value))});
  }
  void close() { open_.pop_back(); }

  std::string source_, key_;
  Json document_;
  std::vector<Open> open_;
};

}  // namespace

void JsonNode::require_object() const {
  if (!json_->is_object()) refuse("an object");
}

void JsonNode::require_schema(std::string_view schema) const {
  require_object();
  if (has("schema") && at("schema").text() != schema) at("schema").refuse(in_quotes(schema));
}

void JsonNode::require_keys(const std::vector<std::string>& known, std::initializer_list<const char*> needed) const {
  require_object();
  for (const auto& [key, value] : json_->items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw InputError(where_ + "/" + key, "a known key", in_quotes(key),
                     did_you_mean(key, known, "known keys: " + listed(known)));
  }
  std::vector<std::string> missing;
  for (const char* key : needed)
    if (!has(key)) missing.emplace_back(key);
  if (missing.size() > 1)
    throw InputError(where_, "the keys " + listed(missing), "none of them", "all of them are required");
  if (missing.size() == 1) (void)at(missing.front().c_str());
}

JsonNode JsonNode::at(const char* key, const char* expected) const {
  if (!has(key)) throw InputError(place(key), expected, "nothing", "the key is required");
  return {(*json_)[key], place(key)};
}

std::vector<JsonNode> JsonNode::elements(const char* expected) const {
  if (!json_->is_array()) refuse(expected);
  std::vector<JsonNode> all;
  for (std::size_t i = 0; i < json_->size(); ++i) all.emplace_back((*json_)[i], where_ + "/" + std::to_string(i));
  return all;
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members() const {
  std::vector<std::pair<std::string, JsonNode>> all;
  for (const auto& [key, value] : json_->items()) all.emplace_back(key, JsonNode(value, where_ + "/" + key));
  return all;
}

JsonNode JsonNode::object(const char* key) const {
  static const Json none = Json::object();
  const JsonNode node{has(key) ? (*json_)[key] : none, place(key)};
  node.require_object();
  return node;
}

std::vector<JsonNode> JsonNode::elements(const char* key, const char* expected) const {
  return has(key) ? at(key).elements(expected) : std::vector<JsonNode>();
}

std::vector<std::string> JsonNode::texts(const char* key, const char* expected) const {
  std::vector<std::string> all;
  for (const JsonNode& node : elements(key, expected)) all.push_back(node.text());
  return all;
}

double JsonNode::number(const char* key, double otherwise) const { return has(key) ? at(key).number() : otherwise; }

std::int64_t JsonNode::integer(const char* key, std::int64_t otherwise) const {
  return has(key) ? at(key).integer() : otherwise;
}

std::string JsonNode::text() const {
  if (!json_->is_string()) refuse("a string");
  return json_->get<std::string>();
}

std::int64_t JsonNode::integer() const {
  // An unsigned number beyond int64 must not wrap around.
  const bool huge = json_->is_number_unsigned() && json_->get<std::uint64_t>() > INT64_MAX;
  if (!json_->is_number_integer() || huge) refuse(huge ? "a whole number below 2^63" : "a whole number");
  return json_->get<std::int64_t>();
}

double JsonNode::number() const {
  if (!json_->is_number()) refuse("a number");
  return json_->get<double>();
}

bool JsonNode::boolean() const {
  if (!json_->is_boolean()) refuse("true or false");
  return json_->get<bool>();
}

Seconds JsonNode::seconds() const { return seconds_of(quantity("'5 us'"), where_); }
Bytes JsonNode::bytes() const { return bytes_of(quantity("'40 GiB'"), where_); }
BytesPerSecond JsonNode::bandwidth() const { return bandwidth_of(quantity("'25 Gb/s'"), where_); }

void JsonNode::refuse(std::string expected, std::string hint) const {
  constexpr std::size_t longest = 60;  // of what is shown of an array or an object
  std::string found = json_->is_string() ? in_quotes(json_->get_ref<const std::string&>())
                                         : json_->dump(-1, ' ', false, Json::error_handler_t::replace);
  if (json_->is_structured() && found.size() > longest) found = "an " + std::string(json_->type_name());
  throw InputError(where_, std::move(expected), std::move(found), std::move(hint));
}

std::string JsonNode::quantity(const char* example) const {
  if (!json_->is_string()) refuse(std::string("a string with number and unit, such as ") + example);
  return json_->get<std::string>();
}

Json parsed_json(std::string_view text, std::string_view source) {
  DocumentBuilder builder{std::string(source)};
  Json::sax_parse(text, &builder);
  return builder.taken();
}

}  // namespace stepcast
