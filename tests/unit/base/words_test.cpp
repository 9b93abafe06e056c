// Words: how messages put words and numbers together.
#include <stepcast/base/words.hpp>

#include <doctest/doctest.h>

namespace stepcast {
namespace {

using Words = std::vector<std::string>;

TEST_CASE("words: lower case and the words of a name") {
  CHECK(lower_case("NVIDIA A100-SXM4 \xc3\x84") == "nvidia a100-sxm4 \xc3\x84");
  CHECK(lower_words("NVIDIA A100-SXM4-80GB") == Words{"nvidia", "a100", "sxm4", "80gb"});
  CHECK(lower_words(" iteration time (ms)") == Words{"iteration", "time", "ms"});
  CHECK(lower_words(" - ").empty());
}

TEST_CASE("words: quotes, counts, lists and shares") {
  CHECK(in_quotes("a b") == "'a b'");
  CHECK(in_quotes("") == "''");
  CHECK(in_quotes_or_nothing("a") == "'a'");
  CHECK(in_quotes_or_nothing("") == "nothing");
  CHECK(counted(1, "worker") == "1 worker");
  CHECK(counted(0, "worker") == "0 workers");
  CHECK(counted(1, "micro-batch", "micro-batches") == "1 micro-batch");
  CHECK(counted(2, "process that puts", "processes that put") == "2 processes that put");
  CHECK(listed(Words{}).empty());
  CHECK(listed(Words{"a", "b", "c"}) == "a, b, c");
  CHECK(listed(std::vector{1, 2}, [](int n) { return std::to_string(n); }) == "1, 2");
  std::string list;
  add_to_list(list, "one");
  add_to_list(list, "two");
  CHECK(list == "one, two");
  CHECK(percent(0.1234) == "12.3 %");
  CHECK(whole_percent(0.126) == "13 %");
  CHECK(did_you_mean("buckt", Words{"bucket", "chunk"}) == "did you mean 'bucket'?");
  CHECK(did_you_mean("x", Words{"bucket"}, "it is 'bucket'") == "it is 'bucket'");
}

}  // namespace
}  // namespace stepcast
