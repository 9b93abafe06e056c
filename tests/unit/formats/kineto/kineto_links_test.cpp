// What a Kineto file says of who belongs to whom beyond time: process groups, and waits between streams and the host.
#include <stepcast/base/error.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/formats/kineto/process_groups.hpp>
#include <stepcast/formats/shared/recorded_collective.hpp>

#include "helpers/shared_data.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

using namespace stepcast;

namespace {

using Ranks = std::vector<std::int64_t>;

Trace read(const std::string& text) { return trace_of({"test.json", std::as_bytes(std::span(text))}); }

// "kernel a -> kernel b" lines, in order.
std::string waits_of(const Trace& trace) {
  std::ostringstream out;
  for (const Dependency& d : trace.dependencies)
    out << (d.kind == DependencyKind::stream_wait ? "stream " : "host ") << trace.text(trace.events[d.before].name)
        << " -> " << trace.text(trace.events[d.after].name) << '\n';
  return out.str();
}

std::string call(const std::string& name, int at, int correlation) {
  return R"({"ph": "X", "cat": "cuda_runtime", "name": ")" + name + R"(", "pid": 7, "tid": 8, "ts": )" +
         std::to_string(at) + R"(, "dur": 1, "args": {"correlation": )" + std::to_string(correlation) + "}},";
}

std::string kernel(const std::string& name, int at, int stream, int correlation) {
  return R"({"ph": "X", "cat": "kernel", "name": ")" + name + R"(", "pid": 0, "tid": )" + std::to_string(stream) +
         R"(, "ts": )" + std::to_string(at) + R"(, "dur": 5, "args": {"correlation": )" + std::to_string(correlation) +
         "}},";
}

std::string sync(const std::string& kind, int at, int stream, int correlation, int waited_stream, int record) {
  return R"({"ph": "X", "cat": "cuda_sync", "name": ")" + kind + R"(", "pid": 0, "tid": )" + std::to_string(stream) +
         R"(, "ts": )" + std::to_string(at) + R"(, "dur": 1, "args": {"cuda_sync_kind": ")" + kind +
         R"(", "wait_on_stream": )" + std::to_string(waited_stream) + R"(, "wait_on_cuda_event_record_corr_id": )" +
         std::to_string(record) + R"(, "stream": )" + std::to_string(stream) + R"(, "correlation": )" +
         std::to_string(correlation) + "}},";
}

std::string file_of(std::string events) {
  events.pop_back();
  return R"({"schemaVersion": 1, "traceEvents": [)" + events + "]}";
}

std::string collective(const std::string& group, const std::string& ranks, int size, const std::string& more = "") {
  return R"({"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 7, "tid": 8, "ts": 1, "dur": 1, "args": {)"
         R"("Record function id": 12, "Collective name": "all_to_allv", "In msg nelems": 8, "Out msg nelems": 6, )"
         R"("dtype": "Float", "In split size": "[4, 4]", "Out split size": "[2, 4]", "Seq": 9, )"
         R"("Process Group Description": "mesh", "Process Group Name": ")" +
         group + R"(", "Process Group Ranks": ")" + ranks + R"(", "Group size": )" + std::to_string(size) + more +
         "}},";
}

}  // namespace

TEST_CASE("collectives keep their splits, ranks, group and sequence number") {
  const Trace trace = read(file_of(collective("3", "[0, 4]", 2, R"(, "Src Rank": 1, "Dst Rank": 0)")));
  REQUIRE(trace.collectives.size() == 1);
  const CollectiveArguments& c = trace.collectives[0];
  CHECK(trace.text(c.in_split) == "[4, 4]");
  CHECK(trace.text(c.out_split) == "[2, 4]");
  CHECK(trace.text(c.ranks) == "[0, 4]");
  CHECK(trace.text(c.group_description) == "mesh");
  CHECK(c.sequence == 9);
  CHECK(c.source_rank == 1);
  CHECK(c.destination_rank == 0);
  CHECK(trace.events[0].record_function == 12);
}

TEST_CASE("the check for NaN of what a collective sends is no collective") {
  const auto with_arguments = [](const std::string& name) {
    std::string text = kernel(name, 10, 20, 5);
    return text.insert(
        text.find("\"correlation\""),
        R"("Collective name": "allreduce", "In msg nelems": 8, "Out msg nelems": 8, "dtype": "Float", )");
  };
  const Trace trace = read(file_of(with_arguments("void c10d::checkForNaN<float>(float*, unsigned long)") +
                                   with_arguments("ncclDevKernel_AllReduce_Sum_f32_RING_LL")));
  REQUIRE(trace.events.size() == 2);
  CHECK(trace.collectives.size() == 1);
  CHECK((trace.events[0].collective == no_index || trace.events[1].collective == no_index));
}

TEST_CASE("lists of ranks") {
  CHECK(complete_ranks("[0, 1, 2]") == Ranks{0, 1, 2});
  CHECK(complete_ranks("[]") == Ranks{});
  CHECK(!complete_ranks("[0, 1, ...]"));
  CHECK(!complete_ranks("[0, 1"));
  CHECK(!complete_ranks(""));
  CHECK(!complete_ranks("[0 1]"));
}

TEST_CASE("process groups: cut lists are made whole from the list of groups or from first rank and stride") {
  std::string cut = "[0";
  for (int i = 1; i < 30; ++i) cut += ", " + std::to_string(4 * i);
  cut += ", ...]";
  const std::string events = collective("tp", cut, 32) +
                             collective("dp", cut, 40, R"(, "Global rank start": 2, "Global rank stride": 4)") +
                             collective("pp", cut, 40) + collective("ep", "[1, 3]", 2, R"(, "Rank": 1)");
  std::string all = "[";
  for (int i = 0; i < 32; ++i) all += (i ? ", " : "") + std::to_string(5 * i);
  const std::string text = R"({"schemaVersion": 1, "traceEvents": [)" + events.substr(0, events.size() - 1) +
                           R"(], "distributedInfo": {"backend": "nccl", "world_size": 160, "pg_config": [)"
                           R"({"pg_name": "0", "pg_desc": "default_pg", "pg_size": 160, "ranks": []},)"
                           R"({"pg_name": "tp", "uid": "tensor", "pg_size": 32, "ranks": ")" +
                           all + R"(]"}]}})";
  const Trace trace = read(text);
  REQUIRE(trace.groups.size() == 5);
  CHECK(trace.groups[0].name == "0");
  CHECK(trace.groups[0].description == "default_pg");
  CHECK(trace.groups[0].ranks.size() == 160);
  CHECK(trace.groups[1].description == "tensor");
  CHECK((trace.groups[1].ranks.size() == 32 && trace.groups[1].ranks.back() == 155));
  CHECK(trace.groups[2].name == "dp");
  CHECK((trace.groups[2].ranks.size() == 40 && trace.groups[2].ranks.front() == 2 &&
         trace.groups[2].ranks.back() == 158));
  CHECK(trace.groups[3].ranks.empty());  // cut, and nothing tells how it goes on
  CHECK(trace.groups[4].ranks == Ranks{1, 3});
  CHECK(trace.rank == 3);  // second in its group
  CHECK(std::ranges::any_of(trace.report.assumed, [](const std::string& line) { return line.starts_with("rank 3 "); }));
}

TEST_CASE("collectives with a root say its rank, not that of the process") {
  const auto recorded = [](const std::string& name, int rank) {
    std::string text = collective("0", "[4, 5, 6, 7]", 4, R"(, "Rank": )" + std::to_string(rank));
    return text.replace(text.find("all_to_allv"), 11, name);
  };
  for (const char* rooted : {"broadcast", "reduce", "gather", "scatter", "send", "recv"}) {
    CAPTURE(rooted);
    CHECK(read(file_of(recorded(rooted, 0))).rank == -1);
    CHECK(read(file_of(recorded(rooted, 0) + recorded("_allgather_base", 2))).rank == 6);
  }
  CHECK(read(file_of(recorded("barrier", 3))).rank == 7);
  // Made by Kineto from the first collective, the broadcast.
  const std::string events = recorded("broadcast", 0) + recorded("allreduce", 2);
  const Trace on_demand = read(R"({"traceEvents": [)" + events.substr(0, events.size() - 1) +
                               R"(], "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 4}})");
  CHECK(on_demand.rank == 6);
  CHECK(std::ranges::any_of(on_demand.report.assumed,
                            [](const std::string& line) { return line.find("not 0 as") != line.npos; }));
}

TEST_CASE("counts of elements that overflowed 32 bits are restored") {
  const auto restored = [](const char* name, std::int64_t in, std::int64_t out, std::int64_t size) {
    const bool changed = restore_counts(name, size, in, out);
    return std::pair(changed ? in : -2, changed ? out : -2);
  };
  using Counts = std::pair<std::int64_t, std::int64_t>;
  CHECK(restored("_allgather_base", 32'833'536, -92'274'688, 128) == Counts(32'833'536, 4'202'692'608));
  CHECK(restored("_allgather_base", 40'000'000, 825'032'704, 128) == Counts(40'000'000, 5'120'000'000));
  CHECK(restored("_reduce_scatter_base", -92'274'688, 32'833'536, 128) == Counts(4'202'692'608, 32'833'536));
  CHECK(restored("allreduce", -2'147'483'648, -2'147'483'648, 8) == Counts(2'147'483'648, 2'147'483'648));
  CHECK(restored("all_to_allv", 8, 1 << 30, 4) == Counts(-2, -2));  // fine as they are
  CHECK(restored("allreduce", 1 << 30, 1 << 30, 5) == Counts(-2, -2));
  CHECK(restored("_allgather_base", 8, 64, 8) == Counts(-2, -2));
  CHECK(restored("_allgather_base", 8, 60, 8) == Counts(-2, -2));
  CHECK(restored("_allgather_base", -1, -1, 8) == Counts(-2, -2));

  std::string text = collective("0", "[0, 1]", 128);
  text.replace(text.find("all_to_allv"), 11, "_allgather_base");
  const std::string small = R"("In msg nelems": 8, "Out msg nelems": 6)";
  text.replace(text.find(small), small.size(), R"("In msg nelems": 32833536, "Out msg nelems": -92274688)");
  const Trace trace = read(file_of(text));
  CHECK(trace.collectives.at(0).out_elements == 4'202'692'608);
  CHECK(std::ranges::any_of(trace.report.assumed,
                            [](const std::string& line) { return line.find("overflowed 32 bits") != line.npos; }));
}

TEST_CASE("a stream's wait for an event joins the work before the record with the work behind the wait") {
  const std::string events = call("cudaLaunchKernel", 10, 1) + call("cudaEventRecord", 12, 2) +
                             call("cudaLaunchKernel", 14, 3) + call("cudaStreamWaitEvent", 16, 4) +
                             call("cudaLaunchKernel", 18, 5) + call("cudaLaunchKernel", 20, 6) + kernel("a", 20, 7, 1) +
                             kernel("late", 30, 7, 3) + kernel("b", 40, 20, 5) + kernel("c", 50, 20, 6) +
                             sync("Stream Wait Event", 17, 20, 4, 7, 2);
  CHECK(waits_of(read(file_of(events))) == "stream a -> b\n");
}

TEST_CASE("waits without work in between are chained; the first wait of a window may be for what came before it") {
  const std::string events =
      call("cudaStreamWaitEvent", 5, 40) + sync("Stream Wait Event", 5, 9, 40, 7, 39) +  // recorded before the file
      call("cudaLaunchKernel", 10, 1) + kernel("a", 20, 7, 1) + call("cudaEventRecord", 11, 2) +
      call("cudaStreamWaitEvent", 12, 3) + sync("Stream Wait Event", 12, 8, 3, 7, 2) + call("cudaEventRecord", 13, 4) +
      call("cudaStreamWaitEvent", 14, 5) + sync("Stream Wait Event", 14, 9, 5, 8, 4) + call("cudaLaunchKernel", 15, 6) +
      kernel("b", 30, 9, 6);
  CHECK(waits_of(read(file_of(events))) == "stream a -> b\n");
}

TEST_CASE("the host waits for events, streams and devices, but does not wait when it only asks") {
  const std::string events = call("cudaLaunchKernel", 10, 1) + kernel("a", 20, 7, 1) + call("cudaLaunchKernel", 12, 2) +
                             kernel("b", 20, 8, 2) + call("cudaEventRecord", 13, 3) + call("cudaEventQuery", 14, 4) +
                             sync("Event Sync", 14, -1, 4, 7, 3) + call("cudaEventSynchronize", 15, 5) +
                             sync("Event Sync", 15, -1, 5, 7, 3) + call("cudaStreamSynchronize", 30, 6) +
                             sync("Stream Sync", 30, 8, 6, -1, -1) + call("cudaDeviceSynchronize", 40, 7) +
                             sync("Context Sync", 40, -1, 7, -1, -1);
  CHECK(waits_of(read(file_of(events))) ==
        "host a -> cudaEventSynchronize\nhost b -> cudaStreamSynchronize\n"
        "host a -> cudaDeviceSynchronize\nhost b -> cudaDeviceSynchronize\n");
}

TEST_CASE("real traces with event ids: what waits does not begin before what it waits for has ended") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  struct Case {
    const char* path;
    std::int64_t stream, host;
  };
  for (const Case& c : {Case{"critical_path__alexnet__benchmark_result_2869224_1695835535_trace.json.gz", 6, 25},
                        Case{"critical_path__cuda_event_sync__event_sync_trace.json.gz", 0, 3},
                        Case{"critical_path__cuda_event_sync_multi_stream__event_sync_trace.json.gz", 1, 3},
                        Case{"critical_path__end_to_end__simple_add__input__trace.json.gz", 0, 25}}) {
    CAPTURE(std::string(c.path));
    const Trace trace = trace_of(test::File(*folder / "facebookresearch__HolisticTraceAnalysis" / c.path).source());
    std::int64_t stream = 0, host = 0;
    for (const Dependency& d : trace.dependencies) {
      const Event &before = trace.events[d.before], &after = trace.events[d.after];
      CAPTURE(trace.text(before.name));
      CAPTURE(trace.text(after.name));
      if (d.kind == DependencyKind::stream_wait) {
        ++stream;
        CHECK(before.track != after.track);
        CHECK(before.end_ns() <= after.start_ns);
      } else {
        ++host;
        CHECK(before.end_ns() <= after.end_ns());
      }
    }
    CHECK(stream == c.stream);
    CHECK(host == c.host);
  }
}
