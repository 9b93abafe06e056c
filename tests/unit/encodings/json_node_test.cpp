// Documents in JSON: what the parser makes of them.
#include <stepcast/encodings/json_node.hpp>

#include <doctest/doctest.h>

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

// Looking through the keys before it for each key would be 45 billion comparisons, which nobody would wait for.
TEST_CASE("many keys are one document") { CHECK(parsed_json(document_of(300000), "file").size() == 300001); }
