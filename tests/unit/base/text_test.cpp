#include <stepcast/base/error.hpp>
#include <stepcast/base/text.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

using namespace stepcast;

namespace {

/// The error that `parse(text)` throws; fails the test if there is none.
template <class Parse>
InputError error_of(Parse parse, std::string_view text) {
  try {
    (void)parse(text, "--flag");
  } catch (const InputError& error) { return error; }
  FAIL_CHECK("accepted: " << std::string(text));
  return InputError("", "", "");
}

}  // namespace

TEST_CASE("text: quantities with their units") {
  CHECK(seconds_of("5 us", "").value() == doctest::Approx(5e-6));
  CHECK(seconds_of("0.3ms", "").value() == doctest::Approx(3e-4));
  CHECK(seconds_of(" 2 s ", "").value() == 2);
  CHECK(seconds_of("5 \xc2\xb5s", "").value() == doctest::Approx(5e-6));
  CHECK(seconds_of("0 s", "").value() == 0);
  CHECK(seconds_of("1e-3 s", "").value() == 1e-3);
  CHECK(bytes_of("64 MiB", "").value() == 64 * 1048576.0);
  CHECK(bytes_of("25MB", "").value() == 25e6);
  CHECK(bytes_of("4096 B", "").value() == 4096);
  CHECK(bytes_of("1 kB", "") == bytes_of("1 KB", ""));
  CHECK(bandwidth_of("25 Gb/s", "").value() == 25e9 / 8);
  CHECK(bandwidth_of("1.2 GB/s", "").value() == 1.2e9);
  CHECK(bandwidth_of("800Mbit/s", "").value() == 1e8);
  CHECK(bandwidth_of("10GbE", "").value() == 1.25e9);
  CHECK(bandwidth_of("100G", "").value() == 12.5e9);
  CHECK(bandwidth_of("NDR", "").value() == 50e9);
  CHECK(bandwidth_of(" hdr ", "").value() == 25e9);
  CHECK(bandwidth_of("10Gbps", "") == bandwidth_of("10 Gbit/s", ""));
}

TEST_CASE("text: a small b is a bit, a capital B a byte; decimal and binary prefixes differ") {
  CHECK(bandwidth_of("8 Gb/s", "") == bandwidth_of("1 GB/s", ""));
  CHECK(bytes_of("1 MiB", "").value() / bytes_of("1 MB", "").value() == doctest::Approx(1.048576));
  error_of(bytes_of, "8 Mb");  // sizes are bytes; megabits are most likely a slip
}

TEST_CASE("text: what is no quantity is refused, with what was expected") {
  for (const std::string_view text : {"", "  ", "us", "5", "5 parsecs", "-5 us", "nan s", "inf s", "1e999 s", "5 us us",
                                      "--5 us", "5 uss", "0x10 s", "1,5 s", "+-5 s", "5 MiB", "1e308 h"}) {
    CAPTURE(text);
    const InputError error = error_of(seconds_of, text);
    CHECK(error.where == "--flag");
    CHECK(error.expected.find("5 us") != std::string::npos);
  }
  for (const std::string_view text : {"64", "-1 B", "1e308 PiB", "64 MiB/s", "64 mib", "nan B"})
    error_of(bytes_of, text);
  for (const std::string_view text : {"25", "0 B/s", "0GbE", "-1 Gb/s", "25 Gb", "10 GiB", "inf GB/s", "1e-400 b/s"}) {
    CAPTURE(text);
    error_of(bandwidth_of, text);
  }
  CHECK(std::string(error_of(seconds_of, "5").what()).find("add the unit") != std::string::npos);
}

TEST_CASE("text: plain and whole numbers") {
  CHECK(number_of("-1.5e3", "") == -1500);
  for (const std::string_view text : {"", "x", "1 s", "nan", "inf", "1e999"}) error_of(number_of, text);
  CHECK(integer_of("42", "", 1, 100) == 42);
  CHECK(integer_of(" -3 ", "", -5, 5) == -3);
  const auto small = [](std::string_view text, std::string_view where) { return integer_of(text, where, 1, 100); };
  for (const std::string_view text : {"", "0", "101", "1.5", "1e1", "99999999999999999999", "0x1", "ten"}) {
    CAPTURE(text);
    CHECK(error_of(small, text).expected == "a whole number from 1 to 100");
  }
}

TEST_CASE("text: readable output") {
  CHECK(text_of(Seconds(1.2344e-3)) == "1.234 ms");
  CHECK(text_of(Seconds(123.4e-6)) == "123.4 us");
  CHECK(text_of(Seconds(0)) == "0 s");
  CHECK(text_of(Seconds(2)) == "2.000 s");
  CHECK(text_of(Seconds(0.99996)) == "1.000 s");
  CHECK(text_of(Seconds(-1.5e-3)) == "-1.500 ms");
  CHECK(text_of(mebibytes(25)) == "25.0 MiB");
  CHECK(text_of(mebibytes(97.5)) == "97.5 MiB");
  CHECK(text_of(Bytes(512)) == "512 B");
  CHECK(text_of(Bytes(0)) == "0 B");
  CHECK(text_of(Bytes(1048576 - 1)) == "1.0 MiB");
  CHECK(text_of(gigabits_per_second(10)) == "10 Gb/s");
  CHECK(text_of(gigabits_per_second(0.3)) == "300 Mb/s");
}

TEST_CASE("text: exact text reads back to the same value") {
  CHECK(exact_text_of(Seconds(0.005)) == "0.005 s");
  CHECK(exact_text_of(Bytes(26214400)) == "26214400 B");
  CHECK(exact_text_of(BytesPerSecond(1.25e9)) == "1250000000 B/s");
  CHECK(exact_text_of(0.25) == "0.25");
  CHECK(exact_text_of(2e20) == "2e+20");
  CHECK(exact_text_in_best_unit(Seconds(4060 * 1e-3)) == "4060 ms");
  CHECK(exact_text_in_best_unit(Bytes(25e6)) == "25000000 B");
  CHECK(exact_text_in_best_unit(BytesPerSecond(0)) == "0 B/s");
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-300, 300);
  for (int i = 0; i < 2000; ++i) {
    const double value = std::pow(10.0, exponent(random));
    CAPTURE(value);
    CHECK(seconds_of(exact_text_of(Seconds(value)), "").value() == value);
    CHECK(bytes_of(exact_text_of(Bytes(value)), "").value() == value);
    CHECK(bandwidth_of(exact_text_of(BytesPerSecond(value)), "").value() == value);
  }
}

TEST_CASE("text: suggestions are near or absent") {
  const std::vector<std::string> words{"bucket", "partition", "credit", "b"};
  CHECK(suggestion_for("bukcet", words) == "bucket");
  CHECK(suggestion_for("Bucket", words) == "bucket");
  CHECK(suggestion_for("partitoin", words) == "partition");
  CHECK(suggestion_for("credits", words) == "credit");
  CHECK(suggestion_for("momentum", words).empty());
  CHECK(suggestion_for("", {}).empty());
  CHECK(suggestion_for(std::string(100000, 'x'), words).empty());
}

TEST_CASE("text: a share with its sign or without") {
  CHECK(share_of("30%", "test") == doctest::Approx(0.3));
  CHECK(share_of(" 30 % ", "test") == doctest::Approx(0.3));
  CHECK(share_of("0.3", "test") == doctest::Approx(0.3));
  CHECK(share_of("0", "test") == 0);
  for (const char* wrong : {"", "%", "a third", "30 percent", "30%%", "nan", "inf%"})
    CHECK_THROWS_AS((void)share_of(wrong, "test"), InputError);
}
