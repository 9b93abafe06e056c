// Chakra: small files written by hand in both schemas, every damage, and the way there and back of a trace.
#include "helpers/hand_trace.hpp"
#include "helpers/shared_data.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/documents/chakra_export.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/formats/chakra/chakra.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <string>

using namespace stepcast;

namespace {

/// Protobuf by hand: a field of bytes, a field of a number, a message behind its length.
std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}
std::string field(int number, std::uint64_t value) { return varint(number * 8) + varint(value); }
std::string field(int number, const std::string& bytes) {
  return varint(number * 8 + 2) + varint(bytes.size()) + bytes;
}
std::string message(const std::string& fields) { return varint(fields.size()) + fields; }
std::string attribute(const std::string& name, int type, std::uint64_t value) {
  return field(10, field(1, name) + field(type, value));
}
std::string attribute(const std::string& name, const std::string& value) {
  return field(10, field(1, name) + field(29, value));
}
constexpr int boolean = 27, int64 = 9, uint64 = 13, int32 = 7;

const std::string metadata = message(field(1, "0.0.4"));
std::string compute(std::uint64_t id, std::uint64_t us, bool host, const std::string& more = {}) {
  return message(field(1, id) + field(2, "op " + std::to_string(id)) + field(3, 4) + field(7, us) +
                 attribute("is_cpu_op", boolean, host) + more);
}

Reading reading(const std::string& text, bool strict = false, const std::string& name = "trace.3.et") {
  ReadOptions options;
  options.strict = strict;
  return reading_of({name, std::as_bytes(std::span(text))}, options);
}
Trace read(const std::string& text) { return std::move(reading(text).traces.at(0)); }

bool says(const std::vector<std::string>& remarks, std::string_view words) {
  return std::ranges::any_of(remarks, [&](const std::string& r) { return r.find(words) != r.npos; });
}
std::string refusal(const std::string& text, bool strict = false) {
  try {
    (void)reading(text, strict);
  } catch (const InputError& error) { return error.what(); }
  return "read";
}

const Event& named(const Trace& trace, std::string_view name) {
  for (const Event& event : trace.events)
    if (trace.text(event.name) == name) return event;
  FAIL("no event " << name);
  return trace.events.front();
}

}  // namespace

TEST_CASE("chakra: a microbenchmark of ASTRA-sim is one collective without a time") {
  const std::string text =
      metadata + message(field(1, 1) + field(2, "All-Reduce") + field(3, 7) + attribute("is_cpu_op", boolean, 0) +
                         attribute("comm_type", int64, 0) + attribute("comm_size", int64, 1048576) +
                         field(10, field(1, "involved_dim") + field(28, field(1, std::string("\x01")))));
  const Trace trace = read(text);
  REQUIRE(trace.events.size() == 1);
  CHECK(trace.rank == 3);
  CHECK(trace.report.format == "chakra");
  CHECK(trace.report.producer == "Chakra execution trace 0.0.4");
  CHECK(trace.events[0].kind == EventKind::kernel);
  const CollectiveArguments& arguments = trace.collectives.at(trace.events[0].collective);
  CHECK(trace.text(arguments.name) == "allreduce");
  CHECK(arguments.in_elements == 1048576);
  CHECK(trace.text(arguments.dtype) == "Byte");
  CHECK(says(trace.report.missing, "durations"));
}

TEST_CASE("chakra: without starts, times are laid out by the data dependencies") {
  const std::string launch = field(5, varint(1));
  const std::string text = metadata + compute(1, 10, true) + compute(2, 20, true) + compute(3, 30, false, launch) +
                           compute(4, 5, true, field(5, varint(3) + varint(2)));
  const Trace trace = read(text);
  CHECK(named(trace, "op 1").start_ns == 0);
  CHECK(named(trace, "op 2").start_ns == 10'000);  // the same thread
  CHECK(named(trace, "op 3").start_ns == 10'000);  // launched by 1
  CHECK(named(trace, "op 4").start_ns == 40'000);  // waits for 3
  CHECK(named(trace, "op 3").correlation == named(trace, "op 1").correlation);
  CHECK(trace.dependencies.size() == 3);
  CHECK(says(trace.report.assumed, "laid out by the data dependencies"));
  CHECK(says(trace.report.assumed, "whole microseconds"));
}

TEST_CASE("chakra: where there are only control dependencies they order the nodes") {
  const Trace trace = read(metadata + compute(1, 10, false) + compute(2, 20, true, field(4, 1)));
  CHECK(named(trace, "op 2").start_ns == 10'000);
  CHECK(trace.dependencies.at(0).kind == DependencyKind::control);
  CHECK(says(trace.report.assumed, "control dependencies"));
}

TEST_CASE("chakra: nodes that say when they started keep their times") {
  const Trace trace = read(metadata + compute(1, 10, true, field(6, 500)) + compute(2, 0, true, field(6, 700)));
  CHECK(named(trace, "op 1").start_ns == 500'000);
  CHECK(named(trace, "op 2").start_ns == 700'000);
  CHECK(says(trace.report.missing, "1 of 2 nodes"));
  CHECK_FALSE(says(trace.report.assumed, "laid out"));
}

TEST_CASE("chakra: signed, unsigned and impossible sizes, collectives of unknown kind") {
  const auto collective = [](std::uint64_t id, const std::string& attributes) {
    return message(field(1, id) + field(2, "nccl " + std::to_string(id)) + field(3, 7) + field(7, 5) + attributes);
  };
  const Trace trace =
      read(metadata + collective(1, attribute("comm_type", int64, 2) + attribute("comm_size", uint64, 4096)) +
           collective(2, attribute("comm_type", uint64, 7) + attribute("comm_size", int64, 64)) +
           collective(3, attribute("comm_type", int64, 77) + attribute("comm_size", uint64, ~0ull)) +
           message(field(1, 4) + field(2, "send") + field(3, 5) + attribute("comm_dst", int32, 6) +
                   attribute("comm_size", int64, 8) + attribute("comm_group", "tp")));
  const auto arguments = [&](std::string_view name) { return trace.collectives.at(named(trace, name).collective); };
  CHECK(trace.text(arguments("nccl 1").name) == "allgather");
  CHECK(arguments("nccl 1").in_elements == 4096);
  CHECK(trace.text(arguments("nccl 2").name) == "reducescatter");
  CHECK(trace.text(arguments("nccl 3").name).empty());
  CHECK(arguments("nccl 3").in_elements == -1);
  CHECK(trace.text(arguments("send").name) == "send");
  CHECK(arguments("send").destination_rank == 6);
  CHECK(trace.text(arguments("send").group) == "tp");
  CHECK(says(trace.report.missing, "sizes of 1 of 4"));
  CHECK(says(trace.report.missing, "kinds of 1 of 4"));
  CHECK(says(trace.report.assumed, "do not say is_cpu_op"));
  CHECK(named(trace, "nccl 1").kind == EventKind::kernel);
}

TEST_CASE("chakra: the schema before, with attribute types") {
  const auto old = [](const std::string& name, int type, int number, std::uint64_t value) {
    return field(11, field(1, name) + field(2, type) + field(number, value));
  };
  const std::string text = message(field(1, field(1, "schema") + field(2, 4) + field(8, "1.0.1"))) +
                           message(field(1, 7) + field(2, "aten::mm") + field(3, 4) + field(5, "[]") +
                                   field(6, "[[2, 2]]") + old("is_cpu_op", 0, 4, 1) + old("runtime", 3, 7, 12)) +
                           message(field(1, 8) + field(2, "ncclKernel") + field(3, 7) + field(4, 7) +
                                   old("is_cpu_op", 0, 4, 0) + old("comm_type", 3, 7, 2) + old("comm_size", 2, 6, 100));
  const Trace trace = read(text);
  CHECK(named(trace, "aten::mm").duration_ns == 12'000);
  CHECK(trace.text(named(trace, "aten::mm").shapes) == "[[2, 2]]");
  const CollectiveArguments& arguments = trace.collectives.at(named(trace, "ncclKernel").collective);
  CHECK(trace.text(arguments.name) == "allgather");
  CHECK(arguments.in_elements == 100);
  CHECK(trace.dependencies.at(0).kind == DependencyKind::control);
  CHECK(trace.report.producer.find("attribute types") != std::string::npos);
}

TEST_CASE("chakra: process groups of PyTorch, types as JSON") {
  const std::string groups = "['[{\"pg_name\": \"1\", \"pg_desc\": \"tp\", \"ranks\": [0, 2]}]']";
  const Trace trace =
      read(metadata +
           message(field(1, 0) + field(2, "## process_group:init ##") + field(3, 1) + field(8, field(1, groups))) +
           compute(1, 3, true,
                   field(8, field(3, "['GenericList[Tensor(c10::Half),Tensor(c10::Half)]', 'Int', 'Tensor(float)']"))) +
           compute(2, 3, true, field(8, field(3, "[\"float\",\"Scalar\"]"))) +
           compute(3, 3, true, field(8, field(3, "['open"))));
  REQUIRE(trace.groups.size() == 1);
  CHECK(trace.groups[0].name == "1");
  CHECK(trace.groups[0].description == "tp");
  CHECK(trace.groups[0].ranks == std::vector<std::int64_t>{0, 2});
  CHECK(trace.text(named(trace, "op 1").types) == R"(["c10::Half", "Int", "float"])");
  CHECK(trace.text(named(trace, "op 2").types) == R"(["float","Scalar"])");
  CHECK(trace.text(named(trace, "op 3").types) == R"(["open)");
}

TEST_CASE("chakra: damage is repaired with a count, and refused when strict") {
  const std::string whole = metadata + compute(1, 10, true) + compute(2, 10, true);
  SUBCASE("a truncated tail") {
    const std::string cut = whole.substr(0, whole.size() - 4);
    CHECK(read(cut).events.size() == 1);
    CHECK(says(read(cut).report.repaired, "1 node dropped"));
    CHECK(refusal(cut, true).find("ends inside a node") != std::string::npos);
  }
  SUBCASE("a length that nothing has") {
    CHECK(says(read(whole + "\xff\xff\xff\xff\xff\xff\xff\xff\x7f????").report.repaired, "there are no nodes"));
    CHECK(says(read(whole + "\xff\xff\xff\x0f x").report.repaired, "truncated tail"));
  }
  SUBCASE("garbage between nodes") {
    const Trace trace = read(whole + std::string("\x05hello", 6) + compute(3, 1, true));
    CHECK(trace.events.size() == 2);
    CHECK(says(trace.report.repaired, "from byte"));
  }
  SUBCASE("a repeated id, an unknown dependency, a circle") {
    CHECK(says(read(whole + compute(2, 5, true)).report.repaired, "1 nodes dropped"));
    CHECK(says(read(metadata + compute(1, 5, true, field(5, 99))).report.missing, "1 dependencies on nodes"));
    const Trace circle = read(metadata + compute(1, 5, true, field(5, 2)) + compute(2, 5, true, field(5, 1)));
    CHECK(circle.events.size() == 2);
    CHECK(says(circle.report.repaired, "round in a circle"));
  }
}

TEST_CASE("chakra: what is none is refused with one message") {
  CHECK(refusal(metadata).find("expected nodes") != std::string::npos);
  const std::string graph_of_2022 = message(field(1, 1) + field(2, "COMP") + field(3, 3) + field(7, 10));
  CHECK(refusal(graph_of_2022 + graph_of_2022).find("before 2023") != std::string::npos);
}

TEST_CASE("chakra: the JSON form") {
  const std::string text = R"json({"workload_graph": [
    {"Id": 1, "Name": "aten::mm(0)", "NodeType": 4, "ctrlDeps": [9], "data_deps": [], "runtime": 318,
     "is_cpu_op": true},
    {"Id": 2, "Name": "ncclKernel", "NodeType": 7, "data_deps": [1], "runtime": 28.5, "is_cpu_op": false,
     "comm_type": 5, "comm_size": 64}], "ngpus": 8})json";
  const Trace trace = std::move(reading(text, false, "small.4.json").traces.at(0));
  CHECK(trace.report.format == "chakra-json");
  CHECK(trace.rank == 4);
  CHECK(named(trace, "aten::mm(0)").duration_ns == 318'000);
  CHECK(named(trace, "ncclKernel").duration_ns == 28'500);
  CHECK(named(trace, "ncclKernel").start_ns == 318'000);
  CHECK(trace.text(trace.collectives.at(0).name) == "broadcast");
  CHECK(refusal(R"({"workload_graph": [{"Name": "x"}]})").find("\"Id\"") != std::string::npos);
  CHECK(refusal(R"({"workload_graph": [{"Id": 1, "runtime": -5}]})").find("runtime >= 0") != std::string::npos);
  CHECK(refusal(R"({"workload_graph": [{"Id": 1)").find("ends early") != std::string::npos);
  CHECK(refusal(R"({"workload_graph": {}})").find("an array") != std::string::npos);
}

namespace {

struct Sums {
  std::int64_t host = 0, device = 0, communication = 0;
};

/// What a written file holds when it is read back.
Sums sums_of(const Trace& trace) {
  Sums sums;
  for (const Event& event : trace.events) {
    if (event.collective != no_index) sums.communication += event.duration_ns;
    else if (is_device_work(event.kind)) sums.device += event.duration_ns;
    else sums.host += event.duration_ns;
  }
  return sums;
}

/// Union of the host events of each thread, the collectives of the host apart.
std::int64_t host_union(const Trace& trace) {
  std::map<std::uint32_t, std::int64_t> covered;
  std::int64_t sum = 0;
  for (const Event& event : trace.events) {
    const std::string_view name = trace.text(event.name);
    if (trace.tracks[event.track].on_device || event.kind == EventKind::python || name.starts_with("gloo:")) continue;
    std::int64_t& end = covered.try_emplace(event.track, INT64_MIN).first->second;
    sum += std::max<std::int64_t>(0, event.end_ns() - std::max(end, event.start_ns));
    end = std::max(end, event.end_ns());
  }
  return sum;
}

bool depends(const Trace& trace, std::string_view before, std::string_view after) {
  return std::ranges::any_of(trace.dependencies, [&](const Dependency& d) {
    return d.kind == DependencyKind::data && trace.text(trace.events[d.before].name) == before &&
           trace.text(trace.events[d.after].name) == after;
  });
}

}  // namespace

TEST_CASE("chakra export: nothing counts twice, and every order is a data dependency") {
  test::HandTrace hand;
  hand.step(1, 0, 100);
  hand.op(0, "aten::conv2d", 10, 40);
  hand.kernel(0, 20, 25.5, 7, "gemm", 30, 60.001);
  hand.kernel(0, 41, 44, 7, "relu", 60.001, 70);
  hand.kernel(0, 45, 46, 9, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 65, 90);
  hand.call(0, "cudaDeviceSynchronize", 50, 95);
  const ChakraExport written = chakra_export_of(hand.trace());
  CHECK(written.device_ns == 30'001 + 9'999);
  CHECK(written.communication_ns == 25'000);
  CHECK(written.waiting_ns == 40'000);  // until the collective had ended at 90
  CHECK(written.host_ns == 100'000 - 40'000);
  CHECK(written.communication_nodes == 1);
  const Trace trace = read(written.bytes);
  const Sums sums = sums_of(trace);
  CHECK(sums.host == written.host_ns);
  CHECK(sums.device == written.device_ns);
  CHECK(sums.communication == written.communication_ns);
  CHECK(depends(trace, "cudaLaunchKernel", "gemm"));
  CHECK(depends(trace, "gemm", "relu"));
  CHECK(depends(trace, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "cudaDeviceSynchronize"));
  CHECK(depends(trace, "in ProfilerStep#1", "aten::conv2d"));
  CHECK(trace.text(trace.collectives.at(0).name) == "allreduce");
  CHECK(says(written.remarks, "no size"));
}

TEST_CASE("chakra export: sizes that cannot be are none") {
  for (const char* dtype : {"Float", "nothing"}) {
    Trace trace = read(metadata + message(field(1, 1) + field(2, "All-Reduce") + field(3, 7) + field(7, 1) +
                                          attribute("is_cpu_op", boolean, 0) + attribute("comm_type", int64, 0) +
                                          attribute("comm_dtype", "Float") + attribute("comm_size", int64, 64)));
    REQUIRE(trace.collectives.size() == 1);
    CollectiveArguments& arguments = trace.collectives[0];
    arguments.in_elements = arguments.out_elements = std::numeric_limits<std::int64_t>::max();
    trace.strings[arguments.dtype] = dtype;
    const Trace back = read(chakra_export_of(trace).bytes);
    REQUIRE(back.collectives.size() == 1);
    CHECK(back.collectives[0].in_elements == 0);
  }
}

TEST_CASE("chakra export: one step, and what is not there") {
  const Trace two = test::repeated(
      100, 90,
      [](test::HandTrace& hand) {
        hand.op(0, "aten::mm", 5, 15);
        hand.kernel(0, 6, 7, 7, "gemm", 80, 98);
      },
      2);
  CHECK(chakra_export_of(two).device_ns == 36'000);
  const ChakraExport one = chakra_export_of(two, 1);
  CHECK(one.device_ns == 18'000);  // the kernel that the step launched, though it runs on behind it
  CHECK(one.host_ns == 90'000);
  CHECK_THROWS_WITH_AS((void)chakra_export_of(two, 7), doctest::Contains("found 2 steps, 0 to 1"), InputError);
  CHECK_THROWS_AS((void)chakra_export_of(Trace{}), InputError);
}

TEST_CASE("chakra export: a lab trace of two ranks keeps its totals to the nanosecond") {
  const auto folder = test::shared_folder("lab/traces");
  if (!folder) return;
  for (const char* rank : {"0", "1"}) {
    const test::File file(*folder / ("resnet18_w2_ddp25_1000mbit_rank" + std::string(rank) + ".json.gz"));
    const Trace original = trace_of(file.source());
    std::int64_t communication = 0;
    for (const Event& event : original.events)
      if (original.text(event.name).starts_with("gloo:")) communication += event.duration_ns;
    const ChakraExport written = chakra_export_of(original);
    CHECK(written.communication_ns == communication);
    CHECK(written.host_ns == host_union(original));
    const Trace back = read(written.bytes);
    const Sums sums = sums_of(back);
    CHECK(sums.communication == communication);
    CHECK(sums.host == host_union(original));
    CHECK(sums.device == 0);
    CHECK(back.rank == original.rank);
    CHECK(back.report.repaired.empty());
  }
}

TEST_CASE("chakra export: collectives of unknown kind stay communication, a waiting copy is launched before it waits") {
  test::HandTrace hand;
  hand.kernel(0, 0, 2, 7, "gemm", 3, 50);
  hand.kernel(0, 3, 4, 9, "ncclDevKernel_SendRecv", 5, 30);
  hand.call(0, "cudaStreamSynchronize", 10, 55);
  const ChakraExport written = chakra_export_of(hand.trace());
  const Trace trace = read(written.bytes);
  CHECK(written.communication_ns == 25'000);
  CHECK(sums_of(trace).communication == 25'000);
  CHECK(written.waiting_ns == 40'000);
  CHECK(std::ranges::count_if(
            trace.events, [&](const Event& event) { return trace.text(event.name) == "cudaStreamSynchronize"; }) == 2);
}
