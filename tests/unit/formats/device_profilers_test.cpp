// Profilers of devices and compilers: TensorFlow's and JAX's (trace.json, xplane.pb), rocprof of three generations; and
// the files that no reader wants.
#include <stepcast/base/error.hpp>
#include <stepcast/documents/foreign_files.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/encodings/inflate.hpp>
#include <stepcast/encodings/wire_format.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/formats/shared/chrome_writer.hpp>
#include <stepcast/trace/steps.hpp>

#include "helpers/shared_data.hpp"
#include "helpers/timelines.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace stepcast;
using namespace stepcast::test;

namespace {

// ---- trace.json ----

std::string name(const std::string& what, int pid, int tid, const std::string& text) {
  return R"({"ph":"M","pid":)" + std::to_string(pid) + R"(,"tid":)" + std::to_string(tid) + R"(,"name":")" + what +
         R"(","args":{"name":")" + text + "\"}},\n";
}
std::string x(int pid, int tid, const std::string& name, const std::string& ts, const std::string& dur,
              const std::string& arguments = "") {
  return R"({"ph":"X","pid":)" + std::to_string(pid) + R"(,"tid":)" + std::to_string(tid) + R"(,"ts":)" + ts +
         R"(,"dur":)" + dur + R"(,"name":")" + name + "\"" +
         (arguments.empty() ? "" : R"(,"args":{)" + arguments + "}") + "},\n";
}
std::string xla(const std::string& events) {
  return R"({"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[)" + events + "{}]}";
}
const std::string host = name("process_name", 49, 0, "/host:CPU") + name("thread_name", 49, 5, "python3");
const std::string gpu = name("process_name", 1, 0, "/device:GPU:0") + name("thread_name", 1, 7, "Stream #7(Compute)") +
                        name("thread_name", 1, 100, "XLA Ops") + name("thread_name", 1, 101, "Steps");

// ---- protobuf ----

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  return out + static_cast<char>(value);
}
std::string number(int field, std::uint64_t value) { return varint(std::uint64_t(field) << 3) + varint(value); }
std::string bytes(int field, const std::string& text) {
  return varint((std::uint64_t(field) << 3) | 2) + varint(text.size()) + text;
}
std::string metadata(int field, int id, const std::string& name) {
  return bytes(field, number(1, id) + bytes(2, number(1, id) + bytes(2, name)));
}
std::string xevent(int metadata, std::uint64_t offset_ps, std::uint64_t duration_ps, const std::string& stats = "") {
  return bytes(4, number(1, metadata) + number(2, offset_ps) + number(3, duration_ps) + stats);
}
std::string xline(int id, const std::string& name, std::uint64_t start_ns, const std::string& events) {
  return bytes(3, number(1, id) + bytes(2, name) + number(3, start_ns) + events);
}
std::string xplane(const std::string& name, const std::string& body) {
  return bytes(1, number(1, 9) + bytes(2, name) + body);
}

const std::string two_planes =
    xplane("/host:CPU", xline(11, "python", 1000, xevent(1, 500, 2'000'000, bytes(4, number(1, 1) + number(4, 18)))) +
                            metadata(4, 1, "cudaLaunchKernel") + metadata(5, 1, "correlation_id")) +
    xplane("/device:GPU:3",
           xline(17, "Stream #17(Kernel)", 2000, xevent(4, 1'499, 10'000, bytes(4, number(1, 2) + number(3, 18)))) +
               metadata(4, 4, "fusion_1") + metadata(5, 2, "correlation_id") + metadata(5, 3, "memory_size") +
               metadata(5, 4, "device_vendor") + bytes(6, number(1, 3) + number(3, 1 << 20)) +
               bytes(6, number(1, 4) + bytes(5, "AMD")));

}  // namespace

TEST_CASE("xla json: streams are work, what is derived from them is not, arguments are strings") {
  const Trace trace =
      read(xla(gpu + host + x(49, 5, "cuLaunchKernel", "10.25", "2", R"("correlation_id":"18")") +
               x(1, 7, "fusion_3", "13.0004", "4.0001", R"("correlation_id":"18","hlo_op":"fusion.3")") +
               x(1, 7, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "20", "5", R"("hlo_op":"all-reduce.1")") +
               x(1, 7, "MemcpyH2D", "30", "1") + x(1, 100, "fusion.3", "13", "4") + x(1, 101, "12", "9", "30") +
               x(49, 5, "$train.py:3 loop", "1", "90")));
  CHECK(trace.report.format == "xla-json");
  CHECK(lines_of(trace) ==
        "annotation ProfilerStep#12 9000 30000 @-1/-1\n"
        "runtime call cuLaunchKernel 10250 2000 @49/5 corr=18\n"
        "kernel fusion_3 13000 4001 @0/7d corr=18\n"
        "device annotation fusion.3 13000 4000 @0/100d\n"
        "kernel ncclDevKernel_AllReduce_Sum_f32_RING_LL 20000 5000 @0/7d allreduce\n"
        "copy MemcpyH2D 30000 1000 @0/7d\n");
  CHECK(trace.report.python_frames == 1);
  CHECK(trace.report.repaired.empty());
  CHECK(steps_of(trace).size() == 1);
  CHECK(read_strictly(xla(host + x(49, 5, "train", "1", "2"))).events.size() == 1);
}

TEST_CASE("xla json: a TPU's line of operations is work, of which only the innermost counts") {
  const std::string tpu = name("process_name", 3, 0, "/device:TPU:0") + name("thread_name", 3, 3, "XLA Ops") +
                          name("thread_name", 3, 2, "XLA Modules");
  const Trace trace = read(xla(
      tpu + x(3, 2, "jit_step", "0", "100") + x(3, 3, "while.1", "10", "50") + x(3, 3, "fusion.1", "10", "20") +
      x(3, 3, "all-reduce.2", "30", "30",
        R"("long_name":"%all-reduce.2 = bf16[8,128]{1,0:T(8,128)} all-reduce(bf16[8,128] %p), replica_groups={}")")));
  CHECK(lines_of(trace) ==
        "device annotation jit_step 0 100000 @0/2d\n"
        "device annotation while.1 10000 50000 @0/3d\n"
        "kernel fusion.1 10000 20000 @0/3d\n"
        "kernel all-reduce.2 30000 30000 @0/3d allreduce 1024 bf16\n");
  CHECK_FALSE(mentions(trace.report.missing, "sizes of the collectives"));
}

TEST_CASE("xla json: steps by annotation of the host, a trace for each device") {
  const std::string two = name("process_name", 1, 0, "/device:GPU:0") + name("thread_name", 1, 7, "Stream #7") +
                          name("process_name", 2, 0, "/device:GPU:1") + name("thread_name", 2, 8, "Stream #8");
  const std::vector<Trace> traces =
      traces_in(xla(host + two + x(49, 5, "train", "0", "50", R"("step_num":"4")") + x(1, 7, "a", "1", "2") +
                    x(2, 8, "b", "1", "2") + x(49, 5, "Identity", "2", "3")));
  REQUIRE(traces.size() == 2);
  for (const Trace& trace : traces) CHECK(steps_of(trace).size() == 1);
  CHECK(traces[0].rank == 0);
  CHECK(traces[1].rank == 1);
  CHECK(named(traces[0], "a") == 1);
  CHECK(named(traces[0], "b") == 0);
  CHECK(named(traces[1], "b") == 1);
  CHECK(named(traces[0], "Identity") + named(traces[1], "Identity") == 1);
}

TEST_CASE("xla json: host only, metadata only, truncated, and the cap of the writer") {
  const Trace only_host = read(xla(host + x(49, 5, "CollectiveReduceV2", "1", "2")));
  CHECK(mentions(only_host.report.missing, "device activity"));
  CHECK(only_host.collectives.size() == 1);
  CHECK(refusal_of(xla(host)).find("metadata only") != std::string::npos);
  CHECK(refusal_of(xla(gpu + x(1, 101, "12", "9", "30"))).find("views derived") != std::string::npos);
  const std::string cut =
      R"({"displayTimeUnit":"ns","traceEvents":[)" + host + x(49, 5, "a", "1", "2") + R"({"ph":"X","pi)";
  CHECK(mentions(read(cut).report.repaired, "the text ends inside an event"));
  CHECK_FALSE(refusal_of_strict(cut).empty());
  CHECK(error_of([&] { (void)profile_of(only_host); }).find("gradients are not marked") != std::string::npos);

  std::string million;
  for (int i = 0; i < 1'000'000; ++i) million += R"({"ph":"X","pid":49,"tid":5,"ts":1,"dur":1,"name":"a"},)";
  CHECK(mentions(read(xla(host + million)).report.missing, "events beyond the first million"));
  CHECK_FALSE(mentions(read(xla(host + million + x(49, 5, "b", "1", "2"))).report.missing, "first million"));
}

TEST_CASE("wire format: fields, and bytes that are none") {
  const std::string message = number(1, 300) + bytes(2, "text") + number(16, 1);
  WireFields fields(message);
  CHECK(fields.next());
  CHECK(fields.integer() == 300);
  CHECK(fields.next());
  CHECK(fields.bytes() == "text");
  CHECK(fields.next());
  CHECK(fields.number() == 16);
  CHECK_FALSE(fields.next());
  CHECK_FALSE(fields.damaged());
  const std::string long_varint(11, '\xff'), group("\x0b"), no_field(1, '\0');
  for (const std::string& wrong :
       {number(1, 300).substr(0, 2), bytes(2, "text").substr(0, 4), long_varint, group, no_field}) {
    WireFields bad(wrong);
    while (bad.next()) {}
    CHECK(bad.damaged());
  }
}

TEST_CASE("xplane: names from behind the lines, picoseconds rounded at both ends, correlation across planes") {
  const std::vector<Trace> traces = traces_in(two_planes);
  REQUIRE(traces.size() == 1);
  CHECK(lines_of(traces[0]) ==
        "runtime call cudaLaunchKernel 1001 2000 @0/0 corr=18\n"
        "kernel fusion_1 2001 10 @3/17d corr=18\n");
  CHECK(traces[0].device_name == "AMD GPU");
  CHECK(traces[0].device_memory_bytes == 1 << 20);
  CHECK(traces[0].report.format == "xplane");
}

TEST_CASE("xplane: damage, warnings, planes without events") {
  const std::string cut = two_planes.substr(0, two_planes.size() - 3);
  const std::vector<Trace> traces = traces_in(cut);
  CHECK(mentions(traces[0].report.repaired, "the bytes end inside a plane"));
  CHECK_FALSE(refusal_of_strict(cut).empty());
  CHECK(mentions(traces_in(two_planes + bytes(3, "buffer overflow"))[0].report.missing, "buffer overflow"));
  CHECK(refusal_of(xplane("/host:CPU", "")).find("planes without events") != std::string::npos);
  const std::string wrong = xplane(
      "/host:CPU", xline(1, "a", 0, xevent(1, 5000, 1000) + xevent(1, ~std::uint64_t{0}, 1)) + metadata(4, 1, "op"));
  CHECK(mentions(traces_in(wrong)[0].report.repaired, "1 event dropped"));
}

TEST_CASE("rocprof: exact times, launches joined by flows, processes named by what they are") {
  const auto slice = [](const std::string& pid, const std::string& tid, const std::string& name,
                        const std::string& from, const std::string& to) {
    return R"(,{"ph":"X","name":")" + name + R"(","pid":")" + pid + R"(","tid":")" + tid + R"(","ts":")" +
           from.substr(0, from.size() - 3) + R"(","dur":"5","args":{"BeginNs":")" + from + R"(","EndNs":")" + to +
           R"(","dev-id":"2","queue-id":"4","DurationNs":"1"}})";
  };
  const auto flow = [](char phase, int id, int pid, int tid, const std::string& ts) {
    return R"(,{"ts":)" + ts + R"(,"ph":")" + phase + R"(","cat":"DataFlow","id":)" + std::to_string(id) +
           R"(,"pid":)" + std::to_string(pid) + R"(,"tid":)" + std::to_string(tid) + R"(,"name":"dep"})";
  };
  const auto process = [](int pid, const std::string& name) {
    return R"(,{"args":{"name":")" + name + R"("},"ph":"M","pid":)" + std::to_string(pid) +
           R"(,"name":"process_name","sort_index":0})";
  };
  const std::string text = R"({ "traceEvents":[{})" + process(2, "CPU HIP API") + process(1, "COPY") +
                           process(8, "GPU2") + slice("2", "517", "hipLaunchKernel", "5000100", "5009900") +
                           slice("8", "1", "elementwise_kernel", "5020661", "5025941") +
                           slice("1", "1", "CopyHostToDevice", "5030000", "5031000") +
                           slice("3", "1", "mystery", "5040000", "5041000") + process(520, "GPU Barriers2") +
                           slice("520", "0", "<barrier packet>", "5050000", "5059000") +
                           slice("8", "1", "<barrier packet>", "5060000", "5061000") + flow('s', 7, 2, 517, "5004") +
                           flow('t', 7, 8, 1, "5020") + R"(], "otherData": {"CMD": "rocminfo", "CMD": "again"}})";
  const Trace trace = read(text);
  CHECK(trace.report.format == "rocprof");
  CHECK(lines_of(trace) ==
        "runtime call hipLaunchKernel 5000100 9800 @2/517 corr=1\n"
        "kernel elementwise_kernel 5020661 5280 @2/4d corr=1\n"
        "copy CopyHostToDevice 5030000 1000 @2/-1d\n"
        "other mystery 5040000 1000 @3/1\n"
        "synchronization <barrier packet> 5050000 9000 @2/4d\n"
        "synchronization <barrier packet> 5060000 1000 @2/4d\n");
  CHECK(trace.report.events_unclassified == 1);
  CHECK_FALSE(mentions(trace.report.missing, "correlation"));
  CHECK(mentions(trace.report.missing, "step annotations"));
  const std::string marked = R"({ "traceEvents":[{})" + process(0, "Markers and Ranges") + process(2, "CPU HIP API") +
                             slice("0", "9", "step 1", "5000000", "6000000") +
                             slice("0", "9", "step 2", "6000000", "7000000") + "]}";
  CHECK(steps_of(read(marked)).size() == 2);
  CHECK_FALSE(mentions(read(marked).report.missing, "step annotations"));
}

TEST_CASE("rocprofv3: records one by one, names by number") {
  const std::string head =
      R"({"rocprofiler-sdk-tool":[{"metadata":{"pid":908},"agents":[{"id":{"handle":10},"type":1,"name":"EPYC"},)"
      R"({"id":{"handle":11},"type":2,"name":"gfx950","product_name":"AMD Instinct MI350X","mem_banks":[{"size_in_bytes":77}]}],)"
      R"("strings":{"buffer_records":[{"kind":"NONE","operations":[]},{"kind":"HIP","operations":["none","hipLaunchKernel"]}]},)"
      R"("kernel_symbols":[{"kernel_id":8,"formatted_kernel_name":"gemm<float>"},{"kernel_id":9,"formatted_kernel_name":"__amd_rocclr_fillBufferAligned"}],)"
      R"("buffer_records":{"kernel_dispatch":[)";
  const std::string kernel =
      R"({"correlation_id":{"internal":3},"start_timestamp":63857982592000,"end_timestamp":63857982594840,)"
      R"("dispatch_info":{"agent_id":{"handle":11},"queue_id":{"handle":16},"kernel_id":8},"stream_id":{"handle":5}})";
  const std::string fill =
      R"({"start_timestamp":63857982595000,"end_timestamp":63857982595001,"dispatch_info":{"agent_id":{"handle":11},"kernel_id":9,"queue_id":{"handle":16}}})";
  const std::string backwards = R"({"start_timestamp":9,"end_timestamp":8,"dispatch_info":{}})";
  const std::string tail =
      R"(],"hip_api":[{"kind":1,"operation":1,"thread_id":908,"correlation_id":{"internal":3},"start_timestamp":63857982580000,"end_timestamp":63857982590000}],"memory_allocation":[{"start_timestamp":1,"end_timestamp":2}]}}]})";
  const Trace trace = read(head + kernel + "," + fill + tail);
  CHECK(trace.report.format == "rocprofv3");
  CHECK(lines_of(trace) ==
        "runtime call hipLaunchKernel 63857982580000 10000 @0/908 corr=3\n"
        "kernel gemm<float> 63857982592000 2840 @0/5d corr=3\n"
        "fill __amd_rocclr_fillBufferAligned 63857982595000 1 @0/16d\n");
  CHECK(trace.device_name == "AMD Instinct MI350X");
  CHECK(trace.device_memory_bytes == 77);
  CHECK(mentions(read(head + kernel + "," + backwards + tail).report.repaired, "1 record dropped"));
  const std::string untimed = R"({"start_timestamp":0,"end_timestamp":0,"dispatch_info":{}})";
  CHECK(mentions(read(head + kernel + "," + untimed + tail).report.repaired, "1 record dropped"));
  const std::string cut = head + kernel + "," + fill.substr(0, 30);
  CHECK(mentions(read(cut).report.repaired, "truncated tail"));
  CHECK(read(cut).events.size() == 1);
  CHECK_FALSE(refusal_of_strict(cut).empty());
  CHECK(refusal_of(head + "]}}]}").find("without records") != std::string::npos);
}

TEST_CASE("rocprofv3: a marker bears the text that the program gave it") {
  const std::string text =
      R"({"rocprofiler-sdk-tool":[{"strings":{"buffer_records":[{"kind":"MARKER_CORE_RANGE_API","operations":["roctxRangePush"]}],)"
      R"("marker_api":[{"key":5,"value":"step 1"},{"key":6,"value":"step 2"},{"key":"x"},7]},"buffer_records":{"marker_api":[)"
      R"({"kind":0,"operation":0,"thread_id":9,"correlation_id":{"internal":5},"start_timestamp":100,"end_timestamp":200},)"
      R"({"kind":0,"operation":0,"thread_id":9,"correlation_id":{"internal":6},"start_timestamp":200,"end_timestamp":300},)"
      R"({"kind":0,"operation":0,"thread_id":9,"correlation_id":{"internal":7},"start_timestamp":210,"end_timestamp":220}]}}]})";
  const Trace trace = read(text);
  CHECK(lines_of(trace) ==
        "annotation step 1 100 100 @0/9 corr=5\n"
        "annotation step 2 200 100 @0/9 corr=6\n"
        "annotation roctxRangePush 210 10 @0/9 corr=7\n");
  CHECK(steps_of(trace).size() == 2);
  CHECK_FALSE(mentions(trace.report.missing, "step annotations"));
}

TEST_CASE("foreign files: each says what it is and what to give instead") {
  const auto found = [](const std::string& text) {
    const auto file = foreign_file(text);
    return file ? std::string(file->found) : "";
  };
  CHECK(found("[[-1, 1, 37888, 7], [-1, 1, 512, 7]").find("raw memory timeline") != std::string::npos);
  CHECK(found("PAR1....").find("Parquet") != std::string::npos);
  CHECK(found("\x80\x04\x95...").find("pickle") != std::string::npos);
  CHECK(found(R"({"version": "2.4", "entries": [{"collective_seq_id": 1}]})").find("flight-recorder") !=
        std::string::npos);
  CHECK(found(R"({"world_size": 8, "pp_size": 8})").find("layout of a run") != std::string::npos);
  CHECK(found("trial_name: AR\npp_size: 4\nworld_size: 64\n").find("layout of a job") != std::string::npos);
  CHECK(found("[thetagpu24:269096] Warning: could not\n").find("log of a job") != std::string::npos);
  CHECK(found("2021-10-05 10:55:05.052891: I tensorflow/core\n").find("log of a job") != std::string::npos);
  CHECK(
      found(R"({"name": "push-9", "ph": "B", "pid": 27, "tid": 27, "ts": 1569331999234742},)").find("BytePS server") !=
      std::string::npos);
  CHECK(found(R"([{"ph": "X", "ts": 1, "name": "lunch"}])").find("a writer that stepcast does not know") !=
        std::string::npos);
  CHECK(found(R"([{"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros":1}},)"
              R"({"ph": "X", "name": "dataset::GetNext", "ts": 1, "pid": 2, "dur": 17}])")
            .find("SageMaker Debugger") != std::string::npos);
  CHECK(
      found(
          R"({"traceEvents": [{"name": "process_name", "args": {"name": "/job:localhost/replica:0/task:0/device:GPU:0"}}]})")
          .find("TensorFlow 1") != std::string::npos);
  CHECK(
      found(
          R"({"traceEvents": [{"name": "process_name", "ph": "M", "pid": 0, "args": {"name": )"
          R"("/job:localhost/replica:0/task:0/device:CPU:0 Compute"}}, {"name": "process_name", "ph": "M", "pid": 3, )"
          R"("args": {"name": "/device:GPU:0/stream:all Compute"}}, {"name": "MatMul", "ph": "X", "pid": 3, )"
          R"("tid": 0, "ts": 1, "dur": 2, "args": {}}]})")
          .find("TensorFlow 1") != std::string::npos);
  CHECK(found("").empty());
  CHECK(found("hello").empty());
  CHECK(found(R"({"schema": "1.0.2", "nodes": []})").empty());
  CHECK(refusal_of("[[-1, 1, 37888, 7]]").find("; give the trace of the same profiler") != std::string::npos);
}

TEST_CASE("device profilers: the real files") {
  const auto folder = shared_folder("traces");
  if (!folder) return;
  const auto traces_of_file = [&](const std::string& name) { return reading_of(File(*folder / name).source()).traces; };
  CHECK(traces_of_file("awslabs__sagemaker-debugger/ip-172-31-19-241.trace.json.gz").at(0).events.size() == 256);
  CHECK(traces_of_file("awslabs__sagemaker-debugger/ip-172-31-19-241.trace.v2.json.gz").at(0).events.size() == 1663);

  const std::vector<Trace> jax = traces_of_file("AMD-AGI__TraceLens/jax_conv_minimal_08__tw003.xplane.pb.gz");
  REQUIRE(jax.size() == 8);
  for (const Trace& trace : jax) CHECK(std::ranges::count(trace.events, EventKind::kernel, &Event::kind) == 25);
  const std::vector<Trace> tpu = traces_of_file("openxla__xprof/tpu_inference_2.xplane.pb.gz");
  REQUIRE(tpu.size() == 4);
  for (const Trace& trace : tpu) {
    REQUIRE(trace.collectives.size() == 3);
    CHECK(trace.device_name == "TPU v6 Lite");
    CHECK(trace.collectives[0].in_elements == std::int64_t{5} * 1024 * 1024 * 256);
    CHECK(trace.text(trace.collectives[0].dtype) == "f32");
  }
  CHECK(traces_of_file("openxla__xprof/34.83.195.179_6003.xplane.pb.gz").size() == 3);
  CHECK(traces_of_file("AMD-AGI__TraceLens/test_data_jax_te_fused_attn_categorization__934987a2fc2f.xplane.pb.gz")
            .size() == 1);

  const Trace hip = traces_of_file("ROCm__rocm-blogs/HIP_trace__results.json.gz").at(0);
  CHECK(std::ranges::count(hip.events, EventKind::runtime_call, &Event::kind) == 135);
  CHECK(std::ranges::count(hip.events, EventKind::copy, &Event::kind) == 6);
  CHECK(std::ranges::count_if(hip.events, [](const Event& e) { return is_device_work(e.kind) && e.correlation > 0; }) ==
        7);
  const Trace v3 = traces_of_file("AMD-AGI__TraceLens/rocprof__908_results.json.gz").at(0);
  CHECK(v3.events.size() == 43915);
  CHECK(v3.device_name == "AMD Instinct MI350X");
  CHECK(named(v3, "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)") == 1310);
}

TEST_CASE("every shared trace is claimed by at most one format, and a refusal says what the file is") {
  const auto folder = shared_folder("traces");
  if (!folder) return;
  const std::set<std::string> refused = {"1590104153293665_0001_model_timeline.json.gz",
                                         "1590461127873222_0001_model_timeline.json.gz",
                                         "1590461139949971_0001_model_timeline.json.gz",
                                         "1594662624558411_905-b88ab1bb8259_model_timeline.json.gz",
                                         "memory_analysis__memory_timeline.raw.gz",
                                         "gpu8_layer64_gbs16__pp8__config.json.gz",
                                         "meta-AR.yaml",
                                         "meta-ST.yaml"};
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(*folder)) {
    if (!entry.is_regular_file() || entry.path().filename() == "README.md") continue;
    const File file(entry.path());
    PlainText plain(file.source().bytes);
    std::string head(1u << 16, '\0');
    head.resize(plain.read(head));
    std::string claims;
    std::size_t count = 0;
    for (const Format& format : formats()) {
      if (!format.recognises(head)) continue;
      claims += " " + std::string(format.name);
      ++count;
    }
    CAPTURE(entry.path().string());
    CAPTURE(claims);
    CHECK(count <= 1);
    ++files;
    const std::string name = entry.path().filename().string();
    if (!refused.contains(name) && !name.ends_with(".out.txt")) continue;
    CHECK(count == 0);
    CHECK(foreign_file(head).has_value());
  }
  CHECK(files > 150);
}
