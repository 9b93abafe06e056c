// Collectives of XLA: what the text of an instruction says of them, and that each counts once.
#include <stepcast/anatomy/trace_summary.hpp>
#include <stepcast/formats/xla/hlo_text.hpp>
#include <stepcast/trace/steps.hpp>

#include "helpers/timelines.hpp"

#include <doctest/doctest.h>

#include <numeric>

using namespace stepcast;
using namespace stepcast::test;

namespace {

std::string line(int tid, const std::string& name) {
  return R"({"ph":"M","pid":3,"tid":)" + std::to_string(tid) + R"(,"name":"thread_name","args":{"name":")" + name +
         "\"}},\n";
}
/// An instruction, under its name.
std::string x(int tid, const std::string& text, const std::string& ts, const std::string& dur,
              const std::string& done = "") {
  return R"({"ph":"X","pid":3,"tid":)" + std::to_string(tid) + R"(,"ts":)" + ts + R"(,"dur":)" + dur + R"(,"name":")" +
         std::string(hlo_instruction(text).name) + R"(","args":{"long_name":")" + text + "\"" +
         (done.empty() ? "" : R"(,"hlo_op":")" + done + "\"") + "}},\n";
}
std::string tpu(const std::string& events) {
  return R"({"displayTimeUnit":"ns","traceEvents":[)"
         R"({"ph":"M","pid":3,"name":"process_name","args":{"name":"/device:TPU:0"}},)" +
         line(3, "XLA Ops") + line(4, "Async XLA Ops") + events + "{}]}";
}

const std::string start =
    "%all-gather-start.1 = (f32[256]{0:T(256)}, f32[1024]{0:T(256)S(1)}) all-gather-start(f32[256]{0:T(256)} %p.3)";
const std::string done =
    "%all-gather-done.9 = f32[1024]{0} all-gather-done((f32[256]{0}, f32[1024]{0}) %all-gather-start.1)";
const std::string fusion = "%fusion.1 = f32[1024]{0} fusion(f32[1024]{0} %x), kind=kLoop";

Bytes collective_bytes(const TraceSummary& summary) {
  return std::accumulate(summary.bytes_by_source.begin(), summary.bytes_by_source.end(), Bytes(0));
}

}  // namespace

TEST_CASE("hlo text: name, result, opcode and operands, whatever the layouts look like") {
  const HloInstruction gather = hlo_instruction(start);
  CHECK(gather.name == "all-gather-start.1");
  CHECK(gather.result == "(f32[256]{0:T(256)}, f32[1024]{0:T(256)S(1)})");
  CHECK(gather.opcode == "all-gather-start");
  CHECK(gather.operands == "(f32[256]{0:T(256)} %p.3)");
  CHECK(hlo_part("all-gather-start.1", gather) == HloPart::start);
  CHECK(hlo_part("psum.1", hlo_instruction("%psum.1 = f32[8]{0} all-reduce-done(f32[8]{0} %q)")) == HloPart::done);
  CHECK(hlo_part("all-reduce.1", {}) == HloPart::whole);
  CHECK(hlo_part("fusion.1", hlo_instruction(fusion)) == HloPart::whole);
  for (const char* cut : {"", "%a", "%a = ", "%a = f32[8]", "%a = (f32[8], f3", "%a = f32[8] all-reduce", "= ) }"})
    CHECK(hlo_instruction(cut).operands.empty());
  CHECK(hlo_instruction("%a = f32[8] all-reduce(f32[8] %b, f32[").operands.empty());
}

TEST_CASE("hlo text: a start's result is behind its operands, and is counted without them") {
  const auto elements = [](const std::string& text) {
    const HloElements e = hlo_elements(hlo_instruction(text));
    return std::string(e.type) + " " + std::to_string(e.in) + " " + std::to_string(e.out);
  };
  CHECK(elements(start) == "f32 256 1024");
  CHECK(elements("%s = ((f32[2], f32[4]), (f32[8], f32[16])) all-gather-start(f32[2] %a, f32[4] %b)") == "f32 6 24");
  CHECK(elements("%s = (f32[9], f32[9], u32[], u32[]) collective-permute-start(f32[9] %a)") == "f32 9 9");
  CHECK(elements("%s = ((f32[64]), f32[8], s32[]) async-start(f32[64] %a)") == "f32 64 8");
  CHECK(elements("%s = (f32[3], f32[5]) all-reduce-start(f32[3] %a, f32[5] %b)") == "f32 8 8");
  CHECK(elements("%s = bf16[8,2]{1,0} reduce-scatter(bf16[32,2]{1,0} %a)") == "bf16 64 16");
  CHECK(elements("%s = f32[8] all-reduce(%a)") == "f32 -1 8");
  CHECK(elements("%s = (f32[8], u32[]) all-reduce(f32[8] %a, u32[] %b)") == " -1 -1");
}

TEST_CASE("xla: collectives of TensorFlow's operators") {
  CHECK(tensorflow_collective("replica_1/NcclAllReduce:NcclAllReduce") == "allreduce");
  CHECK(tensorflow_collective("CollectiveReduceV2") == "allreduce");
  CHECK(tensorflow_collective("CollectiveReduceScatterV2") == "reducescatter");
  CHECK(tensorflow_collective("CollectiveGatherV2") == "allgather");
  CHECK(tensorflow_collective("all-reduce-combiner").empty());
}

TEST_CASE("xla: an asynchronous collective counts once, from its start to the end of the wait for it") {
  const std::string operations = x(3, start, "10", "0.001") + x(3, fusion, "11", "50") + x(3, done, "61", "39");
  SUBCASE("made of its two halves") {
    const Trace trace = read(tpu(operations));
    CHECK(lines_of(trace) ==
          "kernel all-gather-start.1 10000 90000 @0/3d allgather 256 f32\n"
          "kernel fusion.1 11000 50000 @0/3d\n"
          "device annotation all-gather-done.9 61000 39000 @0/3d\n");
    CHECK(trace.events[0].track != trace.events[1].track);
    const TraceSummary summary = summary_of(trace);
    CHECK(summary.collectives == 1);
    CHECK(collective_bytes(summary) == Bytes(4096));
  }
  SUBCASE("shown by the line of asynchronous operations") {
    const Trace trace = read(tpu(operations + x(4, start, "10", "90", "all-gather-done.9")));
    CHECK(lines_of(trace) ==
          "kernel all-gather-start.1 10000 90000 @0/4d allgather 256 f32\n"
          "device annotation all-gather-start.1 10000 1 @0/3d\n"
          "kernel fusion.1 11000 50000 @0/3d\n"
          "device annotation all-gather-done.9 61000 39000 @0/3d\n");
    CHECK(summary_of(trace).collectives == 1);
  }
  SUBCASE("shown there without the name of the wait") {
    const Trace trace = read(tpu(operations + x(4, start, "10", "90")));
    CHECK(summary_of(trace).collectives == 1);
    CHECK(trace.events[3].kind == EventKind::device_annotation);
  }
  SUBCASE("repeated, and cut off by the end of the recording") {
    const Trace trace =
        read(tpu(operations + x(3, start, "110", "0.001") + x(3, done, "120", "30") + x(3, start, "160", "0.001")));
    CHECK(named(trace, "all-gather-start.1") == 3);
    CHECK(trace.events[3].duration_ns == 40'000);
    CHECK(mentions(trace.report.missing, "were started: 1"));
  }
}

TEST_CASE("xla: asynchronous operations that run at the same time have tracks of their own") {
  const auto run = [](int tid, int number, const std::string& from, const std::string& duration) {
    return x(tid, "%all-reduce-start." + std::to_string(number) + " = f32[8] all-reduce-start(f32[8] %a)", from,
             duration);
  };
  const std::string shown =
      x(3, fusion, "0", "99") + run(4, 1, "10", "20") + run(4, 2, "15", "30") + run(4, 3, "30", "5");
  const auto end = [](int number, const std::string& from) {
    const std::string n = std::to_string(number);
    return x(3, "%all-reduce-done." + n + " = f32[8] all-reduce-done(f32[8] %all-reduce-start." + n + ")", from, "1");
  };
  const std::string halves =
      run(3, 1, "10", "0") + run(3, 2, "15", "0") + end(1, "29") + run(3, 3, "30", "0") + end(3, "34") + end(2, "44");
  for (const std::string& events : {shown, halves}) {
    const Trace trace = read(tpu(events));
    std::vector<std::uint32_t> tracks;
    for (const Event& event : trace.events)
      if (event.collective != no_index) tracks.push_back(event.track);
    REQUIRE(tracks.size() == 3);
    CHECK(tracks[0] != tracks[1]);
    CHECK(tracks[0] == tracks[2]);
    CHECK(summary_of(trace).collectives == 3);
  }
}

TEST_CASE("xla: a collective that does not say which it is counts as one of unknown size") {
  const std::string halves = x(3, "%async-collective-start.2 = (f32[9], f32[9]) fusion(f32[9] %a)", "10", "0.001") +
                             x(3, "%async-collective-fusion.4 = f32[9] fusion(f32[9] %b)", "11", "50") +
                             x(3, "%async-collective-done.2 = f32[9] fusion(f32[9] %c)", "61", "9");
  const Trace trace = read(tpu(halves));
  CHECK(lines_of(trace) ==
        "kernel async-collective-start.2 10000 60000 @0/3d collective\n"
        "kernel async-collective-fusion.4 11000 50000 @0/3d\n"
        "device annotation async-collective-done.2 61000 9000 @0/3d\n");
  const TraceSummary summary = summary_of(trace);
  CHECK(summary.collectives == 1);
  CHECK(collective_bytes(summary) == Bytes(0));
  CHECK(mentions(trace.report.missing, "sizes of the collectives"));
}

TEST_CASE("xla: collectives are told by the opcode where they are named after the operator of the frontend") {
  const Trace trace =
      read(tpu(x(3, "%psum.7 = f32[1024]{0} all-reduce(f32[1024]{0} %y)", "10", "20") +
               x(3, "%reduce-scatter.2 = f32[256]{0} reduce-scatter(f32[1024]{0} %y)", "30", "20") +
               x(3, "%reduce-scatter.3 = f32[256]{0} reduce-scatter(%y)", "50", "20") + x(3, fusion, "70", "5")));
  CHECK(lines_of(trace) ==
        "kernel psum.7 10000 20000 @0/3d allreduce 1024 f32\n"
        "kernel reduce-scatter.2 30000 20000 @0/3d reducescatter 1024 f32\n"
        "kernel reduce-scatter.3 50000 20000 @0/3d reducescatter\n"
        "kernel fusion.1 70000 5000 @0/3d\n");
  CHECK(mentions(trace.report.missing, "sizes of the collectives"));
}

TEST_CASE("xla: what follows an operation within a nanosecond is not its body") {
  const Trace trace =
      read(tpu(x(3, fusion, "0.0005", "1.0005") +
               x(3, "%copy-start.1 = (f32[9], f32[9]) copy-start(%a)", "1.001", "6.2500000000000001e-04") +
               x(3, fusion, "2.0000009999999999", "3E0")));
  CHECK(lines_of(trace) ==
        "kernel fusion.1 1 1000 @0/3d\n"
        "kernel copy-start.1 1001 1 @0/3d\n"
        "kernel fusion.1 2000 3000 @0/3d\n");
}

TEST_CASE("xla: steps of a GPU are those of the host, else the joined pieces of its line of steps") {
  const auto slice = [](int pid, int tid, const std::string& name, int from, int to, const std::string& more = "") {
    return R"({"ph":"X","pid":)" + std::to_string(pid) + R"(,"tid":)" + std::to_string(tid) + R"(,"ts":)" +
           std::to_string(from) + R"(,"dur":)" + std::to_string(to - from) + R"(,"name":")" + name + "\"" + more +
           "},\n";
  };
  const auto gpu = [](const std::string& events) {
    return R"({"displayTimeUnit":"ns","traceEvents":[)"
           R"({"ph":"M","pid":3,"name":"process_name","args":{"name":"/device:GPU:0"}},)"
           R"({"ph":"M","pid":7,"name":"process_name","args":{"name":"/host:CPU"}},)" +
           line(1, "Stream #7(Compute)") + line(2, "Steps") + events + "{}]}";
  };
  // The copy for step 5 runs while step 4 does, which cuts both in two.
  const std::string pieces = slice(3, 1, "gemm", 0, 90) + slice(3, 2, "train 4", 0, 50) +
                             slice(3, 2, "train 5", 50, 55) + slice(3, 2, "train 4", 60, 90) +
                             slice(3, 2, "train 5", 100, 190) + slice(3, 2, "train 6", 200, 290);
  const auto steps = [](const std::string& text) {
    std::string out;
    for (const Step& step : steps_of(read(text)))
      out += std::to_string(step.number) + ":" + std::to_string(step.start_ns / 1000) + "-" +
             std::to_string(step.end_ns / 1000) + " ";
    return out;
  };
  CHECK(steps(gpu(pieces)) == "4:0-50 5:50-190 6:200-290 ");
  const std::string host = slice(7, 1, "train", 0, 95, R"(,"args":{"step_num":"4"})") +
                           slice(7, 1, "train", 96, 195, R"(,"args":{"step_num":"5"})");
  CHECK(steps(gpu(pieces + host)) == "4:0-95 5:96-195 ");
}

TEST_CASE("xla: cores and channels beside a device are no devices, and what they did is said to be missing") {
  const std::string apart = R"({"ph":"M","pid":8,"name":"process_name","args":{"name":"/device:TPU:0 SparseCore 1"}},)"
                            R"({"ph":"X","pid":8,"tid":1,"ts":12,"dur":5,"name":"embedding"},)"
                            R"({"ph":"M","pid":9,"name":"process_name","args":{"name":"/device:CUSTOM:Megascale"}},)"
                            R"({"ph":"X","pid":9,"tid":1,"ts":13,"dur":5,"name":"all-reduce"},)";
  const std::vector<Trace> traces = traces_in(tpu(x(3, fusion, "11", "50") + apart));
  REQUIRE(traces.size() == 1);
  CHECK(traces[0].rank == -1);
  CHECK(traces[0].events.size() == 1);
  CHECK(mentions(traces[0].report.missing, "what \"/device:TPU:0 SparseCore 1\" did: 1 event left out"));
  CHECK(mentions(traces[0].report.missing, "/device:CUSTOM:Megascale"));
  // Where it is the only one, a plug-in's device is the device.
  std::string plugin =
      tpu(x(3, fusion, "10", "5") + R"({"ph":"M","pid":7,"name":"process_name","args":{"name":"/host:CPU"}},)");
  plugin.replace(plugin.find("/device:TPU:0"), 13, "/device:CUSTOM:0");
  CHECK(named(read(plugin), "fusion.1") == 1);
  CHECK(refusal_of(R"({"displayTimeUnit":"ns","traceEvents":[)"
                   R"({"ph":"M","pid":3,"name":"process_name","args":{"name":"/device:TPU:0"}},)" +
                   line(9, "_counters_") + x(9, "%c = f32[]", "1", "2") + "{}]}")
            .find("views derived") != std::string::npos);
}
