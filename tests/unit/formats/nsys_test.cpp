// Nsight Systems reports: hand-made databases, damage, and the public ones.
#include <stepcast/base/error.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/formats/shared/stream_waits.hpp>
#include <stepcast/trace/steps.hpp>

#include <doctest/doctest.h>
#include <sqlite3.h>

#include <algorithm>
#include <random>
#include <set>

#include "helpers/shared_data.hpp"

using namespace stepcast;

namespace {

/// A database in memory, made of SQL, as the bytes of its file.
class Database {
 public:
  explicit Database(const std::string& sql) {
    REQUIRE(sqlite3_open(":memory:", &handle_) == SQLITE_OK);
    run(sql);
  }
  ~Database() { sqlite3_close(handle_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void run(const std::string& sql) {
    char* error = nullptr;
    sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, &error);
    const std::string why = error == nullptr ? "" : error;
    sqlite3_free(error);
    REQUIRE(why == "");
  }
  [[nodiscard]] std::string bytes() const {
    sqlite3_int64 size = 0;
    unsigned char* file = sqlite3_serialize(handle_, "main", &size, 0);
    REQUIRE(file != nullptr);
    std::string out(reinterpret_cast<const char*>(file), static_cast<std::size_t>(size));
    sqlite3_free(file);
    return out;
  }

 private:
  sqlite3* handle_ = nullptr;
};

Reading reading(const std::string& bytes, const ReadOptions& options = {}) {
  return reading_of({"report.sqlite", std::as_bytes(std::span(bytes))}, options);
}
Trace only_trace(const std::string& bytes) {
  Reading r = reading(bytes);
  REQUIRE(r.traces.size() == 1);
  return std::move(r.traces.front());
}

constexpr std::int64_t pid = 77, thread = 101;
constexpr std::int64_t global_pid = (std::int64_t{1} << 48) + (pid << 24), global_tid = global_pid + thread;

const std::string tables = R"(
  CREATE TABLE EXPORT_META_DATA (name TEXT, value TEXT);
  INSERT INTO EXPORT_META_DATA VALUES ('EXPORT_PRODUCT_VERSION', '2024.1'), ('EXPORT_SCHEMA_VERSION', '3.9');
  CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);
  INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1000000000000000000);
  CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER, cuDevice INTEGER);
  INSERT INTO TARGET_INFO_GPU VALUES (7, 'Board B', 80, 1), (3, 'Board A', 40, 0);
  CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
  INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'cudaEventRecord_v3020'), (3, 'gemm'), (4, 'add'),
    (5, 'cudaStreamWaitEvent_v3020'), (6, 'cudaEventSynchronize_v3020'), (7, 'cudaMemcpyAsync_ptsz_v7000'),
    (8, 'step 2'), (9, 'ncclDevKernel_AllReduce'), (10, 'cudaDeviceSynchronize_v3020'), (11, 'the main thread');
  CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER,
    nameId INTEGER);
  CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
    streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);
  CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
    streamId INTEGER, correlationId INTEGER, globalPid INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER);
  CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (deviceId INTEGER, contextId INTEGER, streamId INTEGER,
    correlationId INTEGER, globalPid INTEGER, eventId INTEGER);
  CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
    streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER, eventId INTEGER);
  CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER, globalTid INTEGER);
  CREATE TABLE ThreadNames (nameId INTEGER, globalTid INTEGER);
)";

std::string row(const std::string& table, std::initializer_list<std::int64_t> values) {
  std::string sql = "INSERT INTO " + table + " VALUES (";
  const char* comma = "";
  for (const std::int64_t v : values) sql += comma + std::to_string(v), comma = ",";
  return sql + ");";
}
std::string call(std::int64_t start, std::int64_t end, std::int64_t correlation, std::int64_t name,
                 std::int64_t tid = global_tid) {
  return row("CUPTI_ACTIVITY_KIND_RUNTIME", {start, end, tid, correlation, name});
}
std::string kernel(std::int64_t start, std::int64_t end, std::int64_t stream, std::int64_t correlation,
                   std::int64_t name, std::int64_t device = 0, std::int64_t owner = global_pid) {
  return row("CUPTI_ACTIVITY_KIND_KERNEL", {start, end, device, 1, stream, correlation, owner, name});
}
std::string range(std::int64_t start, std::int64_t end, const std::string& text, std::int64_t type = 59,
                  std::int64_t tid = global_tid) {
  return "INSERT INTO NVTX_EVENTS VALUES (" + std::to_string(start) + "," + (end < 0 ? "NULL" : std::to_string(end)) +
         "," + std::to_string(type) + ",'" + text + "',NULL," + std::to_string(tid) + ");";
}

/// Stream 7 computes and is recorded; stream 20 reduces behind a wait; the host waits for the reduction.
std::string one_process() {
  return tables + call(100, 110, 1, 1) + kernel(150, 400, 7, 1, 3) + call(120, 125, 2, 2) +
         row("CUPTI_ACTIVITY_KIND_CUDA_EVENT", {0, 1, 7, 2, global_pid, 5}) + call(130, 135, 3, 5) +
         row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", {130, 134, 0, 1, 20, 3, global_pid, 3, 5}) + call(140, 145, 4, 1) +
         kernel(402, 700, 20, 4, 9) + call(146, 148, 5, 2) +
         row("CUPTI_ACTIVITY_KIND_CUDA_EVENT", {0, 1, 20, 5, global_pid, 6}) + call(150, 750, 6, 6) +
         row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", {151, 749, 0, 1, 4294967295, 6, global_pid, 2, 6}) +
         call(760, 770, 7, 7) + row("CUPTI_ACTIVITY_KIND_MEMCPY", {800, 900, 0, 1, 7, 7, global_pid, 1, 1, 2}) +
         range(90, 780, "step 1") + "INSERT INTO NVTX_EVENTS VALUES (795, 999, 59, NULL, 8, " +
         std::to_string(global_tid) + ");" + row("ThreadNames", {11, global_tid});
}

std::size_t count(const Trace& trace, EventKind kind) {
  return static_cast<std::size_t>(std::ranges::count(trace.events, kind, &Event::kind));
}
std::string names(const Trace& trace, const Dependency& d) {
  return std::string(trace.text(trace.events[d.before].name)) + " -> " +
         std::string(trace.text(trace.events[d.after].name));
}
bool says(const std::vector<std::string>& lines, const std::string& part) {
  return std::ranges::any_of(lines, [&](const std::string& l) { return l.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("an Nsight Systems report becomes a trace: events, names, device, steps and what waited for what") {
  const Trace trace = only_trace(Database(one_process()).bytes());
  CHECK(trace.report.format == "nsys");
  CHECK(trace.report.producer == "Nsight Systems 2024.1 (SQLite export, schema 3.9)");
  CHECK(trace.device_name == "Board A");
  CHECK(trace.device_memory_bytes == 40);
  CHECK(trace.events.size() == 12);
  CHECK(count(trace, EventKind::runtime_call) == 7);
  CHECK(count(trace, EventKind::kernel) == 2);
  CHECK(trace.events.front().start_ns == 1'000'000'000'000'000'090);
  const auto copy = std::ranges::find(trace.events, EventKind::copy, &Event::kind);
  REQUIRE(copy != trace.events.end());
  CHECK(trace.text(copy->name) == "Memcpy HtoD (Pinned -> Device)");
  const Track host = trace.tracks[trace.events.front().track];
  CHECK(host.process == pid);
  CHECK(host.thread == thread);
  CHECK(trace.text(host.label) == "the main thread");
  CHECK(std::ranges::find(trace.strings, "cudaMemcpyAsync") != trace.strings.end());

  REQUIRE(trace.dependencies.size() == 2);
  CHECK(names(trace, trace.dependencies[0]) == "gemm -> ncclDevKernel_AllReduce");
  CHECK(trace.dependencies[0].kind == DependencyKind::stream_wait);
  CHECK(names(trace, trace.dependencies[1]) == "ncclDevKernel_AllReduce -> cudaEventSynchronize");
  CHECK(trace.dependencies[1].kind == DependencyKind::host_wait);

  const std::vector<Step> steps = steps_of(trace);
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].number == 1);
  CHECK(steps[0].end_ns == steps[1].start_ns);
  CHECK(says(trace.report.missing, "sizes of collectives"));
}

TEST_CASE("tables and columns that a report lacks are said to be missing, not made up") {
  const std::string bare = R"(
    CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
    INSERT INTO StringIds VALUES (3, 'gemm');
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
      shortName INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 9, 0, 7, 3), (10, 12, 0, 7, 4), ('x', NULL, 0, 7, 3);)";
  const Trace trace = only_trace(Database(bare).bytes());
  CHECK(trace.events.size() == 2);
  CHECK(trace.text(trace.events[0].name) == "gemm");
  CHECK(trace.text(trace.events[1].name) == "unnamed kernel");
  CHECK(says(trace.report.missing, "NVTX"));
  CHECK(says(trace.report.missing, "the name of the device"));
  CHECK(says(trace.report.missing, "rank"));
  CHECK(says(trace.report.repaired, "1 events dropped: no usable start and end"));
}

TEST_CASE("what newer and older exports name otherwise") {
  Database database(one_process());
  database.run(
      "ALTER TABLE EXPORT_META_DATA RENAME TO META_DATA_EXPORT;"
      "UPDATE TARGET_INFO_GPU SET cuDevice = NULL;"
      "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT);"
      "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (3, 0, 9, 'u'), (7, 0, " +
      std::to_string(pid) + ", 'v');" + range(500, 0, "step 9"));
  const Trace trace = only_trace(database.bytes());
  CHECK(trace.report.producer == "Nsight Systems 2024.1 (SQLite export, schema 3.9)");
  CHECK(trace.device_name == "Board B");
  CHECK(says(trace.report.repaired, "1 NVTX ranges left out: they never end"));
  CHECK(steps_of(trace).size() == 2);
  CHECK_FALSE(says(trace.report.missing, "the names of"));
}

TEST_CASE("kernels whose names are not in the report are said to be without") {
  Database database(one_process());
  database.run("DELETE FROM StringIds WHERE id = 9");
  CHECK(says(only_trace(database.bytes()).report.missing, "the names of 1 kernel, and so"));
}

TEST_CASE("a kernel without times does not move the clock of the others") {
  Database database(one_process());
  database.run(call(960, 965, 50, 1) + kernel(-1'000'000'000'000, -1'000'000'000'000, 7, 50, 3));
  const Trace trace = only_trace(database.bytes());
  CHECK(says(trace.report.repaired, "1 events dropped: no usable start and end"));
  CHECK_FALSE(says(trace.report.repaired, "device times moved"));
  CHECK(says(trace.report.missing, "the device records of 1 of 3 launches"));
  CHECK(trace.events.front().start_ns == 1'000'000'000'000'000'090);
}

TEST_CASE("databases of other profilers are told by their tables") {
  const auto refusal = [](const std::string& sql) -> std::string {
    const std::string bytes = Database(sql).bytes();
    try {
      (void)reading(bytes);
    } catch (const InputError& error) { return error.what(); }
    return "";
  };
  CHECK(refusal("CREATE TABLE StringTable (_id_ INTEGER, value TEXT);"
                "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, name INT);"
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 7, 1);")
            .find("nvprof") != std::string::npos);
  CHECK(refusal("CREATE TABLE rocpd_kernel_dispatch_ab12 (id INTEGER);").find("rocprofv3 --output-format json") !=
        std::string::npos);
}

TEST_CASE("processes of one report have their own ids and become one trace each") {
  const std::int64_t other_pid = global_pid + (1 << 24), other_tid = other_pid + 5;
  const Reading r = reading(Database(one_process() + call(200, 210, 1, 1, other_tid) +
                                     kernel(220, 240, 7, 1, 4, 1, other_pid) + range(1, 2, "idle", 59, 900LL << 24))
                                .bytes());
  REQUIRE(r.traces.size() == 2);
  CHECK(r.traces[0].rank == 0);
  CHECK(r.traces[1].rank == 1);
  CHECK(r.traces[1].device_name == "Board B");
  CHECK(says(r.traces[1].report.assumed, "rank 1: the process uses device 1"));
  CHECK(r.traces[1].events.size() == 2);
  CHECK(r.traces[0].dependencies.size() == 2);
  CHECK(r.traces[1].source == "report.sqlite (process 78)");
}

TEST_CASE("ranges of emit_nvtx are operators with shapes and sequence numbers") {
  const Trace trace =
      only_trace(Database(one_process() +
                          range(91, 99,
                                "aten::addmm, seq = 12, op_id = 3, sizes = [[64], [8, 3], []], " +
                                    std::string("input_op_ids = [[1,0]]")) +
                          range(92, 98, "aten::relu_") + range(93, -1, "never ends") + range(90, 780, "handle", 60))
                     .bytes());
  CHECK(count(trace, EventKind::host_op) == 2);
  const auto op = std::ranges::find(trace.events, EventKind::host_op, &Event::kind);
  CHECK(trace.text(op->name) == "aten::addmm");
  CHECK(op->sequence == 12);
  CHECK(trace.text(op->shapes) == "[[64], [8, 3], []]");
  CHECK(says(trace.report.repaired, "1 NVTX ranges left out: they never end"));
  // Start-end ranges may overlap those of the thread's stack: they have a track of their own.
  const auto handle =
      std::ranges::find_if(trace.events, [&](const Event& e) { return trace.text(e.name) == "handle"; });
  REQUIRE(handle != trace.events.end());
  CHECK(handle->track != op->track);
}

TEST_CASE("whole CUDA graphs, lost device records and a device clock that is off are told") {
  SUBCASE("a graph without its kernels") {
    const Trace trace = only_trace(Database(one_process() +
                                            R"(CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER,
          deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
          graphId INTEGER);)" + row("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {910, 950, 0, 1, 7, 99, global_pid, 4}))
                                       .bytes());
    CHECK(count(trace, EventKind::kernel) == 3);
    CHECK(says(trace.report.missing, "kernels inside 1 CUDA graph launches"));
  }
  SUBCASE("launches without a kernel") {
    const Trace trace = only_trace(Database(one_process() + call(960, 965, 50, 1)).bytes());
    CHECK(says(trace.report.missing, "the device records of 1 of 3 launches (33 %), all at the end"));
  }
  SUBCASE("work that ends after the call that waited for it") {
    Database database(one_process());
    database.run(
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start + 5000, end = end + 5000;"
        "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET start = start + 5000, end = end + 5000;");
    const Trace trace = only_trace(database.bytes());
    CHECK(says(trace.report.repaired, "device times moved by -0.0"));
    for (const Dependency& d : trace.dependencies)
      if (d.kind == DependencyKind::host_wait) CHECK(trace.events[d.before].end_ns() <= trace.events[d.after].end_ns());
    for (const Event& e : trace.events)
      if (is_device_work(e.kind)) CHECK(e.start_ns >= 1'000'000'000'000'000'100);
    const std::string bytes = database.bytes();
    ReadOptions strict;
    strict.strict = true;
    CHECK_THROWS_AS((void)reading(bytes, strict), InputError);
  }
}

TEST_CASE("SQLite files of other kinds and damaged ones are refused or repaired, never misread") {
  const auto message = [](const std::string& bytes) -> std::string {
    try {
      (void)reading(bytes);
    } catch (const InputError& error) { return error.what(); }
    return "";
  };
  CHECK(message(Database("CREATE TABLE songs (title TEXT);").bytes()).find("songs") != std::string::npos);
  CHECK(message(Database(tables).bytes()).find("0 events") != std::string::npos);
  std::string bytes = Database(one_process()).bytes();
  CHECK(message(bytes.substr(0, bytes.size() - 4096)).find("cut off") != std::string::npos);
  CHECK(message(bytes.substr(0, 50)).find("header") != std::string::npos);
  bytes[18] = bytes[19] = 2;  // WAL mode: the log is gone, the file is complete
  CHECK(message(bytes) == "");

  std::mt19937 random(5);
  bytes = Database(one_process()).bytes();
  int read = 0, refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string damaged = bytes;
    for (int flips = 0; flips < 1 + i % 20; ++flips) damaged[16 + random() % (bytes.size() - 16)] = char(random());
    (message(damaged).empty() ? read : refused)++;
  }
  CHECK(read > 0);
  CHECK(refused > 0);
}

TEST_CASE("a stream's wait is inherited by what comes behind it, and a marker means its latest record") {
  using Kind = StreamCall::Kind;
  const auto work = [](std::int64_t at, std::uint32_t stream, std::uint32_t event) {
    return StreamCall{Kind::work, at, at, stream, -1, event};
  };
  const auto record = [](std::int64_t at, std::uint32_t stream, std::int64_t marker) {
    return StreamCall{Kind::record, at, 0, stream, marker, no_index};
  };
  const auto wait = [](std::int64_t at, std::uint32_t stream, std::int64_t marker) {
    return StreamCall{Kind::stream_wait, at, 0, stream, marker, no_index};
  };
  const auto arrows = [](std::vector<StreamCall> calls) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> out;
    for (const Dependency& d : stream_waits(std::move(calls)).dependencies) out.insert({d.before, d.after});
    return out;
  };
  using Arrows = std::set<std::pair<std::uint32_t, std::uint32_t>>;
  // Stream 1 has no work of its own: it passes the wait on to stream 2.
  CHECK(arrows({work(1, 0, 10), record(2, 0, 5), wait(3, 1, 5), record(4, 1, 6), wait(5, 2, 6), work(6, 2, 20)}) ==
        Arrows{{10, 20}});
  // Recorded again: the wait is for the later work; work behind the record does not count.
  CHECK(arrows({work(1, 0, 10), record(2, 0, 5), work(3, 0, 11), record(4, 0, 5), work(5, 0, 12), wait(6, 1, 5),
                work(7, 1, 20), work(8, 1, 21)}) == Arrows{{11, 20}});
  // A second wait for the same work adds nothing.
  CHECK(arrows({work(1, 0, 10), record(2, 0, 5), wait(3, 1, 5), work(4, 1, 20), wait(5, 1, 5), work(6, 1, 21)}) ==
        Arrows{{10, 20}});
  // The host waits for all that the stream stands for.
  CHECK(arrows({work(1, 0, 10), record(2, 0, 5), wait(3, 1, 5),
                StreamCall{Kind::host_waits_for_stream, 4, 0, 1, -1, 30}}) == Arrows{{10, 30}});
  CHECK(arrows({work(1, 0, 10), work(2, 1, 11), StreamCall{Kind::host_waits_for_device, 4, 0, 0, -1, 30}}) ==
        Arrows{{10, 30}, {11, 30}});
  CHECK(stream_waits({wait(1, 0, 9)}).unresolved == 1);
}

TEST_CASE("the public reports: steps, kernels, and arrows that the recorded times obey") {
  const auto folder = test::shared_folder("traces/NERSC__sc22-dl-tutorial/derived_nsys_sqlite");
  if (!folder) return;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    const std::string name = entry.path().filename().string();
    CAPTURE(name);
    const test::File file(entry.path());
    const Trace trace = trace_of(file.source());
    const std::vector<Step> steps = steps_of(trace);
    for (const Dependency& d : trace.dependencies) {
      const Event &before = trace.events[d.before], &after = trace.events[d.after];
      CHECK(before.end_ns() <= (d.kind == DependencyKind::stream_wait ? after.start_ns : after.end_ns()));
    }
    if (name != "4gpu_baseline_nsys-rep.sqlite.gz") {
      CHECK(steps.size() == 29);
      CHECK(says(trace.report.missing, "ids of recorded events"));
      CHECK(says(trace.report.missing, "the device records of 1778 of 8620") == name.starts_with("4gpu"));
      continue;
    }
    CHECK(count(trace, EventKind::kernel) == 22564);
    CHECK(trace.dependencies.size() > 1400);
    REQUIRE(steps.size() == 59);
    std::vector<Seconds> durations = step_durations(trace, steps);
    std::ranges::nth_element(durations, durations.begin() + 29);
    CHECK(durations[29].value() == doctest::Approx(30.55e-3).epsilon(0.01));
  }
}
