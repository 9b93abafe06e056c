// What reaches a terminal: characters stay, what steers it does not.
#include <stepcast/base/error.hpp>
#include <stepcast/base/printable.hpp>

#include <doctest/doctest.h>

#include <random>
#include <string>

using namespace stepcast;

TEST_CASE("text stays, what steers a terminal becomes spaces, and what is no text a question mark") {
  CHECK(printable("resnet18, 16 samples") == "resnet18, 16 samples");
  CHECK(printable("h\xc3\xa9l\xc3\xa9na \xe6\xa8\xa1 \xf0\x9f\x9a\x80") ==
        "h\xc3\xa9l\xc3\xa9na \xe6\xa8\xa1 \xf0\x9f\x9a\x80");
  CHECK(printable("a\033]0;evil\007b") == "a ]0;evil b");
  CHECK(printable("a\r\nb\tc\x7f") == "a  b c ");
  CHECK(printable("a\xc2\x9b"
                  "31mb") == "a 31mb");  // CSI as a character
  CHECK(printable("a\x9b"
                  "31mb") == "a 31mb");    // CSI as a byte
  CHECK(printable("\xe9t\xe9") == "?t?");  // Latin-1
  CHECK(printable("\xed\xa0\x80|\xc0\xaf|\xf4\x90\x80\x80").find('\xed') == std::string::npos);
  CHECK(printable("cut: \xe6\xa8") == "cut: ??");
  CHECK(printable("").empty());
}

TEST_CASE("any bytes become one line of UTF-8 without a control character, which stays as it is") {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 40, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const std::string text = printable(bytes);
    CHECK(printable(text) == text);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = utf8_length(std::string_view(text).substr(at));
      REQUIRE(length > 0);
      CHECK((length > 1 || (text[at] >= ' ' && text[at] != '\x7f')));
      at += length;
    }
  }
}

TEST_CASE("an error is cut between two characters") {
  std::string umlauts;
  for (int i = 0; i < 400; ++i) umlauts += "\xc3\xa4";
  for (const char* before : {"", "x"}) {
    const InputError error("where", "less", before + umlauts);
    CHECK(error.found.size() <= 304);
    CHECK(error.found.ends_with("\xc3\xa4..."));
    CHECK(error.found == printable(error.found));
  }
}
