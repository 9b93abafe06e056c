// CSV: cells with and without quotes, and what titles say.
#include <stepcast/encodings/csv.hpp>

#include <doctest/doctest.h>

namespace stepcast {
namespace {

using Words = std::vector<std::string>;

TEST_CASE("csv: cells are trimmed, and quotes keep separators and quotes") {
  CHECK(cells_of("a, b ,c", ',') == Words{"a", "b", "c"});
  CHECK(cells_of("1;;3;", ';') == Words{"1", "", "3", ""});
  CHECK(cells_of("\"dp=2, tp=4\",\"say \"\"so\"\"\"", ',') == Words{"dp=2, tp=4", "say \"so\""});
  CHECK(separator_of("a,b;c;d") == ';');
  CHECK(separator_of("a\tb") == '\t');
  CHECK(separator_of("a") == ',');
}

TEST_CASE("csv: titles are words, the last of which may be a unit") {
  CHECK(words_of_header(" Forward Time (ms)") == "forward time ms");
  CHECK(title_words("Latency [\xc2\xb5s]") == Words{"latency", "us"});
  CHECK(title_words("size_MiB") == Words{"size", "mib"});
  CHECK(title_words("(-)").empty());
  CHECK(seconds_per_unit("us") == 1e-6);
  CHECK(seconds_per_unit("milliseconds") == 1e-3);
  CHECK(!seconds_per_unit("mib"));
  CHECK(bytes_per_unit("mib") == 1048576.0);
  CHECK(!bytes_per_unit("ms"));
}

}  // namespace
}  // namespace stepcast
