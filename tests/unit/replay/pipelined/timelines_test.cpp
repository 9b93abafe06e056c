// Timelines of tensors (Horovod, ByteScheduler, BytePS) and of frameworks other than PyTorch (MXNet, Composer): every
// mark by a small text of it, damage, and the real files that are at hand.
#include <stepcast/base/error.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/formats/shared/chrome_events.hpp>
#include <stepcast/formats/shared/chrome_writer.hpp>
#include <stepcast/trace/steps.hpp>

#include "helpers/shared_data.hpp"
#include "helpers/timelines.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace stepcast;
using namespace stepcast::test;

namespace {

// ---- Horovod ----

std::string tensor(int pid, const std::string& name) {
  return R"({"name": "process_name", "ph": "M", "pid": )" + std::to_string(pid) + R"(, "args": {"name": ")" + name +
         "\"}},\n";
}
std::string begin(int pid, const std::string& name, int ts) {
  return R"({"ph": "B", "name": ")" + name + R"(", "ts": )" + std::to_string(ts) + R"(, "pid": )" +
         std::to_string(pid) + "},\n";
}
std::string end(int pid, int ts, const std::string& arguments = "") {
  return R"({"ph": "E", "ts": )" + std::to_string(ts) + R"(, "pid": )" + std::to_string(pid) +
         (arguments.empty() ? "" : R"(, "args": {)" + arguments + "}") + "},\n";
}
std::string tick(int pid, int rank, int ts) {
  return R"({"ph": "X", "name": ")" + std::to_string(rank) + R"(", "ts": )" + std::to_string(ts) + R"(, "pid": )" +
         std::to_string(pid) + R"(, "dur": 0},)" + "\n";
}

// One all-reduce of one tensor: negotiated in 10 us, queued for 5 us, transferred in 20 us.
std::string all_reduce(int pid, int ts, const std::string& arguments = "") {
  return begin(pid, "NEGOTIATE_ALLREDUCE", ts) + tick(pid, 1, ts + 2) + tick(pid, 0, ts + 9) + end(pid, ts + 10) +
         begin(pid, "ALLREDUCE", ts + 10) + begin(pid, "QUEUE", ts + 10) + end(pid, ts + 15) +
         begin(pid, "NCCL_ALLREDUCE", ts + 15) + end(pid, ts + 35) + end(pid, ts + 36, arguments);
}

// ---- ByteScheduler ----

std::string slice(int pid, const std::string& name, int from, int to) {
  const std::string tail = R"(, "name": ")" + name + "\"}, ";
  return R"({"ph": "B", "pid": )" + std::to_string(pid) + R"(, "ts": )" + std::to_string(from) + tail +
         R"({"ph": "E", "pid": )" + std::to_string(pid) + R"(, "ts": )" + std::to_string(to) + tail;
}

// ---- MXNet ----

std::string mxnet_mark(char phase, const std::string& name, const std::string& pid, const std::string& tid, int ts) {
  return R"(, {"name": ")" + name + R"(", "cat": "operator", "ph": ")" + phase + R"(", "ts": )" + std::to_string(ts) +
         R"(, "pid": )" + pid + R"(, "tid": )" + tid + "}\n";
}
const std::string mxnet_head =
    R"({ "traceEvents": [ {"ph": "M", "args": {"name": "cpu/0"}, "pid": 0, "name": "process_name"},)"
    R"( {"ph": "M", "args": {"name": "gpu/1"}, "pid": 1, "name": "process_name"})"
    "\n";

}  // namespace

TEST_CASE("horovod: negotiation, queue and transfer are events of their own and only the transfer is a collective") {
  const Trace trace = read("[\n" + tensor(1, "grad/a") + all_reduce(1, 100) + "]");
  CHECK(trace.report.format == "horovod");
  CHECK(lines_of(trace) ==
        "annotation NEGOTIATE_ALLREDUCE 100000 10000 @1/0\n"
        "annotation rank 0 is ready, the last 109000 0 @1/0\n"
        "annotation ALLREDUCE 110000 26000 @1/0\n"
        "annotation QUEUE 110000 5000 @1/0\n"
        "host operator NCCL_ALLREDUCE 115000 20000 @1/0 allreduce group=2\n");
  CHECK(trace.text(trace.tracks[trace.events[0].track].label) == "grad/a");
  CHECK(trace.rank == 0);
  CHECK(trace.world_size == 2);
  CHECK(mentions(trace.report.missing, "sizes of the collectives"));
  CHECK(mentions(trace.report.missing, "no tensor is communicated twice"));
}

TEST_CASE("horovod: a timeline that chrome://tracing has saved again") {
  const std::string events = "[\n" + tensor(1, "grad/a") + all_reduce(1, 100) + "]";
  const Trace trace = read("{\"traceEvents\": " + events + ", \"displayTimeUnit\": \"ms\"}");
  CHECK(trace.report.format == "horovod");
  CHECK(lines_of(trace) == lines_of(read(events)));
}

TEST_CASE("horovod: the names of all tensors may fill the beginning of the file") {
  std::string names = "[\n";
  for (int i = 1; i < 1000; ++i)
    names += tensor(i, "bert/encoder/layer_" + std::to_string(i) + "/attention/self/query/kernel") +
             R"({"name": "process_sort_index", "ph": "M", "pid": )" + std::to_string(i) +
             R"(, "args": {"sort_index": 1}},)";
  REQUIRE(names.size() > (1u << 16));
  CHECK(read(names + all_reduce(1, 100)).report.format == "horovod");
}

TEST_CASE("horovod: steps of Adasum") {
  const auto adasum = [](int ts) {
    return begin(1, "NEGOTIATE_ADASUM", ts) + end(1, ts + 5) + begin(1, "ADASUM", ts + 5) + end(1, ts + 9);
  };
  CHECK(named(read("[\n" + tensor(1, "grad/a") + adasum(100) + adasum(200) + adasum(300)), "ProfilerStep#0") == 1);
}

TEST_CASE("horovod: tensors in a fusion buffer share one transfer, whose size is the sum of theirs") {
  const std::string both = begin(1, "ALLREDUCE", 10) + begin(2, "ALLREDUCE", 11) + begin(1, "NCCL_ALLREDUCE", 20) +
                           begin(2, "NCCL_ALLREDUCE", 21) + end(1, 40) + end(2, 41) +
                           end(1, 50, R"("dtype": "float32", "shape": "[10]")") +
                           end(2, 51, R"("dtype": "float32", "shape": "[256, 10]")");
  const Trace trace = read("[" + tensor(1, "bias") + tensor(2, "kernel") + both);
  REQUIRE(trace.collectives.size() == 1);
  CHECK(trace.collectives[0].in_elements == 2570);
  CHECK(trace.text(trace.collectives[0].dtype) == "float32");
  CHECK(std::ranges::count(trace.events, 0u, &Event::collective) == 1);
  CHECK(mentions(trace.report.assumed, "1 marks of transfers that tensors share"));
  SUBCASE("another mark between two transfers ends the buffer") {
    const Trace apart =
        read("[" + begin(1, "ALLREDUCE", 10) + begin(1, "NCCL_ALLREDUCE", 20) + begin(2, "ALLREDUCE", 20) +
             begin(2, "NCCL_ALLREDUCE", 21) + end(1, 40) + end(2, 41) + end(1, 50) + end(2, 51));
    CHECK(apart.collectives.size() == 2);
  }
}

TEST_CASE("horovod: what is negotiated meanwhile does not part the tensors of a fusion buffer") {
  const std::string shape = R"("dtype": "float32", "shape": "[10]")";
  const std::string own[] = {begin(1, "NCCL_ALLREDUCE", 10), begin(2, "NCCL_ALLREDUCE", 11)};
  const std::string ends = end(1, 30) + end(2, 30) + end(1, 31, shape) + end(2, 31, shape);
  const std::string ready = begin(3, "NEGOTIATE_ALLREDUCE", 5),
                    head = begin(1, "ALLREDUCE", 9) + begin(2, "ALLREDUCE", 9);
  const std::string others =
      begin(4, "NEGOTIATE_ALLREDUCE", 10) + end(3, 10) + begin(3, "ALLREDUCE", 10) + begin(3, "QUEUE", 10);
  const Trace trace = read("[" + ready + head + own[0] + others + own[1] + ends);
  REQUIRE(trace.collectives.size() == 1);
  CHECK(trace.collectives[0].in_elements == 20);
  // An activity that ends is the beginning of another transfer.
  CHECK(read("[" + ready + end(3, 6) + begin(3, "ALLREDUCE", 7) + begin(3, "QUEUE", 8) + head + own[0] + end(3, 11) +
             begin(3, "NCCL_ALLREDUCE", 11) + end(3, 20) + end(3, 21) + end(1, 30))
            .collectives.size() == 2);
}

TEST_CASE("horovod: a tensor without a shape leaves the size of its buffer unknown") {
  const Trace trace = read("[" + begin(1, "ALLREDUCE", 10) + begin(2, "ALLREDUCE", 11) + begin(1, "MPI_ALLREDUCE", 20) +
                           begin(2, "MPI_ALLREDUCE", 21) + end(1, 40) + end(2, 41) +
                           end(1, 50, R"("dtype": "float32", "shape": "[10]")") + end(2, 51));
  REQUIRE(trace.collectives.size() == 1);
  CHECK(trace.collectives[0].in_elements == -1);
}

TEST_CASE(
    "horovod: an operation without activities is its own transfer; a broadcast is one; so are hierarchical parts") {
  const Trace plain = read("[" + begin(1, "ALLGATHER", 10) + end(1, 30));
  CHECK(lines_of(plain) == "host operator ALLGATHER 10000 20000 @1/0 allgather\n");
  const Trace parts = read("[" + begin(1, "ALLREDUCE", 0) + begin(1, "NCCL_REDUCESCATTER", 1) + end(1, 2) +
                           begin(1, "MPI_ALLREDUCE", 2) + end(1, 5) + begin(1, "NCCL_ALLGATHER", 5) + end(1, 6) +
                           end(1, 7) + begin(1, "BROADCAST", 8) + begin(1, "MPI_BCAST", 9) + end(1, 10) + end(1, 11));
  REQUIRE(parts.collectives.size() == 4);
  CHECK(parts.text(parts.collectives[0].name) == "reducescatter");
  CHECK(parts.text(parts.collectives[2].name) == "allgather");
  CHECK(parts.text(parts.collectives[3].name) == "broadcast");
}

TEST_CASE("horovod: both clocks") {
  const Trace steady = read("[" + all_reduce(1, 100));
  CHECK(mentions(steady.report.assumed, "steady clock"));
  const Trace since = read(
      R"([{"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros":1633399518104473}},)" +
      all_reduce(1, 100));
  CHECK(since.base_ns == 1633399518104473000);
  CHECK(since.events[0].start_ns == 1633399518104573000);
  CHECK_FALSE(mentions(since.report.assumed, "steady clock"));
}

TEST_CASE("horovod: steps last from one communication of the first tensor to the next") {
  std::string text = "[" + tensor(1, "a") + tensor(2, "b") + tensor(3, "metric") + begin(4, "BROADCAST", 1) + end(4, 2);
  for (int step = 0; step < 4; ++step) text += all_reduce(2, 100 + 1000 * step) + all_reduce(1, 300 + 1000 * step);
  text += all_reduce(3, 9000);
  const Trace trace = read(text);
  const std::vector<Step> steps = steps_of(trace);
  REQUIRE(steps.size() == 3);
  CHECK(steps[1].start_ns == 1'100'000);
  CHECK(steps[1].end_ns == 2'100'000);
  CHECK(mentions(trace.report.assumed, "from one communication of b to the next"));
  CHECK(error_of([&] { (void)profile_of(trace); }).find("a horovod file is good for when each tensor") !=
        std::string::npos);
}

TEST_CASE("horovod: recordings that start or stop in the middle, open arrays, and what is worse") {
  const Trace middle = read("[" + end(1, 50) + all_reduce(1, 100) + begin(1, "NEGOTIATE_ALLREDUCE", 200));
  CHECK(mentions(middle.report.missing, "the beginning of 1 slice"));
  CHECK(mentions(middle.report.missing, "the end of 1 slice"));
  CHECK(mentions(middle.report.assumed, "left open"));
  CHECK(middle.report.repaired.empty());
  CHECK(read_strictly("[" + all_reduce(1, 100)).collectives.size() == 1);  // an open array is how Horovod writes

  const std::string cut = "[" + all_reduce(1, 100) + R"({"ph": "B", "name": "NEGOTIATE_ALLR)";
  CHECK(mentions(read(cut).report.repaired, "the text ends inside an event"));
  CHECK(refusal_of_strict(cut).find("ends inside an event") != std::string::npos);

  const std::string quotes =
      "[" + all_reduce(1, 100) + R"({"ph": "B", "name": "a "b" c", "ts": 1, "pid": 1},)" + all_reduce(2, 300);
  CHECK(mentions(read(quotes).report.repaired, "1 event dropped: their text is not JSON"));
  CHECK(read(quotes).collectives.size() == 2);
  CHECK_FALSE(refusal_of_strict(quotes).empty());

  const std::string backwards = "[" + all_reduce(1, 100) + begin(1, "ALLREDUCE", 90) + end(1, 80);
  CHECK(mentions(read(backwards).report.repaired, "1 slice dropped: they end before they begin"));
  CHECK_FALSE(refusal_of_strict(backwards).empty());

  const std::string ages = "[" + all_reduce(1, 100) + R"({"ph": "B", "name": "ALLREDUCE", "ts": -2e15, "pid": 1},)" +
                           R"({"ph": "E", "ts": 2e15, "pid": 1},)";
  CHECK(mentions(read(ages).report.repaired, "1 slice dropped: they last for months"));
  CHECK_FALSE(refusal_of_strict(ages).empty());

  const std::string timeless =
      "[" + all_reduce(1, 100) + R"({"ph": "B", "name": "ALLREDUCE", "ts": "soon", "pid": 1},)";
  CHECK(mentions(read(timeless).report.repaired, "1 event dropped: no readable time stamp"));
}

TEST_CASE("horovod: a file that is only its bracket says why") {
  for (const char* text : {"[", "[\n", " [ \n"})
    CHECK(refusal_of(text).find("when a job ends before its first collective") != std::string::npos);
  CHECK(refusal_of(R"([{"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros":1}},)")
            .find("metadata only") != std::string::npos);
}

TEST_CASE("horovod: cycles are marks without duration; bytes that are not UTF-8 are replaced") {
  const Trace trace = read("[" + std::string(R"({"ph": "i", "name": "CYCLE_START", "ts": 7, "s": "g"},)") +
                           tensor(1,
                                  "gr\xff"
                                  "d") +
                           all_reduce(1, 100));
  CHECK(trace.text(trace.events[0].name) == "CYCLE_START");
  CHECK(trace.events[0].duration_ns == 0);
  CHECK(mentions(trace.report.repaired, "1 byte replaced: not UTF-8"));
  CHECK(trace.text(trace.tracks[trace.events[1].track].label) == "gr?d");
}

TEST_CASE("bytescheduler: queueing and communication apart, open array, pairs by name") {
  const std::string text = R"([{"ph": "M", "args": {"name": "conv1_weight"}, "pid": 0, "name": "process_name"}, )" +
                           slice(0, "INITCOMMUNICATION", 10, 20) + slice(0, "PULLCOMMUNICATION", 15, 40) +
                           slice(0, "PUSH_PULLQUEUE", 100, 130) + slice(0, "PUSH_PULLCOMMUNICATION", 130, 180) +
                           slice(0, "PUSH_PULLQUEUE", 200, 230) + slice(0, "PUSH_PULLCOMMUNICATION", 230, 280);
  const Trace trace = read(text);
  CHECK(trace.report.format == "bytescheduler");
  CHECK(lines_of(trace) ==
        "host operator INITCOMMUNICATION 10000 10000 @0/0\n"
        "host operator PULLCOMMUNICATION 15000 25000 @0/0 pull\n"
        "annotation ProfilerStep#0 100000 100000 @-1/-1\n"
        "annotation PUSH_PULLQUEUE 100000 30000 @0/0\n"
        "host operator PUSH_PULLCOMMUNICATION 130000 50000 @0/0 push_pull\n"
        "annotation PUSH_PULLQUEUE 200000 30000 @0/0\n"
        "host operator PUSH_PULLCOMMUNICATION 230000 50000 @0/0 push_pull\n");
  CHECK(mentions(trace.report.assumed, "from one communication of conv1_weight to the next"));
  CHECK(mentions(trace.report.assumed, "left open"));
}

TEST_CASE("bytescheduler: over Horovod the communication is an all-reduce") {
  const std::string text = R"([{"ph": "M", "args": {"name": "conv1.weight"}, "pid": 0, "name": "process_name"}, )" +
                           slice(0, "ALLREDUCEQUEUE", 100, 130) + slice(0, "ALLREDUCECOMMUNICATION", 130, 180) +
                           slice(0, "ALLREDUCEQUEUE", 200, 230) + slice(0, "ALLREDUCECOMMUNICATION", 230, 280) + "]";
  const Trace trace = read(text);
  CHECK(trace.report.format == "bytescheduler");
  CHECK(lines_of(trace) ==
        "annotation ProfilerStep#0 100000 100000 @-1/-1\n"
        "annotation ALLREDUCEQUEUE 100000 30000 @0/0\n"
        "host operator ALLREDUCECOMMUNICATION 130000 50000 @0/0 allreduce\n"
        "annotation ALLREDUCEQUEUE 200000 30000 @0/0\n"
        "host operator ALLREDUCECOMMUNICATION 230000 50000 @0/0 allreduce\n");
}

TEST_CASE("byteps: the row of a tensor spans its partitions and is not counted with them") {
  const auto row = [](const std::string& tensor, const std::string& name, const std::string& tid, int ts, int dur) {
    return R"({"ph": "X", "args": {"name": ")" + tensor + R"("}, "pid": ")" + tensor + R"(", "name": ")" + name +
           R"(", "ts": )" + std::to_string(ts) + R"(, "dur": )" + std::to_string(dur) + R"(, "tid": ")" + tid + "\"}";
  };
  const std::string g = "Comm.byteps.gradient_0";
  const std::string text = R"({"traceEvents": [)" + row(g, g + ".PUSH", "26148865", 30, 10) + "," +
                           row(g, g, "total", 10, 60) + "," + row(g, g + ".COORDINATE_REDUCE", "26148864", 10, 4) +
                           "," + row(g, g + ".REDUCE", "26148864", 14, 6) + "," +
                           row(g, g + ".PUSH", "26148864", 20, 10) + "," + row(g, g + ".COPYH2D", "26148864", 30, 2) +
                           "," + row(g, g + ".SHUFFLE", "26148864", 32, 1) + R"(], "displayTimeUnit": "ms"})";
  const Trace trace = read(text);
  CHECK(trace.report.format == "byteps");
  CHECK(lines_of(trace) ==
        "annotation Comm.byteps.gradient_0 10000 60000 @0/-1\n"
        "annotation Comm.byteps.gradient_0.COORDINATE_REDUCE 10000 4000 @0/26148864\n"
        "host operator Comm.byteps.gradient_0.REDUCE 14000 6000 @0/26148864 reducescatter\n"
        "host operator Comm.byteps.gradient_0.PUSH 20000 10000 @0/26148864 push\n"
        "host operator Comm.byteps.gradient_0.PUSH 30000 10000 @0/26148865 push\n"
        "host operator Comm.byteps.gradient_0.COPYH2D 30000 2000 @0/26148864\n"
        "other Comm.byteps.gradient_0.SHUFFLE 32000 1000 @0/26148864\n");
  CHECK(trace.report.events_unclassified == 1);
  CHECK(mentions(trace.report.assumed, "1 rows \"total\" span queueing"));
  CHECK_FALSE(mentions(trace.report.missing, "PUSH and PULL"));
  SUBCASE("where another GPU pushes, that is said") {
    CHECK(mentions(read(R"({"traceEvents": [)" + row(g, g + ".REDUCE", "1", 14, 6) + "]}").report.missing,
                   "PUSH and PULL"));
  }
  SUBCASE("an unfinished file is damage here") {
    const std::string cut = text.substr(0, text.rfind(R"({"ph")") + 20);
    CHECK(mentions(read(cut).report.repaired, "truncated tail"));
    CHECK_FALSE(refusal_of_strict(cut).empty());
  }
}

TEST_CASE("mxnet: threads with ids of 64 bits stay apart, devices are told by name, the file may be unfinished") {
  // Both ids are the same number once they have been a double.
  const std::string first = "9223372036854775809", second = "9223372036854775811";
  const std::string text =
      mxnet_head + mxnet_mark('B', "Convolution", "1", first, 10) + mxnet_mark('B', "FullyConnected", "1", second, 11) +
      mxnet_mark('E', "Convolution", "1", first, 20) + mxnet_mark('E', "FullyConnected", "1", second, 31) +
      mxnet_mark('B', "KVStoreDistDefaultPush", "0", "7", 40) +
      mxnet_mark('E', "KVStoreDistDefaultPush", "0", "7", 45) +
      mxnet_mark('B', "_backward_Convolution", "1", first, 50);
  const Trace trace = read(text);
  CHECK(trace.report.format == "mxnet");
  REQUIRE(trace.events.size() == 3);
  CHECK(trace.events[0].kind == EventKind::kernel);
  CHECK(trace.events[0].duration_ns == 10'000);
  CHECK(trace.events[1].duration_ns == 20'000);
  CHECK(trace.events[0].track != trace.events[1].track);
  CHECK(trace.tracks[trace.events[0].track].process == 1);
  CHECK(static_cast<std::uint64_t>(trace.tracks[trace.events[0].track].thread) == 9223372036854775809u);
  CHECK(trace.events[2].kind == EventKind::host_op);
  REQUIRE(trace.events[2].collective != no_index);
  CHECK(trace.text(trace.collectives[trace.events[2].collective].name) == "push");
  CHECK(mentions(trace.report.assumed, "until the final dump"));
  CHECK(mentions(trace.report.missing, "the end of 1 slice"));
  CHECK(read_strictly(text).events.size() == 3);
  const Trace closed = read(text + R"( ], "displayTimeUnit": "ms" })");
  CHECK_FALSE(mentions(closed.report.assumed, "final dump"));
}

TEST_CASE("mxnet: processes may be named after their slices, and by a hash") {
  const Trace trace =
      read(R"({"traceEvents": [{"ph": "M", "args": {"name": "cpu/0"}, "pid": 0, "name": "process_name"})" +
           mxnet_mark('B', "sgd_update", "3", "5", 1) + mxnet_mark('E', "sgd_update", "3", "5", 2) +
           R"(, {"ph": "M", "args": {"name": "gpu/0"}, "pid": 3, "name": "process_name"})" +
           mxnet_mark('B', "MXNDArrayWaitAll", "17005318474953013843", "5", 3) +
           mxnet_mark('E', "MXNDArrayWaitAll", "17005318474953013843", "5", 4) + "]}");
  REQUIRE(trace.events.size() == 2);
  CHECK(trace.events[0].kind == EventKind::kernel);
  CHECK(trace.events[1].kind == EventKind::host_op);
}

TEST_CASE("composer: batches are steps") {
  const auto mark = [](char phase, const std::string& name, int ts) {
    return R"({"name": ")" + name + R"(", "cat": "", "ph": ")" + phase + R"(", "ts": )" + std::to_string(ts) +
           R"(, "pid": 0, "tid": 7309, "args": {"epoch": 0, "batch": 0}},)";
  };
  const Trace trace =
      read("[" + std::string(R"({"name": "global_rank", "ph": "M", "pid": 0, "tid": 7309, "args": {"value": 3}},)") +
           mark('B', "event/epoch", 0) + mark('i', "event/epoch", 0) + mark('B', "event/batch", 10) +
           mark('B', "event/forward", 11) + mark('E', "event/forward", 15) + mark('E', "event/batch", 30) +
           mark('B', "event/batch", 40) + mark('E', "event/batch", 55));
  CHECK(lines_of(trace) ==
        "annotation ProfilerStep#0 10000 20000 @-1/-1\n"
        "host operator event/forward 11000 4000 @0/7309\n"
        "annotation ProfilerStep#1 40000 15000 @-1/-1\n");
  CHECK(trace.rank == 3);
  CHECK(mentions(trace.report.missing, "the end of 1 slice"));
}

TEST_CASE("composer: the ranks of a merged trace are traces of their own") {
  const auto mark = [](char phase, const std::string& name, int rank, int ts) {
    return R"({"name": ")" + name + R"(", "cat": "", "ph": ")" + phase + R"(", "ts": )" + std::to_string(ts) +
           R"(, "pid": )" + std::to_string(rank) + R"(, "tid": 7, "args": {"epoch": 0, "batch": 0}},)";
  };
  std::string text = "[";
  for (const int rank : {4, 5})
    text += mark('B', "event/batch", rank, 10 * rank) + mark('B', "event/forward", rank, 10 * rank + 1) +
            mark('E', "event/forward", rank, 10 * rank + 3) + mark('E', "event/batch", rank, 100 + rank) +
            R"({"name": "aten::mm", "cat": "cpu_op", "ph": "X", "ts": 50, "dur": 5, "pid": 4, "tid": 8},)";
  const std::vector<Trace> traces = traces_in(text + "]");
  REQUIRE(traces.size() == 2);
  CHECK(traces[0].rank == 4);
  CHECK(lines_of(traces[0]) ==
        "annotation ProfilerStep#0 40000 64000 @-1/-1\n"
        "host operator event/forward 41000 2000 @4/7\n");
  CHECK(traces[1].rank == 5);
  CHECK(lines_of(traces[1]) ==
        "annotation ProfilerStep#0 50000 55000 @-1/-1\n"
        "host operator event/forward 51000 2000 @5/7\n");
  CHECK(mentions(traces[1].report.assumed, "2 events that another profiler has added"));
}

TEST_CASE("chrome events: damage is survived event by event, whatever the size of the pieces") {
  std::string text = "[";
  for (int i = 0; i < 20'000; ++i) {
    text += all_reduce(1 + i % 7, 100 * i);
    if (i % 1000 == 500) text += R"({"ph": "B", "name": "broken" here", "ts": 1, "pid": 1},)";
  }
  const Trace trace = read(text);
  CHECK(trace.collectives.size() == 20'000);
  CHECK(mentions(trace.report.repaired, "20 events dropped: their text is not JSON"));
}

TEST_CASE("chrome events: mostly unreadable text is refused, and progress ends at the end") {
  std::string text = R"([{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 1, "pid": 1},)";
  for (int i = 0; i < 10; ++i) text += R"({"ph": "B" "name": 1},)";
  CHECK(refusal_of(text).find("mostly readable events") != std::string::npos);

  std::string large = "[";
  for (int i = 0; i < 20'000; ++i) large += all_reduce(1, 100 * i);
  double last = 0;
  bool rising = true;
  const ReadOptions options{.strict = false, .progress = [&](double share) {
                              rising = rising && share >= last;
                              last = share;
                            }};
  (void)trace_of({"test.json", std::as_bytes(std::span(large))}, options);
  CHECK(rising);
  CHECK(last > 0.5);
}

TEST_CASE("chrome events: members are found by key, whatever stands around them") {
  const std::string_view object = R"({ "a" : "x\"}", "b": {"c": 1}, "c": 2, "d": [1, {"c": 3}], "c": "4" })";
  CHECK(member_of(object, "a") == R"("x\"}")");
  CHECK(content_of_member(object, "c") == "4");  // the last of two keys counts
  CHECK(integer_member(object, "c") == 4);
  CHECK(integer_member(object, "d") == -1);
  CHECK(member_of(object, "e").empty());
  CHECK(member_of("[1]", "e").empty());
  std::int64_t id = 0;
  CHECK(read_id("18446744073709551615", id));
  CHECK(id == -1);
  CHECK(read_id("\"-7\"", id));
  CHECK(id == -7);
  CHECK_FALSE(read_id("\"seven\"", id));
  CHECK_FALSE(read_id("", id));
}

TEST_CASE("timelines: the real files give what is known of them") {
  const auto folder = shared_folder("traces");
  if (!folder) return;
  const Trace small = trace_of(File(*folder / "awslabs__sagemaker-debugger/horovod_timeline_small.json.gz").source());
  CHECK(small.report.format == "horovod");
  CHECK(small.world_size == 8);
  REQUIRE(small.collectives.size() == 1);
  CHECK(small.collectives[0].in_elements == 2570);
  CHECK(named(small, "NEGOTIATE_ALLREDUCE") == 90);
  CHECK(named(small, "rank 7 is ready, the last") == 83);

  const Trace cpu =
      trace_of(File(*folder / "argonne-lcf__ALCF_Hands_on_HPC_Workshop/cpu__timeline_cpu_n1.json.gz").source());
  CHECK(cpu.collectives.size() == 25);
  CHECK(cpu.text(cpu.collectives[0].name) == "broadcast");
  const Trace gpu =
      trace_of(File(*folder / "argonne-lcf__ALCF_Hands_on_HPC_Workshop/timeline_gpu_n1.json.gz").source());
  CHECK(gpu.collectives.size() == 25);
  CHECK(named(gpu, "CYCLE_START") == 22784);
  CHECK(gpu.report.repaired.empty());

  const Trace scheduler = trace_of(File(*folder / "bytedance__byteps/timeline_no-priority.json.gz").source());
  CHECK(scheduler.report.format == "bytescheduler");
  CHECK(named(scheduler, "PUSH_PULLCOMMUNICATION") == 9899);  // one begins and does not end
  CHECK(steps_of(scheduler).size() == 59);
  const Trace worker = trace_of(File(*folder / "bytedance__byteps/timeline_worker.json.gz").source());
  CHECK(named(worker, "PUSH_PULLCOMMUNICATION") == 326);
  CHECK(steps_of(worker).size() == 1);

  for (const char* name : {"profiler_traces.json.gz", "rank_0.trace.json.gz"}) {
    const Trace trace = trace_of(File(*folder / "mosaicml__composer" / name).source());
    CHECK(trace.report.format == "composer");
    CHECK(steps_of(trace).size() == 6);
    CHECK(trace.rank == 0);
  }
}
