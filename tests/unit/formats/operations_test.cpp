// Operations and timestamps of pipelined jobs: rows to workers, steps of the job, damage, and the real files at hand.
#include <stepcast/base/error.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/formats/shared/operation_table.hpp>
#include <stepcast/trace/steps.hpp>

#include "helpers/shared_data.hpp"
#include "helpers/timelines.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace stepcast;
using namespace stepcast::test;

namespace {

const std::string header = "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n";

// Two stages of one replica, two steps; the second stage is longer at work in the second step.
const std::string table = header +
                          "0,0,0,7,forward-compute,0.0,0.1,0,0,0,0\n"
                          "0,0,0,7,forward-send,0.1,0.05,0,-1,-1,-1\n"
                          "0,0,0,7,gc,0.15,0,0,-1,-1,-1\n"
                          "0,1,4,7,forward-recv,0.1,0.05,0,-1,-1,-1\n"
                          "0,1,4,7,forward-compute,0.15,0.2,0,0,0,1\n"
                          "0,0,0,9,backward-compute,0.5,0.25,3,0,2,0\n"
                          "0,1,4,9,grads-reduce-scatter,0.25,1.25,0,0,-1,-1\n";

std::string event(const std::string& cat, int pid, int tid, const std::string& ts, const std::string& dur,
                  const std::string& step, int mb) {
  return R"({"name":")" + cat + R"(","cat":")" + cat + R"(","pid":)" + std::to_string(pid) + R"(,"tid":)" +
         std::to_string(tid) + R"(,"ts":)" + ts + R"(,"dur":)" + dur + R"(,"ph":"X","args":{"step":)" + step +
         R"(,"model_chunk":0,"mb_id":)" + std::to_string(mb) + R"(,"seq_id":0}})";
}
std::string thread(int pid, int tid, const std::string& name) {
  return R"({"name":"thread_name","pid":)" + std::to_string(pid) + R"(,"tid":)" + std::to_string(tid) +
         R"(,"ph":"M","args":{"name":")" + name + "\"}}";
}

double median_step(const Trace& trace) {
  std::vector<double> durations;
  for (const Step& step : steps_of(trace)) durations.push_back(double(step.end_ns - step.start_ns) * 1e-9);
  std::ranges::sort(durations);
  const std::size_t n = durations.size();
  return n == 0 ? 0 : (durations[(n - 1) / 2] + durations[n / 2]) / 2;
}

}  // namespace

TEST_CASE("operation csv: a trace for each worker, with the steps of the job") {
  const std::vector<Trace> traces = traces_in(table);
  REQUIRE(traces.size() == 2);
  CHECK(lines_of(traces[0]) ==
        "annotation ProfilerStep#7 0 350000000 @-1/-1\n"
        "kernel forward-compute 0 100000000 @0/0d step=7 mb=0 stage=0\n"
        "kernel forward-send 100000000 50000000 @0/1d send group=2 0->4 step=7 mb=-1 stage=0\n"
        "kernel gc 150000000 0 @0/0d step=7 mb=-1 stage=0\n"
        "annotation ProfilerStep#9 350000000 1250000000 @-1/-1\n"
        "kernel backward-compute 600000000 250000000 @0/0d step=9 mb=2 stage=0\n");
  CHECK(lines_of(traces[1]) ==
        "annotation ProfilerStep#7 0 350000000 @-1/-1\n"
        "kernel forward-recv 100000000 50000000 @0/1d recv group=2 0->4 step=7 mb=-1 stage=1\n"
        "kernel forward-compute 150000000 200000000 @0/0d step=7 mb=0 stage=1\n"
        "annotation ProfilerStep#9 350000000 1250000000 @-1/-1\n"
        "kernel grads-reduce-scatter 350000000 1250000000 @0/2d reducescatter group=1 step=9 mb=-1 stage=1\n");
  CHECK(traces[1].rank == 4);
  CHECK(traces[1].operations.size() == 3);
  CHECK(mentions(traces[0].report.assumed, "count from the start of each step"));
  CHECK(error_of([&] { (void)profile_of(traces[0]); }).find("which stage of a pipeline sets the pace") !=
        std::string::npos);
}

TEST_CASE("operation csv: times on one clock stay as they are, to the nanosecond") {
  const std::vector<Trace> traces = traces_in(
      header +
      "0,0,0,1,forward-compute,1730000000.000000001,2.5e-1,0,0,0,0\n0,0,0,2,forward-compute,1730000001,1,0,0,0,0\n");
  REQUIRE(traces.size() == 1);
  CHECK(traces[0].events[1].start_ns == 1730000000000000001);
  CHECK(traces[0].events[1].duration_ns == 250'000'000);
  CHECK_FALSE(mentions(traces[0].report.assumed, "count from the start of each step"));
}

TEST_CASE("operation csv: columns in any order, nulls, quotes, carriage returns, no newline at the end") {
  const std::vector<Trace> traces = traces_in(
      "step, optype, duration, start_ts, stage, "
      "dp_rank\r\n1,\"forward-compute\",0.5,0,1,0\r\n1,optimizer,0.25,0.5,0,\r\n"
      "1,backward-compute,0.5,0,1,0");
  REQUIRE(traces.size() == 2);
  CHECK(named(traces[0], "forward-compute") == 1);
  CHECK(named(traces[0], "backward-compute") == 1);
  CHECK(traces[1].operations[0].data_rank == -1);
  CHECK(mentions(traces[0].report.missing, "column mb_id"));
}

TEST_CASE("operation csv: damage is counted, and refused when strict") {
  const std::string damaged = table + "0,0,0,9,forward-compute,soon,1,0,0,0,0\n0,0,0,9,forward-comp";
  const std::vector<Trace> traces = traces_in(damaged);
  CHECK(mentions(traces[0].report.repaired, "2 rows dropped"));
  CHECK(traces[0].operations.size() == 4);
  CHECK(refusal_of_strict(damaged).find("2 rows dropped") != std::string::npos);
  CHECK(refusal_of(header).find("without a readable row") != std::string::npos);
  CHECK(refusal_of("optype,start_ts,duration,step\nforward-compute,0,1,1\n").find("\"rank\"") != std::string::npos);
  CHECK(refusal_of(header + "0,0,0,7,f,0,1,0,0,0,0\n0,0,0,7,f,0,-1,0,0,0,0\n").empty());
  for (const char* last : {"0,2147483647,0,7,forward-send,0,1,0,0,0,0\n", "2147483647,0,0,7,f,0,1,0,0,0,0\n"})
    CHECK(mentions(traces_in(table + last)[0].report.repaired, "1 row dropped"));
  std::string many = header;
  for (int i = 0; i < 300; ++i) many += "0,0,0,7,type" + std::to_string(i) + ",0,1,0,0,0,0\n";
  CHECK(refusal_of(many).find("256 types") != std::string::npos);
  std::string centuries = header;
  for (int i = 0; i < 3; ++i)
    centuries += "0,0,0," + std::to_string(i) + ",f,-2000000000,1,0,0,0,0\n0,0,0," + std::to_string(i) +
                 ",f,2000000000,1,0,0,0,0\n";
  CHECK(refusal_of(centuries).find("centuries") != std::string::npos);
}

TEST_CASE("operation csv: rows of which each is a worker and a step of its own are no job") {
  std::string rows = header;
  for (int i = 0; i < 5000; ++i) {
    const std::string n = std::to_string(i);
    rows.append("0,0,").append(n).append(",").append(n).append(",forward-compute,0.0,0.1,0,0,0,0\n");
  }
  CHECK(refusal_of(rows).find("5000 workers and 5000 steps") != std::string::npos);
}

TEST_CASE("operations: what a type is") {
  CHECK(role_of_operation("forward-send").peer_stage == 1);
  CHECK(role_of_operation("forward-recv").peer_stage == -1);
  CHECK(role_of_operation("backward-send").peer_stage == -1);
  CHECK(role_of_operation("backward-recv").peer_stage == 1);
  CHECK(role_of_operation("params-all-gather").operation == "allgather");
  CHECK(role_of_operation("embedding-grads-all-reduce").group == "embedding");
  CHECK(role_of_operation("layernorm-grads-all-reduce").group == "tensor");
  CHECK_FALSE(role_of_operation("optimizer-clip-main-grad").communication);
  CHECK_FALSE(role_of_operation("lunch").known);
  const std::vector<Trace> traces = traces_in(header + "0,0,0,7,lunch,0,1,0,0,0,0\n");
  CHECK(traces[0].report.events_unclassified == 1);
  CHECK(traces[0].report.unclassified_ns == 1'000'000'000);
}

TEST_CASE("operations: exchanges have one peer, tensor ranks their own group") {
  CHECK(role_of_operation("forward-send-backward-recv").peer_stage == 1);
  CHECK(role_of_operation("backward-send-forward-recv").peer_stage == -1);
  CHECK(role_of_operation("send-forward-recv-backward").peer_stage == 1);
  CHECK(role_of_operation("send-backward-recv-forward").peer_stage == -1);
  CHECK(role_of_operation("recv-backward").peer_stage == 1);
  CHECK(role_of_operation("tp-reducescatter").operation == "reducescatter");
  CHECK(role_of_operation("tp-allgather").group == "tensor");
  CHECK(role_of_operation("tp-allreduce").group == "tensor");
}

TEST_CASE("operations: one worker stands for its tensor-parallel group") {
  const std::string rows =
      "dp_rank,stage,tp_rank,step,optype,start_ts,duration\n0,0,0,1,forward-compute,0,1\n"
      "0,0,1,1,forward-compute,0,1\n0,0,1,1,forward-compute,1,1\n";
  const std::string events = event("forward-compute", 0, 0, "1", "2", "16", 0) + "," +
                             event("forward-compute", 0, 1, "1", "2", "16", 0) + "," +
                             event("forward-compute", 0, 1, "3", "2", "16", 1);
  const std::string timeline = "[" + events + "," + thread(0, 0, "PP rank 0, TP rank 0, compute") + "," +
                               thread(0, 1, "PP rank 0, TP rank 1, compute") + "]";
  for (const std::string& text : {rows, timeline}) {
    const std::vector<Trace> traces = traces_in(text);
    REQUIRE(traces.size() == 1);
    CHECK(traces[0].operations.size() == 1);
    CHECK(traces[0].report.events_left_out == 2);
    CHECK(mentions(traces[0].report.assumed, "the first tensor-parallel rank of each stage stands for all"));
  }
  // A stage of which the file lacks the first one is not lost.
  CHECK(traces_in(rows + "0,1,1,1,forward-compute,0,1\n").size() == 2);
}

TEST_CASE("operation csv: milliseconds are not taken for seconds") {
  const std::string message = refusal_of(header + "0,0,0,1,forward-compute,0,854,0,0,0,0\n");
  CHECK(message.find("start_ts and duration in seconds, found operations of 854.0 s") != std::string::npos);
  CHECK(refusal_of(header + "0,0,0,1,forward-compute,1e18,1,0,0,0,0\n").find("1 row with") != std::string::npos);
}

TEST_CASE("operation csv: other separators") {
  std::string text = header + "0,1,3,7,forward-compute,0,1,0,0,0,0\n";
  std::ranges::replace(text, ',', ';');
  REQUIRE(traces_in(text).size() == 1);
  CHECK(traces_in(text)[0].operations[0].stage == 1);
}

TEST_CASE("operation timeline: stages and replicas by the names of threads that come last") {
  const std::string events = event("forward-compute", 0, 0, "1000.5", "200", "16", 0) + "," +
                             event("forward-send", 0, 1, "1200.5", "10", "16", -1) + "," +
                             event("forward-compute", 0, 10, "1210.5", "300.25", "16", 0) + "," +
                             event("forward-compute", 1, 5, "1000", "100", "16", 0);
  const std::string names =
      thread(0, 0, "PP rank 0, TP rank 0, compute") + "," + thread(0, 1, "PP rank 0, TP rank 0, pp-comm") + "," +
      thread(0, 10, "PP rank 1, TP rank 0, compute") + "," + thread(1, 5, "PP rank 0, TP rank 0, compute");
  const std::vector<Trace> traces = traces_in("[" + events + "," + names + "]");
  REQUIRE(traces.size() == 3);
  CHECK(lines_of(traces[0]) ==
        "annotation ProfilerStep#16 1000000 510750 @-1/-1\n"
        "kernel forward-compute 1000500 200000 @0/0d step=16 mb=0 stage=0\n"
        "kernel forward-send 1200500 10000 @0/1d send group=2 0->2 step=16 mb=-1 stage=0\n");
  CHECK(traces[1].rank == 1);
  CHECK(traces[1].operations[0].data_rank == 1);
  CHECK(traces[2].operations[0].stage == 1);
  SUBCASE("names that are missing are said, and refused when strict") {
    const std::vector<Trace> nameless = traces_in("[" + events + "]");
    CHECK(nameless.size() == 2);  // a process each
    CHECK(mentions(nameless[0].report.repaired, "threads without a name"));
    CHECK(refusal_of_strict("[" + events + "]").find("threads without a name") != std::string::npos);
  }
  SUBCASE("a cut file keeps what came before") {
    const std::string cut = "[" + events + "," + R"({"name":"forward-comp)";
    CHECK(mentions(traces_in(cut)[0].report.repaired, "the text ends inside an event"));
  }
  SUBCASE("events without a step are dropped") {
    const std::vector<Trace> some = traces_in("[" + events + "," + event("gc", 0, 0, "1", "1", "null", -1) + "]");
    CHECK(mentions(some[0].report.repaired, "1 event dropped: no step"));
  }
}

TEST_CASE("pipeline timestamps: passes of a stage, steps from the totals") {
  const std::string text =
      R"({"2": {"total": 10.5, "memory": 3.5, "fwd_start": [0.5, 3], "fwd_end": [2.5, 4], "bwd_start": [5], "bwd_end": [9]},)"
      R"( "1": {"total": 20, "fwd_start": [1], "fwd_end": [2.25], "bwd_start": [3], "bwd_end": [4]}})";
  const std::vector<Trace> traces = traces_in(text, "runs/pp_rank_3.json");
  REQUIRE(traces.size() == 1);
  CHECK(lines_of(traces[0]) ==
        "annotation ProfilerStep#1 0 20000000 @-1/-1\n"
        "kernel forward-compute 1000000 1250000 @0/0d step=1 mb=0 stage=3\n"
        "kernel backward-compute 3000000 1000000 @0/0d step=1 mb=0 stage=3\n"
        "annotation ProfilerStep#2 20000000 10500000 @-1/-1\n"
        "kernel forward-compute 20500000 2000000 @0/0d step=2 mb=0 stage=3\n"
        "kernel forward-compute 23000000 1000000 @0/0d step=2 mb=1 stage=3\n"
        "kernel backward-compute 25000000 4000000 @0/0d step=2 mb=0 stage=3\n");
  CHECK(traces[0].rank == 3);
  CHECK(traces_in(text)[0].rank == -1);
  CHECK(mentions(traces_in(text)[0].report.missing, "the file's name says none"));
}

TEST_CASE("pipeline timestamps: lists say which micro-batch and which chunk") {
  const std::vector<Trace> traces = traces_in(
      R"({"1": {"total": 20, "fwd_start": [1, 2], "fwd_end": [2, 4], "fwd_minibatch": [0, 0], "fwd_chunk": [0, 1],)"
      R"( "bwd_start": [2, 5], "bwd_end": [4, 6], "bwd_minibatch": [1, 0], "bwd_chunk": [1],)"
      R"( "wgrad_start": [], "wgrad_end": [], "wgrad_minibatch": [], "wgrad_chunk": []}})",
      "pp_rank_0.json");
  const std::vector<OperationArguments>& o = traces.at(0).operations;
  REQUIRE(o.size() == 4);
  CHECK(o[0].micro_batch == 0);
  CHECK(o[0].chunk == 0);
  CHECK(std::ranges::count_if(o, [](const auto& a) { return a.micro_batch == 0 && a.chunk == 1; }) == 1);
  CHECK(std::ranges::count_if(o, [](const auto& a) { return a.micro_batch == 1 && a.chunk == -1; }) == 1);
  CHECK_FALSE(mentions(traces[0].report.assumed, "in order of micro-batches"));
  CHECK(mentions(traces[0].report.assumed, "1 forward and backward passes were run as one"));
  const std::string simulated =
      R"({"0": {"total": 2, "fwd_start": [0], "fwd_end": [2], "activation_memory_usage": [0.5]}})";
  CHECK(mentions(traces_in(simulated).at(0).report.assumed, "simulator"));
}

TEST_CASE("pipeline timestamps: damage") {
  const std::string first =
      R"({"1": {"total": 20, "fwd_start": [1, 2], "fwd_end": [2], "bwd_start": [9], "bwd_end": [4]}, )";
  const std::string cut = first + R"("2": {"total": 5, "fwd_st)";
  const Trace trace = traces_in(cut)[0];
  CHECK(trace.operations.size() == 1);
  CHECK(mentions(trace.report.repaired, "the text ends inside iteration"));
  CHECK(mentions(trace.report.repaired, "2 passes dropped"));
  CHECK_FALSE(refusal_of_strict(cut).empty());
  CHECK(mentions(traces_in(first + R"("x": {"total": 5}, "2": 7})")[0].report.repaired, "iteration x dropped"));
  CHECK(refusal_of(R"({"1": {"fwd_start": [], "fwd_end": [], "bwd_start": []}})").find("none that is complete") !=
        std::string::npos);
  CHECK(refusal_of(R"({"1": {"total": 1, "fwd_start": [], "fwd_end": []}})").find("found none") != std::string::npos);
}

TEST_CASE("operations: the real jobs last as long as they were measured") {
  const auto folder = shared_folder("traces");
  if (!folder) return;
  const auto traces_of_file = [&](const std::string& name) { return reading_of(File(*folder / name).source()).traces; };
  for (const std::string kind : {"timeline-AR.json.gz", "trace-AR.csv.gz"}) {
    CAPTURE(kind);
    const std::vector<Trace> traces = traces_of_file("ByteDance-Seed__StragglerAnalysis/" + kind);
    CHECK(traces.size() == 16);
    std::size_t operations = 0;
    for (const Trace& trace : traces) {
      operations += trace.operations.size();
      CHECK(steps_of(trace).size() == 44);
      CHECK(median_step(trace) == doctest::Approx(46.67).epsilon(0.0002));
    }
    CHECK(operations == 117216);
  }
  for (const std::string kind : {"timeline-ST.json.gz", "trace-ST.csv.gz"}) {
    CAPTURE(kind);
    const std::vector<Trace> traces = traces_of_file("ByteDance-Seed__StragglerAnalysis/" + kind);
    CHECK(traces.size() == 8);
    std::size_t operations = 0;
    for (const Trace& trace : traces) {
      operations += trace.operations.size();
      CHECK(steps_of(trace).size() == 32);
      CHECK(median_step(trace) == doctest::Approx(2.213).epsilon(0.0003));
    }
    CHECK(operations == 6784);
  }
  for (int stage = 0; stage < 8; ++stage) {
    const std::vector<Trace> traces =
        traces_of_file("AMD-AGI__Primus/gpu8_layer64_gbs16__pp8__pp_rank_" + std::to_string(stage) + ".json.gz");
    REQUIRE(traces.size() == 1);
    CHECK(traces[0].rank == stage);
    CHECK(traces[0].operations.size() == 20 * 2 * 16);
    CHECK(steps_of(traces[0]).size() == 20);
    if (stage == 0) CHECK(median_step(traces[0]) == doctest::Approx(3.249).epsilon(0.001));
  }
}
