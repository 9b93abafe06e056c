// The Kineto reader: every era and vendor by a small text of it.
#include <stepcast/base/decimal.hpp>

#include "helpers/kineto_text.hpp"
#include "helpers/shared_data.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace stepcast;
using namespace stepcast::test;

namespace {

std::int64_t ns_of(const std::string& text) {
  std::int64_t ns = -1;
  REQUIRE(read_microseconds(text, ns) == Parsed::fine);
  return ns;
}

}  // namespace

TEST_CASE("microseconds become nanoseconds by decimal text") {
  CHECK(ns_of("0") == 0);
  CHECK(ns_of("13") == 13'000);
  CHECK(ns_of("1669783687464181") == 1'669'783'687'464'181'000);
  CHECK(ns_of("1711964646718703.702") == 1'711'964'646'718'703'702);  // a double is off by 46 ns here
  CHECK(ns_of("4458676522718.7") == 4'458'676'522'718'700);
  CHECK(ns_of("-0.001") == -1);
  CHECK(ns_of("0.0005") == 1);
  CHECK(ns_of("0.00049999999999999999999") == 0);
  CHECK(ns_of("1.5e3") == 1'500'000);
  CHECK(ns_of("12345678.125e-3") == 12'345'678);
  std::int64_t ns = 0;
  CHECK(read_microseconds("1e18", ns) == Parsed::out_of_range);
  CHECK(read_microseconds("99999999999999999999", ns) == Parsed::out_of_range);
  CHECK(read_microseconds("1e99999999999", ns) == Parsed::out_of_range);
  for (const char* text : {"", "-", ".", "1.2.3", "abc", "1e", "0x10", "1 2", "null"})
    CHECK(read_microseconds(text, ns) == Parsed::unreadable);
}

TEST_CASE("integers keep all 64 bits") {
  std::int64_t value = 0;
  CHECK((read_integer("9007199254740993", value) == Parsed::fine && value == 9'007'199'254'740'993));
  CHECK((read_integer("-9223372036854775808", value) == Parsed::fine && value == INT64_MIN));
  CHECK((read_integer("18446744073709551615", value) == Parsed::fine && value == -1));
  CHECK((read_integer("12.0", value) == Parsed::fine && value == 12));
  CHECK(read_integer("12.5", value) == Parsed::unreadable);
  CHECK(read_integer("99999999999999999999", value) == Parsed::out_of_range);
  CHECK(read_integer("stream 7", value) == Parsed::unreadable);
}

TEST_CASE("2.4 and later: relative times and a base behind the events") {
  const Trace trace = read(R"({
  "schemaVersion": 1,
  "deviceProperties": [
    { "id": 0, "name": "NVIDIA A100-SXM4-40GB", "totalGlobalMem": 42297524224 } ],
  "cuda_runtime_version": 12060,
  "traceEvents": [
  {
    "ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 40, "ts": 5.250, "dur": 2.125,
    "args": { "External id": 12, "device": 0, "stream": 40, "correlation": 77, "grid": [8, 1, 1],
      "Collective name": "allreduce", "In msg nelems": 6637568, "Out msg nelems": 6637568, "Group size": 2,
      "dtype": "Float", "Process Group Name": "0", "Seq": 3 }
  },
  {
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 7, "tid": 8, "ts": 4.001, "dur": 0.5,
    "args": { "External id": 12, "cbid": 430, "correlation": 77 }
  },
  {
    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 8, "ts": 3.5, "dur": 2,
    "args": { "External id": 12, "Record function id": 2, "Sequence number": 9, "Fwd thread id": 0,
      "Input Dims": [[64, 3], []], "Input type": ["float", "Scalar"] }
  },
  { "ph": "X", "cat": "python_function", "name": "train.py(3): step", "pid": 7, "tid": 8, "ts": 3, "dur": 9, "args": {} },
  { "ph": "X", "cat": "gpu_user_annotation", "name": "nccl", "pid": 0, "tid": 40, "ts": 5.249, "dur": 2.128 },
  { "ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": 40, "ts": 7.5, "dur": 1 },
  { "ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "ts": 0, "args": { "name": "main thread" } }
  ],
  "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2, "pg_config": [{"ranks": [0, 1]}, {"ranks": "[0]"}]},
  "traceName": "x.json",
  "baseTimeNanoseconds": 1711964646000000000
})");
  CHECK(
      text_of(trace) ==
      "host operator aten::mm 1711964646000003500 2000 @7/8 ext=12 seq=9 fwd=0 [[64, 3], []] [\"float\", \"Scalar\"]\n"
      "runtime call cudaLaunchKernelExC 1711964646000004001 500 @7/8 corr=77 ext=12\n"
      "device annotation nccl 1711964646000005249 2128 @0/40d\n"
      "kernel ncclDevKernel_AllReduce 1711964646000005250 2125 @0/40d corr=77 ext=12\n"
      "synchronization Stream Sync 1711964646000007500 1000 @0/40d\n");
  REQUIRE(trace.collectives.size() == 1);
  const CollectiveArguments& collective = trace.collectives[trace.events[3].collective];
  CHECK(trace.text(collective.name) == "allreduce");
  CHECK(trace.text(collective.dtype) == "Float");
  CHECK(trace.text(collective.group) == "0");
  CHECK(collective.in_elements == 6637568);
  CHECK(collective.out_elements == 6637568);
  CHECK(collective.group_size == 2);
  CHECK(collective.sequence == 3);
  CHECK(trace.device_name == "NVIDIA A100-SXM4-40GB");
  CHECK(trace.device_memory_bytes == 42'297'524'224);
  CHECK(trace.machine_devices == 1);
  CHECK(trace.rank == 1);
  CHECK(trace.world_size == 2);
  CHECK(trace.backend == "nccl");
  CHECK(trace.text(trace.tracks[trace.events[0].track].label) == "main thread");
  CHECK(trace.report.python_frames == 1);
  CHECK(trace.report.events_seen == 7);
  CHECK(trace.report.producer.find(">= 2.4") != std::string::npos);
  CHECK(trace.report.producer.find("CUDA runtime 12.6") != std::string::npos);
  CHECK(trace.report.repaired.empty());
  CHECK(mentions(trace.report.missing, "ProfilerStep"));
}

TEST_CASE("2021: capital categories, streams in words, external id in lower case") {
  const Trace trace = read(R"([
  { "ph": "X", "cat": "Operator", "name": "ProfilerStep#5", "pid": 67844, "tid": "4093687616",
    "ts": 1606910596297023, "dur": 130, "args": { "Input dims": [[3]], "External id": 2 } },
  { "ph": "X", "cat": "Kernel", "name": "volta", "pid": 0, "tid": "stream 7 ", "ts": 1606910596297025, "dur": 2,
    "args": { "device": 0, "stream": 7, "correlation": 34441, "external id": 544 } },
  { "ph": "X", "cat": "Memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": "stream 7", "ts": 1606910596297028, "dur": 1,
    "args": { "correlation": 0, "external id": 0 } },
  { "ph": "X", "cat": "Memset", "name": "Memset", "pid": 0, "tid": "stream 7", "ts": 1606910596297030, "dur": 1 },
  { "ph": "X", "cat": "Runtime", "name": "cudaMalloc", "pid": 67844, "tid": "4093687616", "ts": 1606910596297032,
    "dur": 1, "args": { "external id": 0, "correlation": 9 } }
])");
  CHECK(text_of(trace) ==
        "annotation ProfilerStep#5 1606910596297023000 130000 @67844/4093687616 ext=2 [[3]]\n"
        "kernel volta 1606910596297025000 2000 @0/7d corr=34441 ext=544\n"
        "copy Memcpy HtoD 1606910596297028000 1000 @0/7d\n"
        "fill Memset 1606910596297030000 1000 @0/7d\n"
        "runtime call cudaMalloc 1606910596297032000 1000 @67844/4093687616 corr=9\n");
  CHECK(trace.tracks.size() == 2);
  CHECK(trace.report.producer.find("2021") != std::string::npos);
  CHECK(mentions(trace.report.missing, "distributedInfo"));
}

TEST_CASE("before Kineto: a bare array, no categories, arrows from operators to kernels") {
  const Trace trace = read(
      R"([{"name": "aten::mm", "ph": "X", "ts": 150.5, "dur": 13, "tid": 1, "pid": "CPU functions", "args": {}}, )"
      R"({"name": "aten::mm", "ph": "s", "ts": 150.5, "tid": 1, "pid": "CPU functions", "id": 4, "cat": "cpu_to_cuda", "args": {}}, )"
      R"({"name": "sgemm", "ph": "f", "ts": 160, "tid": 0, "pid": "CUDA functions", "id": 4, "cat": "cpu_to_cuda", "args": {}}, )"
      R"({"name": "sgemm", "ph": "X", "ts": 160, "dur": 7, "tid": 0, "pid": "CUDA functions", "args": {}}])");
  CHECK(text_of(trace) ==
        "host operator aten::mm 150500 13000 @-1/1 ext=4\n"
        "kernel sgemm 160000 7000 @-1/0d ext=4\n");
  CHECK(trace.text(trace.tracks[0].label) == "CPU functions");
  CHECK(mentions(trace.report.assumed, "microseconds"));
  CHECK(mentions(trace.report.missing, "input shapes"));
}

TEST_CASE("ROCm: HIP calls, sizes and times as strings, other key order") {
  const Trace trace = read(file_of(
      R"({"args": {"correlation": "5", "bytes": "4096"}, "dur": "2.5", "ts": "100.001", "tid": 3, "pid": 2, "name": "Memcpy DtoH", "cat": "gpu_memcpy", "ph": "X"},)"
      R"({"args": {"correlation": 5, "stream": "0x0"}, "dur": 1, "ts": 99, "tid": 8, "pid": 7, "name": "hipMemcpyAsync", "cat": "cuda_runtime", "ph": "X"})"));
  CHECK(text_of(trace) ==
        "runtime call hipMemcpyAsync 99000 1000 @7/8 corr=5\n"
        "copy Memcpy DtoH 100001 2500 @2/3d corr=5\n");
  CHECK(trace.report.producer.find("HIP") != std::string::npos);
  CHECK(mentions(trace.report.assumed, "strings"));
}

TEST_CASE("Ascend: no categories, absolute times as strings, processes named anywhere in the file") {
  const auto slice = [](const std::string& name, int pid, int tid, const std::string& ts, const std::string& dur) {
    return R"({"ph": "X", "name": ")" + name + R"(", "pid": )" + std::to_string(pid) + R"(, "tid": )" +
           std::to_string(tid) + R"(, "ts": ")" + ts + R"(", "dur": )" + dur +
           R"(, "args": {"Task Type": "AI_CORE"}},)";
  };
  const auto process = [](const std::string& name, int pid) {
    return R"({"ph": "M", "name": "process_name", "pid": )" + std::to_string(pid) +
           R"(, "tid": 0, "args": {"name": ")" + name + R"("}},)";
  };
  const std::string t = "1699529623106";
  std::string text =
      "[" + process("Ascend Hardware", 4) + slice("MatMulV2", 4, 2, t + "800.125", "100.5") +
      slice("EVENT_WAIT", 4, 2, t + "901", "3") + slice("ProfilerStep#6", 1, 1, t + "750", "400") +
      slice("Node@launch", 5, 9, t + "780", "4") +
      R"({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": ")" + t +
      R"(760", "dur": "30", "args": {"Sequence number": 1}},)" +
      R"({"ph": "s", "cat": "async_npu", "name": "async_npu", "id": "77", "pid": 1, "tid": 1, "ts": ")" + t +
      R"(760"},{"ph": "f", "bp": "e", "cat": "async_npu", "name": "async_npu", "id": "77", "pid": 4, "tid": 2, "ts": ")" +
      t + R"(800.125"},)" + R"({"ph": "s", "cat": "HostToDevice", "id": 8, "pid": 5, "tid": 9, "ts": ")" + t +
      R"(780"},{"ph": "f", "cat": "HostToDevice", "id": 8, "pid": 4, "tid": 2, "ts": ")" + t + R"(800.125"},)" +
      slice("hcom_allReduce__101_0_1", 6, 3, t + "910", "50") + slice("Notify_Wait", 6, 4, t + "911", "9") +
      process("CANN", 5) + process("Communication", 6) + process("Python", 1);
  text.back() = ']';
  CHECK(text_of(read(text)) ==
        "annotation ProfilerStep#6 1699529623106750000 400000 @1/1\n"
        "host operator aten::mm 1699529623106760000 30000 @1/1 ext=77 seq=1\n"
        "runtime call Node@launch 1699529623106780000 4000 @5/9 corr=8\n"
        "kernel MatMulV2 1699529623106800125 100500 @4/2d corr=8 ext=77\n"
        "synchronization EVENT_WAIT 1699529623106901000 3000 @4/2d\n"
        "kernel hcom_allReduce__101_0_1 1699529623106910000 50000 @6/3d\n"
        "device annotation Notify_Wait 1699529623106911000 9000 @6/4d\n");
  const Trace trace = read(text);
  CHECK(trace.report.events_unclassified == 0);
  CHECK(trace.tracks.size() >= 5);
  CHECK(trace.report.producer.find("Ascend") != std::string::npos);
  CHECK(mentions(trace.report.assumed, "strings"));
}

TEST_CASE("Ascend: shapes and types are texts with semicolons, the task queue is known") {
  const Trace trace = read(file_of(
      op("aten::addmm", "1", "9", R"("Input Dims": "64;\r\n128,3;\r\n;\r\n2", "Input type": "c10::Half;\r\nfloat")") +
      R"(,{"ph": "X", "cat": "enqueue", "name": "Enqueue@aclnnMm", "pid": 7, "tid": 8, "ts": "3", "dur": 2},)" +
      R"({"ph": "X", "cat": "dequeue", "name": "Dequeue@aclnnMm", "pid": 7, "tid": 9, "ts": "6", "dur": 2})"));
  CHECK(trace.text(trace.events[0].shapes) == "[[64],[128,3],[],[2]]");
  CHECK(trace.text(trace.events[0].types) == R"(["c10::Half","float"])");
  CHECK(trace.report.events_unclassified == 0);
  const Trace text = read(file_of(op("a", "1", "9", R"("Input Dims": "[[2, 3]]", "Input type": "")")));
  CHECK(text.text(text.events[0].shapes) == "[[2, 3]]");
  CHECK(text.events[0].types == 0);
}

TEST_CASE("XPU, MTIA, HPU, Glow, private backends: calls, kernels and synchronisation by category") {
  const auto kind_of = [](const std::string& category) {
    const Trace trace = read(file_of(op("a", "1", "1") + R"(,{"ph": "X", "cat": ")" + category +
                                     R"(", "name": "x", "pid": 0, "tid": 1, "ts": 5, "dur": 7})"));
    CHECK(trace.report.events_unclassified == 0);
    return trace.events[1].kind;
  };
  for (const char* category : {"xpu_runtime", "xpu_driver", "mtia_runtime", "glow_runtime", "privateuse1_runtime",
                               "privateuse1_driver", "cuda_driver", "musa_runtime", "musa_driver", "mlu_runtime"})
    CHECK(kind_of(category) == EventKind::runtime_call);
  CHECK(kind_of("mtia_ccp_events") == EventKind::kernel);
  CHECK(kind_of("mlu_memcpy") == EventKind::copy);
  CHECK(kind_of("mlu_memset") == EventKind::fill);
  for (const char* category : {"xpu_sync", "cuda_sync", "cuda_event", "musa_sync", "mlu_notifier"})
    CHECK(kind_of(category) == EventKind::synchronization);
  // hpu_op: Gaudi's host calls are of it, too; its kernels are "kernel".
  for (const char* category : {"overhead", "collective_comm", "external_correlation", "hpu_op", "GC"})
    CHECK(kind_of(category) == EventKind::other);
}

TEST_CASE("arrows from forward to backward find the operators that start there") {
  const auto arrow = [](const std::string& phase, int id, const std::string& ts, const std::string& category) {
    return R"({"ph": ")" + phase + R"(", "id": )" + std::to_string(id) + R"(, "pid": 7, "tid": 8, "ts": )" + ts +
           R"(, "cat": ")" + category + R"(", "name": "fwd_bwd", "bp": "e"},)";
  };
  for (const char* category : {"fwdbwd", "forward_backward"}) {  // the latter until 1.11
    CAPTURE(category);
    const Trace trace =
        read(file_of(arrow("s", 1, "10.5", category) + arrow("f", 1, "90", category) + arrow("s", 2, "11", category) +
                     op("aten::linear", "10.5", "9") + "," +
                     op("aten::addmm", "10.5", "5", R"("Sequence number": 3, "Fwd thread id": 0)") + "," +
                     op("aten::t", "10.5", "1") + "," +
                     op("engine: AddmmBackward0", "90", "9", R"("Sequence number": 3, "Fwd thread id": 1)") + "," +
                     op("other", "90", "8", R"("Sequence number": 4)")));
    REQUIRE(trace.forward_backward.size() == 1);
    CHECK(trace.text(trace.events[trace.forward_backward[0].forward].name) == "aten::addmm");
    CHECK(trace.text(trace.events[trace.forward_backward[0].backward].name) == "engine: AddmmBackward0");
    CHECK(mentions(trace.report.missing, "1 arrow end"));
  }
}

TEST_CASE("events are sorted by start, longer first, file order last") {
  const Trace trace = read(file_of(op("d", "20", "1") + "," + op("b", "10", "5") + "," + op("a", "10", "9") + "," +
                                   op("c", "10", "5") + "," + op("e", "5000000000", "1")));
  std::string names;
  for (const Event& event : trace.events) names += trace.text(event.name);
  CHECK(names == "abcde");
}

TEST_CASE("names are unescaped, leniently, and shared") {
  const Trace trace = read(file_of(op(R"(a\"b\u00e9\ud83d\ude00)", "1", "1") + "," + op(R"(C:\Users\x)", "2", "1") +
                                   "," + op(R"(a\/b)", "3", "1") + "," + op("a/b", "4", "1")));
  CHECK(trace.text(trace.events[0].name) == "a\"b\xc3\xa9\xf0\x9f\x98\x80");
  CHECK(trace.text(trace.events[1].name) == "C:\\Users\\x");
  CHECK(trace.events[2].name == trace.events[3].name);
}

TEST_CASE("what is no PyTorch trace is refused by name") {
  const auto says = [](const std::string& text, const std::string& part) {
    const std::string message = error_of(text);
    CAPTURE(message);
    CHECK(message.find(part) != std::string::npos);
  };
  says("", "empty file");
  says("  \n", "empty file");
  says("hello", "not JSON");
  says("hello\nworld", "beginning \"hello world\"");
  says(std::string("{\0\"\0", 4), "UTF-16");
  says(std::string("\0[\0{", 4), "UTF-16");
  says("\xff\xfe{", "UTF-16");
  says(R"({"schema": "1.0.1", "pid": 1, "nodes": [{"name": "x"}]})", "execution trace");
  says(R"({"schema": "stepcast.profile/1", "model": "x"})", "stepcast document");
  says(R"([{"name": "C", "ph": "B", "ts": 1, "pid": 0}])", "Chrome trace");
  says(R"({"traceEvents": []})", "no events");
  says(R"({"traceEvents": [{"ph": "M", "name": "x"}]})", "none with a readable time and duration");
  says(R"({"traceEvents": [{"ph": "X", "name": "x", "ts": 1, "dur": 1, "pid": 1, "tid": 1}]})", "does not write");
  says(R"({"traceEvents": [{"ph": "B", "name": "x", "ts": 1, "pid": 1, "tid": 1}]})", "begin and end");
  says(R"({"schemaVersion": 1})", "traceEvents");
  says(file_of(op("a", "1e18", "1")), "microseconds");
  says(file_of(op("a", "1", "1e13")), "duration");
  says("\x1f\x8b\x08", "gzip");
}
