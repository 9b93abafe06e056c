// Explanation: the verdict follows from the split and its doubt, on traces written by hand and on shipped ones.
#include <stepcast/base/error.hpp>
#include <stepcast/baseline/explanation.hpp>
#include <stepcast/documents/documents.hpp>
#include <stepcast/documents/reading.hpp>

#include "helpers/hand_trace.hpp"
#include "helpers/ranks_run.hpp"
#include "helpers/shared_data.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

namespace stepcast {
namespace {

Explanation explained(std::vector<Trace> traces) {
  Documents documents;
  documents.traces = std::move(traces);
  return explanation_of(documents);
}

/// Steps of 1000 us: so long waits for input, so long a collective, and the rest a product.
Trace with(double input, double communication, int steps = 6) {
  Trace trace = test::repeated(
      1000, 1000,
      [&](test::HandTrace& hand) {
        if (input > 0) hand.annotation(0, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, input);
        hand.op(0, "aten::mm", input, input + 10);
        hand.kernel(0, input, input + 1, 7, "ampere_sgemm_128x64_nn", input + 1, 1000 - communication);
        if (communication > 0)
          hand.kernel(0, input + 2, input + 3, 20, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1000 - communication,
                      999.5);
        hand.call(0, "cudaDeviceSynchronize", input + 12, 999.6);
      },
      steps);
  trace.report.format = "kineto";
  return trace;
}

/// Both ranks of a shipped job.
std::vector<Trace> shipped_ranks(const std::string& job) {
  std::vector<Trace> ranks;
  for (const char* rank : {"-rank0", "-rank1"}) {
    const auto folder = std::filesystem::path(STEPCAST_SOURCE_DIR) / "profiles" / "examples";
    const test::File file(folder / (job + rank + ".pt.trace.json.gz"));
    ranks.push_back(trace_of(file.source()));
  }
  return ranks;
}

bool recommends_recording(const Explanation& e, std::string_view what) {
  return std::ranges::any_of(e.record, [&](const std::string& r) { return r.find(what) != r.npos; });
}

TEST_CASE("explanation: what computes all the time is left alone") {
  const Explanation e = explained({with(0, 0)});
  CHECK(e.verdict == Verdict::leave);
  CHECK(e.now.empty());
  CHECK(e.next.empty());
}

TEST_CASE("explanation: waiting for input is changed, once it is worth something and enough steps say so") {
  const Explanation e = explained({with(200, 0)});
  CHECK(e.verdict == Verdict::change);
  REQUIRE(e.now.size() == 1);
  CHECK(e.now[0].what == "input");
  CHECK(e.now[0].most == doctest::Approx(0.2).epsilon(0.01));
  CHECK(explained({with(10, 0)}).verdict == Verdict::leave);
  const Explanation one = explained({with(200, 0, 1)});
  CHECK(one.verdict == Verdict::cannot_tell);
  CHECK(recommends_recording(one, "profiler.step()"));
}

TEST_CASE("explanation: driver calls that free memory in every step are named, and are no matter of launches") {
  const auto with_calls = [](const char* call, double until) {
    Trace trace = test::repeated(
        1000, 1000,
        [&](test::HandTrace& hand) {
          hand.op(0, "aten::mm", 0, 10);
          hand.kernel(0, 0, 1, 7, "ampere_sgemm_128x64_nn", 1, 300);
          hand.call(0, call, 320, until);
          hand.call(0, "cudaDeviceSynchronize", until + 1, 999.6);
        },
        6);
    trace.report.format = "kineto";
    return trace;
  };
  const Explanation e = explained({with_calls("hipFree", 900)});
  CHECK(e.verdict == Verdict::change);
  REQUIRE_FALSE(e.now.empty());
  CHECK(e.now[0].what == "allocator");
  CHECK(e.now[0].most == doctest::Approx(0.58).epsilon(0.02));
  CHECK(e.now[0].why.find("hipFree (6 calls)") != std::string::npos);
  for (const Explanation& none :
       {explained({with_calls("hipFree", 330)}), explained({with_calls("cudaMallocAsync", 900)})})
    for (const std::vector<Lever>* levers : {&none.now, &none.next, &none.not_now})
      CHECK(std::ranges::none_of(*levers, [](const Lever& l) { return l.what == "allocator"; }));
}

/// Steps of 1000 us: a product, then a copy of that name for 200 us, issued by what is called `by`.
Trace with_copy(const char* name, const char* by) {
  Trace trace = test::repeated(
      1000, 1000,
      [&](test::HandTrace& hand) {
        hand.op(0, "aten::mm", 0, 10);
        hand.kernel(0, 0, 1, 7, "ampere_sgemm_128x64_nn", 1, 800);
        hand.annotation(0, by, 12, 20);
        hand.copy(0, 13, 14, 7, name, 800, 999.5);
        hand.call(0, "cudaDeviceSynchronize", 22, 999.6);
      },
      6);
  trace.report.format = "kineto";
  return trace;
}

TEST_CASE("explanation: loaders are the matter of copies from the host only") {
  const auto first = [](const char* name, const char* by) {
    const Explanation e = explained({with_copy(name, by)});
    CHECK(e.verdict == Verdict::cannot_tell);
    REQUIRE(!e.next.empty());
    CHECK(e.next.front().most == doctest::Approx(0.2).epsilon(0.01));
    return e.next.front();
  };
  const Lever from_host = first("Memcpy HtoD (Pageable -> Device)", "step");
  CHECK(from_host.what == "copies");
  CHECK(from_host.action.find("pin_memory=True") != std::string::npos);
  const Lever to_host = first("Memcpy DtoH (Device -> Pageable)", "step");
  CHECK(to_host.what == "copies to the host");
  CHECK(to_host.action.find(".item()") != std::string::npos);
  const Lever on_device = first("Memcpy DtoD (Device -> Device)", "step");
  CHECK(on_device.what == "copies on the device");
  CHECK(on_device.action.find(".contiguous()") != std::string::npos);
  const Lever sharding = first("Memcpy DtoD (Device -> Device)", "FSDP::post_backward_reduce");
  CHECK(sharding.what == "copies on the device");
  CHECK(sharding.action.find("without fully_shard") != std::string::npos);
  CHECK(sharding.why.find("FSDP's, which copies where it would send") != std::string::npos);
  CHECK(first("Memcpy", "step").what == "copies of unknown kind");
}

TEST_CASE("explanation: what the profiler may have made of the host's work is not to be won") {
  const auto folder = std::filesystem::path(STEPCAST_SOURCE_DIR) / "profiles" / "examples";
  const test::File file(folder / "bert-h100-1-worker.pt.trace.json.gz");
  Trace trace = trace_of(file.source());
  const Explanation waits = explained({trace});
  REQUIRE(waits.now.size() == 1);
  CHECK(waits.now.front().what == "host");
  CHECK(*waits.now.front().gain == doctest::Approx(0.83).epsilon(0.02));
  CHECK(waits.now.front().why.find("where half of the host's work is the profiler's") != std::string::npos);
  CHECK(recommends_recording(waits, "--step TIME"));
  // Kernels that fill three quarters of the gaps behind them: half of the host's work is hidden behind them.
  Event* before = nullptr;
  for (Event& e : trace.events) {
    if (!is_device_work(e.kind)) continue;
    if (before != nullptr && before->end_ns() < e.start_ns)
      before->duration_ns += (e.start_ns - before->end_ns()) * 3 / 4;
    before = &e;
  }
  const Explanation busy = explained({trace});
  CHECK(busy.verdict == Verdict::cannot_tell);
  REQUIRE(!busy.next.empty());
  CHECK(busy.next.front().what == "host");
  CHECK(busy.next.front().most > 0.1);
  CHECK(!busy.next.front().gain);
}

TEST_CASE("explanation: exposed communication without a plan to compare cannot be told, and says what would tell") {
  Trace trace = with(0, 200);
  trace.rank = 0, trace.world_size = 4;
  const Explanation e = explained({trace});
  CHECK(e.workers == 4);
  CHECK(e.verdict == Verdict::cannot_tell);
  REQUIRE_FALSE(e.next.empty());
  CHECK(e.next[0].what == "communication");
  CHECK(e.next[0].most <= doctest::Approx(0.2).epsilon(0.01));
  CHECK(recommends_recording(e, "record_shapes=True"));
  CHECK(recommends_recording(e, "all 4 ranks"));
}

TEST_CASE("explanation: the rank that the others wait for comes first, and its lateness is no matter of launches") {
  const Explanation e = explained(test::traces_of({.steps = 6, .late_rank = 2, .late_us = 5000}));
  CHECK(e.shown == 2);
  CHECK(e.verdict == Verdict::change);
  REQUIRE_FALSE(e.now.empty());
  CHECK(e.now[0].what == "late ranks");
  CHECK(e.answer.find("rank 2 is late") != std::string::npos);
}

TEST_CASE("explanation: a headline names a far larger part of which nothing can be told") {
  const Explanation e = explained({with(100, 600)});
  REQUIRE(e.now.size() == 1);
  CHECK(e.now.front().what == "input");
  CHECK(e.answer.find("The larger part is communication, up to ") != std::string::npos);
  const Explanation small = explained({with(300, 100)});
  CHECK(small.answer.find("The larger part") == std::string::npos);
}

TEST_CASE("explanation: stages of a pipeline wait for one another, and none of them is late") {
  const Explanation e = explained(shipped_ranks("gpt-cpu-1f1b"));
  CHECK(e.now.empty());
  REQUIRE_FALSE(e.next.empty());
  CHECK(e.next[0].what == "pipeline");
  CHECK(e.next[0].action.find("micro-batches") != std::string::npos);
  CHECK(e.check.lateness.find("no rank is late") != std::string::npos);
}

TEST_CASE("explanation: of the shipped traces with the plan that ran") {
  const Explanation e = explained(shipped_ranks("gpt-cpu-ddp"));
  CHECK(e.plan.starts_with("ddp"));
  CHECK(e.workers == 2);
  REQUIRE(e.without_communication);
  CHECK(*e.without_communication < e.split().step);
  REQUIRE_FALSE(e.split().communication.empty());
  CHECK(e.split().communication[0].role == CollectiveRole::gradient_bucket);
}

TEST_CASE("explanation: a profile has no events") {
  Documents documents;
  documents.profile.emplace();
  CHECK_THROWS_AS((void)explanation_of(documents), InputError);
}

TEST_CASE("explanation: a large part is not left alone because the steps vary, and other runs give no verdict") {
  std::vector<Trace> traces{with(0, 0)};
  int n = 0;
  for (Event& e : traces[0].events)  // every other step waits for half as long again
    if (e.kind == EventKind::kernel && ++n % 2 == 0) e.duration_ns /= 3;
  const Explanation varied = explained(traces);
  for (const Lever& lever : varied.not_now) CHECK(lever.most <= 0.10);

  const auto example = [](const char* name) {
    return std::filesystem::path(STEPCAST_SOURCE_DIR) / "profiles/examples" / (std::string(name) + ".pt.trace.json.gz");
  };
  const test::File ddp(example("gpt-cpu-ddp-rank0")), other(example("gpt-cpu-fsdp2-rank0")),
      alone(example("gpt-cpu-1-worker")), another(example("transformer-cpu-1-worker"));
  const Explanation mixed = explained({trace_of(ddp.source()), trace_of(other.source())});
  CHECK(mixed.verdict == Verdict::cannot_tell);
  CHECK(mixed.answer.find("ranks of one run?") != std::string::npos);
  CHECK(mixed.now.empty());
  CHECK_THROWS_AS((void)explained({trace_of(alone.source()), trace_of(another.source())}), InputError);
}

TEST_CASE("public traces: the buffers of a job that its host holds up are worth a change, once more steps say so") {
  const auto folder = test::shared_folder("traces");
  if (!folder) return;
  const test::File file(*folder / "facebookresearch__HolisticTraceAnalysis/nccl_parser_config__nccl_data.json.gz");
  const Explanation e = explained({trace_of(file.source())});
  const auto buffers = std::ranges::find(e.next, "buffers", &Lever::what);
  REQUIRE(buffers != e.next.end());
  CHECK(*buffers->gain == doctest::Approx(0.17).epsilon(0.1));
  CHECK(buffers->action.find("broadcast_buffers=False") != std::string::npos);
}

}  // namespace
}  // namespace stepcast
