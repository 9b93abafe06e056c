// Several ranks in one Kineto file: told apart, or refused.

#include <stepcast/documents/reading.hpp>
#include "helpers/kineto_text.hpp"
#include "helpers/shared_data.hpp"

#include <doctest/doctest.h>

using namespace stepcast;
using namespace stepcast::test;

namespace {

std::vector<Trace> read_all(const std::string& text) {
  return reading_of({"test.json", std::as_bytes(std::span(text))}).traces;
}

// A step of one rank: an operator, its launch and its kernel, with the same ids in every rank.
std::string step_of_rank(const std::string& host, const std::string& device, int at, const std::string& args) {
  const auto slice = [&](const char* category, const char* name, const std::string& pid, int ts,
                         const std::string& ids) {
    return R"({"ph": "X", "cat": ")" + std::string(category) + R"(", "name": ")" + name + R"(", "pid": )" + pid +
           R"(, "tid": 7, "ts": )" + std::to_string(ts) + R"(, "dur": 4, "args": {)" + ids + "}},";
  };
  std::string text = slice("user_annotation", "ProfilerStep#3", host, at, "\"n\": 0" + args);
  for (int i = 1; i <= 10; ++i) {
    const std::string id = "\"correlation\": " + std::to_string(i) + args;
    text += slice("cuda_runtime", "cudaLaunchKernel", host, at + i, id);
    text += slice("kernel", "gemm", device, at + 10 + i, id);
  }
  return text;
}

}  // namespace

TEST_CASE("merged ranks that are tagged become one trace each, with ids of their own") {
  std::string tagged =
      step_of_rank("100", "0", 10, R"(, "rank": 0)") + step_of_rank("100100", "100000", 13, R"(, "rank": 1)");
  tagged.pop_back();
  std::string named = step_of_rank("\"rank 0 python\"", "\"rank 0 GPU 0\"", 10, "") +
                      step_of_rank("\"rank 1 python\"", "\"rank 1 GPU 1\"", 13, "");
  named.pop_back();
  for (const std::string& events : {tagged, named}) {
    const std::vector<Trace> traces = read_all(file_of(events));
    REQUIRE(traces.size() == 2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      CHECK(traces[rank].rank == static_cast<std::int64_t>(rank));
      CHECK(traces[rank].events.size() == 21);
      CHECK(traces[rank].events[0].start_ns == (rank == 0 ? 10'000 : 13'000));
      CHECK(mentions(traces[rank].report.assumed, "one of 2 ranks"));
    }
  }
}

TEST_CASE("of many ranks in one file none takes the memory of all, and too many are refused") {
  const auto file = [](int ranks) {
    std::string events;
    for (int rank = 0; rank < ranks; ++rank)
      events += (rank > 0 ? "," : "") + op("a", std::to_string(rank), "1", "\"rank\": " + std::to_string(rank));
    return file_of(events);
  };
  const std::vector<Trace> traces = read_all(file(500));
  REQUIRE(traces.size() == 500);
  CHECK(traces[0].events.capacity() < 10);
  CHECK(error_of(file(5000)).find("at most 4096 ranks") != std::string::npos);
}

TEST_CASE("merged ranks without tags are told by process, or refused when they reuse ids") {
  std::string hosts = op("ProfilerStep#1", "1", "9") + "," + op("a", "2", "1");
  std::string other = hosts;
  for (std::size_t at = other.find("\"pid\": 7"); at != std::string::npos; at = other.find("\"pid\": 7", at + 1))
    other[at + 7] = '9';
  const std::vector<Trace> traces = read_all(file_of(hosts + "," + other));
  REQUIRE(traces.size() == 2);
  CHECK(traces[0].events.size() == 2);
  CHECK(traces[1].tracks[0].process == 9);
  CHECK(mentions(traces[0].report.assumed, "is a rank"));
  std::string colliding = step_of_rank("100", "0", 10, "") + step_of_rank("200", "1", 13, "");
  colliding.pop_back();
  CHECK(error_of(file_of(colliding)).find("reuse correlation ids") != std::string::npos);
}

TEST_CASE("an argument rank of a user's own region makes no merged file") {
  std::string events = step_of_rank("7", "0", 10, "");
  events += R"({"ph": "X", "cat": "user_annotation", "name": "region", "pid": 7, "tid": 7, "ts": 11, "dur": 9, )"
            R"("args": {"rank": 3}})";
  const std::vector<Trace> traces = read_all(file_of(events));
  REQUIRE(traces.size() == 1);
  CHECK(traces[0].rank == -1);
  CHECK(traces[0].events.size() == 22);
  std::uint32_t step = no_index, region = no_index;
  for (const Event& event : traces[0].events) {
    if (traces[0].text(event.name) == "region") region = event.track;
    if (traces[0].text(event.name) == "ProfilerStep#3") step = event.track;
  }
  CHECK(region == step);
  CHECK(traces[0].tracks.size() == 2);
  CHECK(traces[0].report.repaired.empty());
}

TEST_CASE("merged ranks that see one device of the same number share its streams, not their kernels") {
  std::string other = step_of_rank("200", "0", 13, "");
  for (std::size_t at = other.find("\"correlation\": "); at != std::string::npos;
       at = other.find("\"correlation\": ", at + 1))
    other.insert(at + 15, "50");
  std::string events = step_of_rank("100", "0", 10, "") + other;
  events.pop_back();
  const std::vector<Trace> traces = read_all(file_of(events));
  REQUIRE(traces.size() == 2);
  for (const Trace& trace : traces) CHECK(std::ranges::count(trace.events, EventKind::kernel, &Event::kind) == 10);
}

TEST_CASE("merged ranks of one process number, as containers give it, are refused") {
  std::string events = step_of_rank("7", "0", 10, "") + step_of_rank("7", "1", 13, "");
  events.pop_back();
  CHECK(error_of(file_of(events)).find("reuse correlation ids") != std::string::npos);
}

TEST_CASE("documents one behind the other are read one by one") {
  const auto rank = [](int number) {
    return R"({"distributedInfo": {"rank": )" + std::to_string(number) + R"(, "world_size": 2}, "traceEvents": [)" +
           op("a", "1", "1") + "]}\n";
  };
  const std::vector<Trace> traces = read_all(rank(0) + rank(1));
  REQUIRE(traces.size() == 2);
  CHECK((traces[0].rank == 0 && traces[1].rank == 1));
  CHECK(traces[0].report.events_seen == 1);
  const Reading broken = reading_of({"t", std::as_bytes(std::span(std::string_view(rank(0)).substr(0)))});
  CHECK(broken.traces.size() == 1);
  const std::string tail = rank(0) + "trailing";
  CHECK(mentions(read(tail).report.repaired, "what follows the end"));
  CHECK(error_of(tail, true).find("what follows") != std::string::npos);
}
