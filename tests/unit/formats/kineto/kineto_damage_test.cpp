// The Kineto reader and damage: repaired with a count or refused by --strict, and never passed over in silence.

#include "helpers/kineto_text.hpp"
#include "helpers/shared_data.hpp"

#include <doctest/doctest.h>

using namespace stepcast;
using namespace stepcast::test;

namespace {

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

}  // namespace

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

TEST_CASE("an event whose phase is a number is none that is known") {
  // Of one digit, the phase is shorter than the shortest text; what it says of itself is read all the same.
  const Trace trace = read(file_of(op("a", "1", "1") +
                                   R"(,{"ph":1,"cat":"cpu_op","name":"b","pid":7,"tid":8,"ts":2,"dur":1,"args":{}},)" +
                                   op("c", "3", "1")));
  CHECK(text_of(trace) == "host operator a 1000 1000 @7/8\nhost operator c 3000 1000 @7/8\n");
}

TEST_CASE("a length without a sign that should have one drops the slice, not the file") {
  const Trace trace =
      read(file_of(op("a", "30000000.125", "5.000") +
                   R"(,{"ph": "X", "cat": "Trace", "ts": 30000000.000, "dur": 18446742359788254.321, "pid": "Spans", )"
                   R"("tid": "P", "name": "PyTorch Profiler", "args": {"Op count": 0}})"));
  CHECK(trace.events.size() == 1);
  CHECK(mentions(trace.report.repaired, "1 event dropped: no readable duration"));
  CHECK(error_of(file_of(op("a", "1", "5e15"))).find("no profiler runs that long") != std::string::npos);
  CHECK(error_of(file_of(op("a", "1", "5e18"))).find("no profiler runs that long") != std::string::npos);
}

TEST_CASE("a time stamp of 0 far before all others is none; a file that begins at 0 is fine") {
  const std::string bad = file_of(op("lost", "0", "5") + "," + op("a", "1711964646718703.702", "1"));
  const Trace trace = read(bad);
  CHECK(text_of(trace) == "host operator a 1711964646718703702 1000 @7/8\n");
  CHECK(mentions(trace.report.repaired, "1 event dropped: time stamp 0"));
  CHECK(error_of(bad, true).find("time stamp 0") != std::string::npos);
  CHECK(read(file_of(op("a", "0", "5") + "," + op("b", "7", "1"))).events.size() == 2);
  // Relative times begin when the program loads the profiler.
  const auto relative = [](const std::string& events) {
    return R"({"baseTimeNanoseconds": 1727743122000000000, "traceEvents": [)" + events + "]}";
  };
  const std::string memory =
      R"(,{"ph": "i", "name": "[memory]", "pid": 7, "tid": 8, "ts": 0.000, "args": {"Bytes": 64, "Device Type": 1}})";
  const Trace late = read(relative(op("lost", "0.000", "0.000") + "," + op("a", "30000000.125", "1") + memory));
  CHECK(text_of(late) == "host operator a 1727743152000000125 1000 @7/8\n");
  CHECK(late.allocations.empty());
  CHECK(mentions(late.report.repaired, "2 events dropped: time stamp 0"));
  CHECK(read(relative(op("a", "0", "5") + "," + op("b", "7", "1"))).events.size() == 2);
  CHECK(read(file_of(op("a", "0", "5") + "," + op("b", "30000000", "1"))).events.size() == 2);
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

TEST_CASE("unknown categories are kept as other, with their count and time") {
  const Trace trace = read(file_of(
      op("a", "1", "1") + R"(,{"ph": "X", "cat": "new_kind", "name": "x", "pid": 1, "tid": 1, "ts": 5, "dur": 7})"));
  CHECK(trace.report.events_unclassified == 1);
  CHECK(trace.report.unclassified_ns == 7000);
  CHECK(trace.events[1].kind == EventKind::other);
}

TEST_CASE("unknown categories and slices without one are named, with their share of the time") {
  const Trace trace = read(file_of(
      op("a", "1", "75") + R"(,{"ph": "X", "cat": "new_kind", "name": "x", "pid": 1, "tid": 1, "ts": 5, "dur": 20})"
                           R"(,{"ph": "X", "name": "y", "pid": 1, "tid": 1, "ts": 5, "dur": 5})"));
  CHECK(trace.report.events_unclassified == 2);
  CHECK(mentions(trace.report.missing,
                 "the meaning of 2 events, 25 % of the time of all events; categories: \"new_kind\" (1), none (1)"));
}
