#include <stepcast/base/error.hpp>
#include <stepcast/base/spec_reader.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace stepcast;

namespace {

constexpr OptionSpec specs[] = {
    {.name = "size", .kind = OptionKind::size, .standard = 0x1p20, .low = 1, .high = 0x1p40},
    {.name = "time", .kind = OptionKind::duration, .standard = 1e-3, .high = 10},
    {.name = "rate", .kind = OptionKind::rate, .standard = 1e9, .low = 1, .high = 1e12},
    {.name = "share", .standard = 0.5, .high = 1, .tuned = true},
    {.name = "way", .kind = OptionKind::choice, .high = 1, .choices = {"up", "down"}},
    {.name = "layers", .kind = OptionKind::layers, .patterns = "*"}};

std::string rewritten(std::string_view text) {
  SpecReader in("test", text);
  const GivenOptions given = in.options(in.word(), specs);
  in.require_end("the end");
  return options_text(specs, given.values, given.layers);
}

std::string refusal(std::string_view text) {
  try {
    return rewritten(text);
  } catch (const InputError& e) { return e.what(); }
}

}  // namespace

TEST_CASE("spec reader: options of every kind read back") {
  CHECK(rewritten("x") == "");
  CHECK(rewritten("x ( )") == "");
  CHECK(rewritten("x(share=0.5, layers=*)") == "");
  CHECK(rewritten(" x ( way = down , size = 1.5 GiB )") == "(size=1536 MiB, way=down)");
  CHECK(rewritten("x(time=0.0035 s, rate=500 MB/s, share=auto)") == "(time=3.5 ms, rate=0.5 GB/s, share=auto)");
  CHECK(rewritten("x(layers=bn*|fc)") == "(layers=bn*|fc)");
  CHECK(rewritten("x(layers=\"a, (b)\", size=\"2 KiB\")") == "(size=2 KiB, layers=\"a, (b)\")");
}

TEST_CASE("spec reader: numbers have an exponent where they are large or small") {
  const OptionSpec number{.name = "number"};
  CHECK(option_value_text(number, 13920) == "13920");
  CHECK(option_value_text(number, 2e9) == "2e+09");
  CHECK(option_value_text(number, 7.4e-10) == "7.4e-10");
  CHECK(option_value_text(number, 1234567890.5) == "1234567890.5");
}

TEST_CASE("spec reader: refusals name the column") {
  CHECK(refusal("x(") ==
        "test, column 3: expected an option of 'x' (size, time, rate, share, way, layers), found the end of the text");
  CHECK(refusal("x(tme=1 s)") ==
        "test, column 3: expected an option of 'x' (size, time, rate, share, way, layers), found 'tme'; did you mean "
        "'time'?");
  CHECK(refusal("x(time 1 s)") == "test, column 8: expected '=', found '1'");
  CHECK(refusal("x(time=11 s)") == "test, column 8, option 'time': expected 0 s to 10 s, found '11 s'");
  CHECK(refusal("x(size=auto)") == "test, column 8: expected a value, found 'auto'; option 'size' cannot be tuned");
  CHECK(refusal("x(way=left)") == "test, column 7: expected one of up, down for option 'way', found 'left'");
  CHECK(refusal("x(share=1, share=1)") == "test, column 12: expected each option once, found 'share' again");
  CHECK(refusal("x(layers=)") == "test, column 10: expected the names of layers, such as bn*|fc, found nothing");
  CHECK(refusal("x(layers=\"a)") == "test, column 10: expected a closing '\"', found the end of the text");
  CHECK(refusal("x(share=1 y") == "test, column 9, option 'share': expected a number, found '1 y'; it takes no unit");
  CHECK(refusal("x(share=1) y") == "test, column 12: expected the end, found 'y'");
}

TEST_CASE("spec reader: options are found by name") {
  static_assert(option(specs, "rate") == 2);
  CHECK(position_of("way", specs) == 4);
  CHECK(position_of("other", specs) == std::size(specs));
}
