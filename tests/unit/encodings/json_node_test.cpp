// Documents in JSON: what the parser makes of them, and how its work grows.
#include <stepcast/encodings/json_node.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>

using namespace stepcast;

namespace {

std::string document_of(int keys) {
  std::string text = "{\"schema\": \"stepcast.cluster/1\"";
  for (int i = 0; i < keys; ++i) text += ", \"key" + std::to_string(i) + "\": " + std::to_string(i);
  return text + "}";
}

std::string refusal_of(std::string_view text) {
  try {
    (void)parsed_json(text, "file");
  } catch (const InputError& error) { return error.what(); }
  return {};
}

/// The shortest of a few times, so that what else the machine does counts little.
double seconds_to_parse(const std::string& text) {
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    (void)parsed_json(text, "file");
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

}  // namespace

TEST_CASE("a document is what its text says, its keys in their order") {
  const std::string text = R"({"b":[1,-2,2.5,true,null,{"c":[]}],"a":{},"é":"\u00e9\n","n":18446744073709551615})";
  CHECK(parsed_json(text, "file").dump() ==
        R"({"b":[1,-2,2.5,true,null,{"c":[]}],"a":{},"é":"é\n","n":18446744073709551615})");
  CHECK(parsed_json(text, "file") == nlohmann::ordered_json::parse(text));
  CHECK(parsed_json(" 7 ", "file") == 7);
}

TEST_CASE("what is no document is refused in the words of this program") {
  CHECK(refusal_of("") ==
        "file@1: expected a JSON document, found text that is no JSON; it breaks off or goes wrong at this byte");
  CHECK(refusal_of("{\"a\": 1} x").starts_with("file@10: expected a JSON document"));
  CHECK(refusal_of("{\"a\": 1, \"b\": {\"a\": 2, \"a\": 3}}") == "file: expected each key once, found 'a' twice");
  CHECK(refusal_of("{\"a\": 1e999}") == "file@11: expected a number that fits 64 bits, found '1e999'");
  CHECK(refusal_of("{\"\xff\": 1}").starts_with("file@3: expected a JSON document"));
  CHECK(refusal_of(std::string(32, '[') + std::string(32, ']')).empty());
  CHECK(refusal_of(std::string(33, '[') + std::string(33, ']')).ends_with("found a deeper one"));
}

// Looking through the keys before it for each key would be 256 times the work for 16 times the keys.
TEST_CASE("many keys take time in proportion") {
  const std::string few = document_of(10000), many = document_of(160000);
  CHECK(parsed_json(many, "file").size() == 160001);
  CHECK(seconds_to_parse(many) < 80 * seconds_to_parse(few));
}
