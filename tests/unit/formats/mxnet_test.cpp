// MXNet profiles: what is written twice, and what the user marked.
#include <stepcast/trace/steps.hpp>

#include "helpers/timelines.hpp"

#include <doctest/doctest.h>

using namespace stepcast;
using namespace stepcast::test;

namespace {

std::string mark(char phase, const std::string& name, const std::string& category, const std::string& pid, int ts) {
  return R"(, {"name": ")" + name + R"(", "cat": ")" + category + R"(", "ph": ")" + phase + R"(", "ts": )" +
         std::to_string(ts) + R"(, "id": 7, "pid": )" + pid + R"(, "tid": 7})";
}
std::string profile(const std::string& events) {
  return R"({"traceEvents": [{"ph": "M", "args": {"name": "cpu/0"}, "pid": 0, "name": "process_name"})" + events +
         R"(], "displayTimeUnit": "ms"})";
}

}  // namespace

TEST_CASE("mxnet: an operator's task is the operator again, a task of the user's own is a mark") {
  const std::string category = "17005318474953013843";
  const Trace trace =
      read(profile(mark('B', "dot", "operator", "0", 10) + mark('E', "dot", "operator", "0", 20) +
                   mark('b', "dot", "operator", category, 10) + mark('e', "dot", "operator", category, 20) +
                   mark('b', "step 1", "training", "5", 0) + mark('e', "step 1", "training", "5", 100) +
                   mark('(', "step 2", "training", "5", 100) + mark(')', "step 2", "training", "5", 200)));
  CHECK(lines_of(trace) ==
        "annotation step 1 0 100000 @5/7\n"
        "host operator dot 10000 10000 @0/7\n"
        "annotation step 2 100000 100000 @5/7\n");
  CHECK(steps_of(trace).size() == 2);
  CHECK_FALSE(mentions(trace.report.missing, "step annotations"));
  CHECK(mentions(
      read(profile(mark('B', "dot", "operator", "0", 1) + mark('E', "dot", "operator", "0", 2))).report.missing,
      "step annotations"));
}

TEST_CASE("mxnet: the call that asks for a push returns at once, and is not the push") {
  const Trace trace = read(profile(mark('B', "MXKVStorePushEx", "MXNET_C_API", "5", 1) +
                                   mark('E', "MXKVStorePushEx", "MXNET_C_API", "5", 2) +
                                   mark('B', "KVStoreDistDefaultPush", "operator", "0", 3) +
                                   mark('E', "KVStoreDistDefaultPush", "operator", "0", 9)));
  REQUIRE(trace.collectives.size() == 1);
  CHECK(trace.events[0].collective == no_index);
  CHECK(trace.events[1].collective == 0);
}
