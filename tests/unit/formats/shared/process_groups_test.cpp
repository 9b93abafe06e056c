// Groups of ranks: regular ones are written out, but a few numbers must not fill the memory.
#include <stepcast/formats/kineto/process_groups.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace stepcast;

TEST_CASE("process groups: lists of ranks as text") {
  CHECK(complete_ranks(" [0, 2,4 ] ").value() == std::vector<std::int64_t>{0, 2, 4});
  CHECK(complete_ranks("[]").value().empty());
  CHECK_FALSE(complete_ranks("[0, 1, ...]"));
  CHECK_FALSE(complete_ranks("0, 1"));
}

TEST_CASE("process groups: a group without a list holds all ranks, as long as there is room for all such groups") {
  Trace trace;
  trace.world_size = 1 << 20;
  std::vector<ListedGroup> listed(40, ListedGroup{"", "", "[]", trace.world_size});
  for (std::size_t i = 0; i < listed.size(); ++i) listed[i].name = "group " + std::to_string(i);
  const std::vector<ProcessGroup> groups = groups_of(trace, listed, {});
  REQUIRE(groups.size() == 40);
  CHECK(groups.front().ranks.size() == 1 << 20);
  CHECK(groups.front().ranks.back() == (1 << 20) - 1);
  CHECK(groups.back().ranks.empty());
}
