// The Kineto reader: every era by a small text of it, damage, and all real traces that are at hand.
#include <stepcast/decimal.hpp>
#include <stepcast/error.hpp>
#include <stepcast/format.hpp>
#include <stepcast/kineto_windows.hpp>
#include <stepcast/trace_builder.hpp>

#include "shared_data.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <sstream>

using namespace stepcast;

namespace {

Trace read(const std::string& text, bool strict = false) {
  return trace_of({"test.json", std::as_bytes(std::span(text))}, {.strict = strict, .progress = {}});
}

std::string error_of(const std::string& text, bool strict = false) {
  try {
    (void)read(text, strict);
  } catch (const InputError& error) { return error.what(); }
  return "";
}

// An operator from `ts` for `dur` microseconds, as 1.12 and later write it.
std::string op(const std::string& name, const std::string& ts, const std::string& dur, const std::string& args = "") {
  return R"({"ph": "X", "cat": "cpu_op", "name": ")" + name + R"(", "pid": 7, "tid": 8, "ts": )" + ts + R"(, "dur": )" +
         dur + R"(, "args": {)" + args + "}}";
}

std::string file_of(const std::string& events) { return R"({"schemaVersion": 1, "traceEvents": [)" + events + "]}"; }

bool mentions(const std::vector<std::string>& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

// One line an event: kind name start duration @process/thread[d], then the links that it has.
std::string text_of(const Trace& trace) {
  std::ostringstream out;
  for (const Event& e : trace.events) {
    const Track& track = trace.tracks[e.track];
    out << name_of(e.kind) << ' ' << trace.text(e.name) << ' ' << e.start_ns << ' ' << e.duration_ns << " @"
        << track.process << '/' << track.thread << (track.on_device ? "d" : "");
    if (e.correlation >= 0) out << " corr=" << e.correlation;
    if (e.external_id >= 0) out << " ext=" << e.external_id;
    if (e.sequence >= 0) out << " seq=" << e.sequence;
    if (e.forward_thread >= 0) out << " fwd=" << e.forward_thread;
    if (e.shapes) out << ' ' << trace.text(e.shapes);
    if (e.types) out << ' ' << trace.text(e.types);
    out << '\n';
  }
  return out.str();
}

// `text` as one gzip member of stored (uncompressed) blocks (RFC 1952, RFC 1951 3.2.4).
std::string gzip_of(const std::string& text) {
  const auto little = [](std::uint32_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
    return out;
  };
  std::uint32_t crc = ~0u;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0u);
  }
  const auto size = static_cast<std::uint32_t>(text.size());
  return std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\x01", 11) + little(size, 2) + little(~size, 2) + text +
         little(~crc, 4) + little(size, 4);
}

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

TEST_CASE("arrows from forward to backward find the operators that start there") {
  const std::string arrows =
      R"({"ph": "s", "id": 1, "pid": 7, "tid": 8, "ts": 10.5, "cat": "fwdbwd", "name": "fwdbwd"},)"
      R"({"ph": "f", "id": 1, "pid": 7, "tid": 8, "ts": 90, "cat": "fwdbwd", "name": "fwdbwd", "bp": "e"},)"
      R"({"ph": "s", "id": 2, "pid": 7, "tid": 8, "ts": 11, "cat": "fwdbwd", "name": "fwdbwd"})";
  const Trace trace = read(file_of(
      arrows + "," + op("aten::linear", "10.5", "9") + "," +
      op("aten::addmm", "10.5", "5", R"("Sequence number": 3, "Fwd thread id": 0)") + "," + op("aten::t", "10.5", "1") +
      "," + op("engine: AddmmBackward0", "90", "9", R"("Sequence number": 3, "Fwd thread id": 1)") + "," +
      op("other", "90", "8", R"("Sequence number": 4)")));
  REQUIRE(trace.forward_backward.size() == 1);
  CHECK(trace.text(trace.events[trace.forward_backward[0].forward].name) == "aten::addmm");
  CHECK(trace.text(trace.events[trace.forward_backward[0].backward].name) == "engine: AddmmBackward0");
  CHECK(mentions(trace.report.missing, "1 arrow end"));
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

TEST_CASE("a truncated tail is repaired and counted, or refused") {
  const std::string whole = file_of(op("a", "1", "1") + "," + op("b", "2", "1") + "," + op("c", "3", "1"));
  const std::size_t first_event = whole.find(op("a", "1", "1")) + op("a", "1", "1").size();
  for (std::size_t size = first_event; size + 1 < whole.size(); ++size) {
    CAPTURE(size);
    const std::string cut = whole.substr(0, size);
    const Trace trace = read(cut);
    CHECK(trace.events.size() >= 1);
    CHECK(mentions(trace.report.repaired, "truncated"));
    CHECK(error_of(cut, true).find("truncated") != std::string::npos);
  }
  CHECK(read(whole).report.repaired.empty());
}

TEST_CASE("gzip: several members are one text; a stream that ends early or breaks is a truncated file") {
  const std::string whole = file_of(op("a", "1", "1") + "," + op("b", "2", "1") + "," + op("c", "3", "1"));
  const std::string expected = text_of(read(whole));
  CHECK(text_of(read(gzip_of(whole))) == expected);
  for (const std::size_t cut : {std::size_t{0}, std::size_t{40}, whole.size() / 2, whole.size()}) {
    const std::string members = gzip_of(whole.substr(0, cut)) + gzip_of(whole.substr(cut));
    CHECK(text_of(read(members)) == expected);
    CHECK(read(members).report.repaired.empty());
  }
  const std::string zipped = gzip_of(whole);
  const std::string early = zipped.substr(0, zipped.size() - 40);
  const Trace cut = read(early);
  CHECK(cut.events.size() == 2);
  CHECK(mentions(cut.report.repaired, "gzip stream ends early"));
  CHECK(error_of(early, true).find("gzip") != std::string::npos);
  std::string wrong = zipped;
  wrong[wrong.size() - 6] ^= 1;
  CHECK(mentions(read(wrong).report.repaired, "checksum"));
  CHECK(mentions(read(zipped + "tail").report.repaired, "not gzip"));
}

TEST_CASE("bytes that are not UTF-8 and raw control characters are replaced and counted") {
  const std::string bad =
      file_of(op("a\xff\xc3(b", "1", "1") + "," + op("c\x01\nd", "2", "1") + "," + op("e", "3", "1"));
  const Trace trace = read(bad);
  CHECK(trace.text(trace.events[0].name) ==
        "a?"
        "?(b");
  CHECK(trace.text(trace.events[1].name) == "c  d");
  CHECK(trace.events.size() == 3);
  CHECK(mentions(trace.report.repaired, "2 bytes"));
  CHECK(mentions(trace.report.repaired, "2 unescaped control"));
  CHECK(error_of(bad, true) != "");
}

TEST_CASE("events with unescaped quotes are dropped one by one") {
  for (const std::string quoted : {R"(say "hi" now)", R"(an odd " quote)"}) {
    CAPTURE(quoted);
    const std::string bad = file_of(op("a", "1", "1") + ",\n" + op(quoted, "2", "1") + ",\n" + op("c", "3", "1"));
    const Trace trace = read(bad);
    CHECK(text_of(trace) == "host operator a 1000 1000 @7/8\nhost operator c 3000 1000 @7/8\n");
    CHECK(mentions(trace.report.repaired, "1 events dropped"));
    CHECK(error_of(bad, true) != "");
  }
}

TEST_CASE("negative, missing and unreadable times drop the event and say so") {
  const std::string bad =
      file_of(op("fine", "1", "1") + "," + op("negative", "2", "-1") + "," + op("text", "\"soon\"", "1") +
              R"(,{"ph": "X", "cat": "cpu_op", "name": "n", "ts": 3})");
  const Trace trace = read(bad);
  CHECK(trace.events.size() == 1);
  CHECK(mentions(trace.report.repaired, "1 event dropped: negative duration"));
  CHECK(mentions(trace.report.repaired, "1 event dropped: no readable time stamp"));
  CHECK(mentions(trace.report.repaired, "1 event dropped: no readable duration"));
  CHECK(error_of(bad, true) != "");
}

TEST_CASE("unknown categories are kept as other, with their count and time") {
  const Trace trace = read(file_of(
      op("a", "1", "1") + R"(,{"ph": "X", "cat": "new_kind", "name": "x", "pid": 1, "tid": 1, "ts": 5, "dur": 7})"));
  CHECK(trace.report.events_unclassified == 1);
  CHECK(trace.report.unclassified_ns == 7000);
  CHECK(trace.events[1].kind == EventKind::other);
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

namespace {

// Reads the events of `text` with the given sizes; the report is left out.
Trace read_in_windows(const std::string& text, WindowSizes sizes) {
  const std::size_t key = text.find("\"traceEvents\"");
  const std::size_t begin = text.find('[', key == std::string::npos ? 0 : key) + 1;
  PlainText plain(std::as_bytes(std::span(text).subspan(begin)));
  JsonText json(plain);
  TraceBuilder builder("test", false, 0);
  (void)read_events(json, builder, "test", {}, sizes);
  return builder.finish({}, text.size());
}

bool kineto_recognises(const Source& source) {
  PlainText plain(source.bytes);
  std::string head(1u << 16, '\0');
  head.resize(plain.read(head));
  return std::ranges::find(formats(), "kineto", &Format::name)->recognises(head);
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::ranges::sort(lines);
  return lines;
}

std::string plain_text_of(const Source& source) {
  PlainText plain(source.bytes);
  std::string text(1u << 27, '\0');
  text.resize(plain.read(text));
  return text;
}

}  // namespace

TEST_CASE("any window size gives the same trace, on one line or many") {
  std::string lines, nested;
  for (int i = 0; i < 300; ++i) {
    const std::string event = op("op \\\"},{\\\" " + std::to_string(i % 7), std::to_string(i * 10 % 977), "3",
                                 R"("External id": )" + std::to_string(i) + R"(, "list": [{"a": 1}, {"b": 2}])");
    lines += (i ? ",\n  " : "\n  ") + event;
  }
  const std::string expected = text_of(read(file_of(lines)));
  CHECK(std::count(expected.begin(), expected.end(), '\n') == 300);
  for (const std::size_t window : {1u, 64u, 300u, 1000u, 4096u, 100000u}) {
    CAPTURE(window);
    CHECK(text_of(read_in_windows(file_of(lines), {window, 1u << 16, false})) == expected);
  }
  CHECK(text_of(read_in_windows(file_of(lines), {1u << 20, 1u << 24, true})) == expected);
}

namespace {

// Files of the folder that are neither too large for a test of everything nor another kind of file.
template <class Use>
std::size_t for_each_kineto_file(std::uintmax_t largest, Use use) {
  std::size_t files = 0;
  for (const char* folder : {"traces", "lab/traces"}) {
    const auto path = test::shared_folder(folder);
    if (!path) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(*path)) {
      if (!entry.path().filename().string().ends_with(".json.gz") || entry.file_size() > largest) continue;
      const test::File file(entry.path());
      if (!kineto_recognises(file.source())) continue;
      ++files;
      use(file, std::filesystem::relative(entry.path(), *path).string());
    }
  }
  return files;
}

}  // namespace

TEST_CASE("real traces: every Kineto file is read, invariants hold, windows do not matter") {
  std::size_t files = 0;
  for_each_kineto_file(1u << 19, [&](const test::File& file, const std::string& name) {
    CAPTURE(name);
    const Trace trace = trace_of(file.source(), {.strict = true, .progress = {}});
    ++files;
    CHECK(std::is_sorted(trace.events.begin(), trace.events.end(), precedes));
    CHECK(trace.report.repaired.empty());
    CHECK(trace.report.events_unclassified == 0);
    if (files % 8 == 0) {
      const std::string text = plain_text_of(file.source());
      const std::string fast = text_of(read_in_windows(text, {1u << 14, 1u << 24, false}));
      CHECK((fast == text_of(read_in_windows(text, {1u << 20, 1u << 24, true}))));
      CHECK(std::count(fast.begin(), fast.end(), '\n') >= static_cast<std::int64_t>(trace.events.size()));
    }
  });
  MESSAGE(files << " real traces read");
}

TEST_CASE("real traces: as many entries as their description counts") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  // Rows of the table of files: | file | source | ... | events | ...
  std::map<std::string, std::string> described;
  std::istringstream lines(test::text_of_file(*folder / "README.md"));
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> cells;
    std::istringstream fields(line);
    for (std::string cell; std::getline(fields, cell, '|');) cells.push_back(cell);
    if (cells.size() > 9) described[cells[1].substr(1, cells[1].size() - 2)] = cells[8].substr(1, cells[8].size() - 2);
  }
  std::size_t checked = 0;
  for_each_kineto_file(1u << 22, [&](const test::File& file, const std::string& name) {
    const auto row = described.find(name);
    if (row == described.end()) return;
    CAPTURE(name);
    CHECK(std::to_string(trace_of(file.source()).report.events_seen) == row->second);
    ++checked;
  });
  MESSAGE(checked << " files have as many entries as described");
  CHECK(checked > 40);
}

TEST_CASE("real traces: the order of the entries does not matter") {
  std::size_t files = 0;
  for_each_kineto_file(1u << 17, [&](const test::File& file, const std::string& name) {
    CAPTURE(name);
    const std::string text = plain_text_of(file.source());
    const std::size_t begin = text.find('[', text[0] == '[' ? 0 : text.find("\"traceEvents\""));
    const std::size_t size = bracketed_size(std::string_view(text).substr(begin));
    REQUIRE(size > 0);
    std::vector<std::string_view> entries;
    for (std::size_t at = text.find('{', begin); at < begin + size;) {
      const std::size_t length = bracketed_size(std::string_view(text).substr(at));
      entries.push_back(std::string_view(text).substr(at, length));
      at = std::min(text.find('{', at + length), begin + size);
    }
    std::mt19937 random(7);
    std::shuffle(entries.begin(), entries.end(), random);
    std::string shuffled = text.substr(0, begin + 1);
    for (const std::string_view entry : entries) {
      shuffled += entry;
      shuffled += ',';
    }
    shuffled.back() = ']';
    shuffled += text.substr(begin + size);
    // Where several slices begin and end together, file order is all that there is.
    const Trace as_written = trace_of(file.source()), any_order = read(shuffled);
    CHECK(as_written.report.repaired == any_order.report.repaired);
    CHECK(as_written.report.missing == any_order.report.missing);
    CHECK(sorted_lines(text_of(as_written)) == sorted_lines(text_of(any_order)));
    CHECK(as_written.dependencies.size() == any_order.dependencies.size());
    CHECK(as_written.forward_backward.size() == any_order.forward_backward.size());
    ++files;
  });
  MESSAGE(files << " real traces shuffled");
}

TEST_CASE("real traces: counts of a few that were counted by other means") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  struct Case {
    const char *path, *device;
    std::int64_t seen, kept, python, steps, collectives, arrows, device_work, matched, rank, world;
  };
  // Counted with a general JSON parser in Python.
  const Case cases[] = {
      {"facebookresearch__HolisticTraceAnalysis/nccl_parser_config__nccl_data.json.gz", "NVIDIA A100-PG509-200", 40573,
       26933, 0, 3, 48, 543, 3774, 3774, 0, 2},
      {"facebookresearch__HolisticTraceAnalysis/df_index_resolver__df_index_resolver.json.gz", "Tesla V100-SXM2-32GB",
       216092, 123379, 0, 5, 0, 0, 22290, 22290, 1, 2},
      {"pytorch__kineto/resnet50_num_workers_0__worker0.pt.trace.json.gz", "", 82276, 63166, 0, 6, 0, 0, 9927, 9162, -1,
       -1},
      {"pytorch__kineto/resnet50_num_workers_0__worker0.1623143089861.pt.trace.json.gz", "Tesla V100-DGXS-32GB", 75718,
       44666, 0, 6, 0, 0, 9096, 9096, -1, -1},
      {"KellerJordan__modded-nanogpt/"
       "2025-10-31_AdamSyncGradientHook__modded-nanogpt-current-gpu-rank-00-chrome-trace.v2.json.gz",
       "NVIDIA H100 80GB HBM3", 37830, 25237, 0, 6, 128, 5, 5586, 4607, 0, 8},
      {"AMD-AGI__TraceLens/ddp_resnet18_no_pool__train_resnet18.json.gz", "AMD Instinct MI300X", 29746, 14153, 6649, 0,
       0, 355, 2375, 2375, -1, -1},
      {"facebookresearch__HolisticTraceAnalysis/cpu_only__rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz", "", 30, 16, 0,
       1, 0, 0, 0, 0, 34, 300},
  };
  for (const Case& c : cases) {
    CAPTURE(c.path);
    const Trace trace = trace_of(test::File(*folder / c.path).source());
    const auto count = [&](auto holds) { return std::count_if(trace.events.begin(), trace.events.end(), holds); };
    std::set<std::int64_t> launches;
    for (const Event& e : trace.events)
      if (e.kind == EventKind::runtime_call && e.correlation > 0) launches.insert(e.correlation);
    CHECK(static_cast<std::int64_t>(trace.report.events_seen) == c.seen);
    CHECK(static_cast<std::int64_t>(trace.events.size()) == c.kept);
    CHECK(static_cast<std::int64_t>(trace.report.python_frames) == c.python);
    CHECK(count([&](const Event& e) {
            return e.kind == EventKind::annotation && trace.text(e.name).starts_with("ProfilerStep#");
          }) == c.steps);
    CHECK(static_cast<std::int64_t>(trace.collectives.size()) == c.collectives);
    CHECK(static_cast<std::int64_t>(trace.forward_backward.size()) == c.arrows);
    CHECK(count([](const Event& e) { return is_device_work(e.kind); }) == c.device_work);
    CHECK(count([&](const Event& e) { return is_device_work(e.kind) && launches.contains(e.correlation); }) ==
          c.matched);
    CHECK(trace.rank == c.rank);
    CHECK(trace.world_size == c.world);
    CHECK(trace.device_name == c.device);
  }
}

TEST_CASE("slices written as begin and end marks are closed by thread, and marks without a partner are counted") {
  const auto mark = [](const std::string& phase, const std::string& name, int tid, int ts) {
    return R"({"ph": ")" + phase + R"(", "cat": "cpu_op", "name": ")" + name + R"(", "pid": 1, "tid": )" +
           std::to_string(tid) + R"(, "ts": )" + std::to_string(ts) + "}";
  };
  const std::string events = mark("B", "outer", 1, 10) + "," + mark("B", "inner", 1, 12) + "," + mark("B", "b", 2, 11) +
                             "," + mark("E", "", 1, 15) + "," + mark("E", "", 2, 13) + "," + mark("E", "", 1, 20);
  const Trace trace = read(file_of(events));
  CHECK(text_of(trace) ==
        "host operator outer 10000 10000 @1/1\nhost operator b 11000 2000 @1/2\nhost operator inner 12000 3000 @1/1\n");
  CHECK(trace.report.repaired.empty());
  const std::string loose = file_of(events + "," + mark("E", "", 3, 30) + "," + mark("B", "never ends", 3, 31));
  CHECK(mentions(read(loose).report.repaired, "2 events dropped: a begin without an end"));
  CHECK(error_of(loose, true).find("begin without an end") != std::string::npos);
}

TEST_CASE("a time stamp of 0 far before all others is none; a file that begins at 0 is fine") {
  const std::string bad = file_of(op("lost", "0", "5") + "," + op("a", "1711964646718703.702", "1"));
  const Trace trace = read(bad);
  CHECK(text_of(trace) == "host operator a 1711964646718703702 1000 @7/8\n");
  CHECK(mentions(trace.report.repaired, "1 event dropped: time stamp 0"));
  CHECK(error_of(bad, true).find("time stamp 0") != std::string::npos);
  CHECK(read(file_of(op("a", "0", "5") + "," + op("b", "7", "1"))).events.size() == 2);
}

TEST_CASE("of duplicate keys the last one counts, as every JSON reader does it") {
  CHECK(text_of(read(file_of(
            R"({"ph": "X", "cat": "cpu_op", "name": "first", "name": "last", "pid": 1, "tid": 1, "ts": 5, "ts": 6, )"
            R"("dur": 7, "args": {"External id": 1, "External id": 2}, "dur": 8})"))) ==
        "host operator last 6000 8000 @1/1 ext=2\n");
}

TEST_CASE(
    "zero durations, overlapping slices of a thread and fractions beyond the digits of a double are kept as they are") {
  CHECK(text_of(read(file_of(op("zero", "4503599627370497.001", "0") + "," + op("a", "4503599627370497.125", "10") +
                             "," + op("b", "4503599627370502.25", "10.0005")))) ==
        "host operator zero 4503599627370497001 0 @7/8\nhost operator a 4503599627370497125 10000 @7/8\n"
        "host operator b 4503599627370502250 10001 @7/8\n");
}

TEST_CASE("unknown categories and slices without one are named, with their share of the time") {
  const Trace trace = read(file_of(
      op("a", "1", "75") + R"(,{"ph": "X", "cat": "new_kind", "name": "x", "pid": 1, "tid": 1, "ts": 5, "dur": 20})"
                           R"(,{"ph": "X", "name": "y", "pid": 1, "tid": 1, "ts": 5, "dur": 5})"));
  CHECK(trace.report.events_unclassified == 2);
  CHECK(mentions(trace.report.missing,
                 "the meaning of 2 events, 25 % of the time of all events; categories: \"new_kind\" (1), none (1)"));
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

TEST_CASE("XPU, MTIA, HPU, Glow, private backends: calls, kernels and synchronisation by category") {
  const auto kind_of = [](const std::string& category) {
    const Trace trace = read(file_of(op("a", "1", "1") + R"(,{"ph": "X", "cat": ")" + category +
                                     R"(", "name": "x", "pid": 0, "tid": 1, "ts": 5, "dur": 7})"));
    CHECK(trace.report.events_unclassified == 0);
    return trace.events[1].kind;
  };
  for (const char* category : {"xpu_runtime", "xpu_driver", "mtia_runtime", "glow_runtime", "privateuse1_runtime",
                               "privateuse1_driver", "cuda_driver"})
    CHECK(kind_of(category) == EventKind::runtime_call);
  for (const char* category : {"mtia_ccp_events", "hpu_op"}) CHECK(kind_of(category) == EventKind::kernel);
  for (const char* category : {"xpu_sync", "cuda_sync", "cuda_event"})
    CHECK(kind_of(category) == EventKind::synchronization);
  for (const char* category : {"overhead", "collective_comm", "external_correlation"})
    CHECK(kind_of(category) == EventKind::other);
}

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
