// Edits of a replayed step's tasks: by hand on a step of two kernels, their text, and what is refused.
#include "helpers/hand_trace.hpp"

#include <stepcast/base/error.hpp>
#include <stepcast/replay/edits/task_edits.hpp>
#include <stepcast/replay/replay.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace stepcast;
using namespace stepcast::test;
using doctest::Approx;

namespace {

/// 100 us a step: the host launches gemm (50 us) and relu (30 us), waits for both, and works 8 us more.
Trace two_kernels() {
  return repeated(100, 100, [](HandTrace& t) {
    t.op(0, "aten::linear", 2, 4);
    t.kernel(0, 2, 4, 7, "gemm<float, 128>", 10, 60);
    t.op(0, "aten::relu", 5, 7);
    t.kernel(0, 5, 7, 7, "relu", 60, 90);
    t.call(0, "cudaDeviceSynchronize", 8, 92);
    t.op(0, "aten::item", 92, 100);
  });
}

double edited_us(const std::string& text, const Trace& trace = two_kernels()) {
  const Answer<EditedReplay> after = replay_after(trace, task_edits_of(text));
  REQUIRE_MESSAGE(after, (after ? "" : after.reason()));
  return after->edited.value() * 1e6;
}

std::string refusal(const std::string& text, const Trace& trace = two_kernels()) {
  const Answer<EditedReplay> after = replay_after(trace, task_edits_of(text));
  return after ? "accepted" : after.reason();
}

}  // namespace

TEST_CASE("task edits: a step of two kernels after each primitive, by hand") {
  const Trace trace = two_kernels();
  const double whole = replay_of(trace)->replayed.value() * 1e6;
  CHECK(whole == Approx(100));
  CHECK(edited_us("scale(name=*gemm*, by=1)") == Approx(whole));
  CHECK(edited_us("scale(name=*gemm*, by=0.5)") == Approx(whole - 25));
  CHECK(edited_us("scale(kind=device, by=2)") == Approx(whole + 80));
  CHECK(edited_us("remove(name=relu, kind=device)") == Approx(whole - 30));
  CHECK(edited_us("insert(name=gemm*, takes=10 us)") == Approx(whole + 10));
  CHECK(edited_us("scale(name=*gemm*, by=0.5)+remove(name=relu, kind=device)") == Approx(whole - 55));
  CHECK(edited_us("insert(name=relu, kind=device, takes=10 us)+scale(name=gemm*, by=0.8)") == Approx(whole));
  // What the host does while it waits for the device costs nothing; behind the wait it does.
  CHECK(edited_us("scale(name=aten::item, by=0.5)") == Approx(whole - 4));
  CHECK(edited_us("scale(row=stream 7, by=0.5)") == Approx(whole - 40));
}

TEST_CASE("task edits: what was selected is counted, and its work before and after") {
  const Answer<EditedReplay> after = replay_after(
      two_kernels(),
      task_edits_of("scale(name=gemm*|relu, kind=device, by=0.5)+insert(name=relu, kind=device, takes=3 us)"));
  REQUIRE(after);
  CHECK(after->recorded.value() * 1e6 == Approx(100));
  REQUIRE(after->edits.size() == 2);
  CHECK(after->edits[0].tasks == 2);
  CHECK(after->edits[0].work_before.value() * 1e6 == Approx(80));
  CHECK(after->edits[0].work_after.value() * 1e6 == Approx(40));
  CHECK(after->edits[1].tasks == 1);
  CHECK(after->edits[1].work_before.value() * 1e6 == Approx(15));
  CHECK(after->edits[1].work_after.value() * 1e6 == Approx(18));
}

TEST_CASE("task edits: a faster network shortens what is sent, and not the waiting for others") {
  constexpr std::string_view all_reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
  Trace trace = repeated(100, 100, [&](HandTrace& t) {
    t.op(0, "aten::linear", 2, 4);
    t.kernel(0, 2, 4, 7, "gemm<float, 128>", 10, 60);
    t.op(0, "c10d::allreduce_", 5, 7);
    t.kernel(0, 5, 7, 7, all_reduce, 60, 90);
    t.call(0, "cudaDeviceSynchronize", 8, 92);
    t.op(0, "aten::item", 92, 100);
  });
  CHECK(edited_us("network(by=1)", trace) == Approx(100));
  CHECK(edited_us("network(by=2)", trace) == Approx(85));
  CHECK(edited_us("network(by=0.5)", trace) == Approx(130));
  CHECK(edited_us("network(by=2)+scale(name=gemm*, by=0.5)", trace) == Approx(60));
  const Answer<EditedReplay> after = replay_after(trace, task_edits_of("network(by=3)"));
  REQUIRE(after);
  CHECK(after->edits[0].tasks == 1);
  CHECK(after->edits[0].work_before.value() * 1e6 == Approx(30));
  CHECK(after->edits[0].work_after.value() * 1e6 == Approx(10));
  // In its first step it took 10 us less: so long others were late in all the rest.
  const auto first =
      std::ranges::find_if(trace.events, [&](const Event& e) { return trace.text(e.name) == all_reduce; });
  first->duration_ns -= 10'000;
  CHECK(edited_us("network(by=2)", trace) == Approx(90));
  CHECK(refusal("network(by=2)").find("no collective") != std::string::npos);
}

TEST_CASE("task edits: the timeline has the recorded step beside the edited one") {
  const Trace trace = two_kernels();  // whose names the slices refer to
  const Answer<ReplayTimeline> timeline = replay_timeline_after(
      trace, task_edits_of("scale(name=gemm*, by=0.5)+insert(name=relu, kind=device, takes=3 us)"));
  REQUIRE(timeline);
  const auto longest = [](const std::vector<ReplaySlice>& slices, std::string_view name) {
    Picoseconds most = 0;
    for (const ReplaySlice& s : slices)
      if (s.name == name) most = std::max(most, s.duration);
    return static_cast<double>(most) * 1e-6;
  };
  CHECK(longest(timeline->measured, "gemm<float, 128>") == Approx(50));
  CHECK(longest(timeline->rebuilt, "gemm<float, 128>") == Approx(25));
  CHECK(longest(timeline->measured, "inserted") == 0);
  CHECK(longest(timeline->rebuilt, "inserted") == Approx(3));
  CHECK(timeline->period.value() * 1e6 == Approx(78));
}

TEST_CASE("task edits: written and read again they are the same") {
  for (const std::string text :
       {"scale(name=*gemm*|*conv*, by=0.5)", "remove(kind=device, phase=after)", "insert(layer=3, takes=50 us)",
        "network(by=2)",
        "scale(name=\"void gemm(float, int)*\", row=stream 7, kind=transfer, phase=backward, layer=0..3, by=2)"}) {
    const std::vector<TaskEdit> edits = task_edits_of(text);
    REQUIRE(edits.size() == 1);
    INFO(text_of(edits.front()));
    CHECK(task_edits_of(text_of(edits.front())) == edits);
  }
  CHECK(text_of(task_edits_of("scale( by = 0.25 ,name= a* )").front()) == "scale(name=a*, by=0.25)");
}

TEST_CASE("task edits: what cannot be meant is refused") {
  for (const std::string text :
       {"scale", "scale(by=0.5)", "scale(name=a)", "remove(name=a, by=2)", "insert(name=a)",
        "insert(name=a, takes=0 s)", "scale(name=a, by=-1)", "scale(name=a, kind=kernel, by=1)",
        "scale(layer=3..1, by=1)", "speed(name=a)", "scale(name=a, by=1)+", "scale(name=a, by=1) remove(name=a)",
        "scale(name=a, takes=1 us, by=1)", "network", "network(by=0)", "network(kind=transfer, by=2)",
        "network(takes=1 us)"}) {
    INFO(text);
    CHECK_THROWS_AS((void)task_edits_of(text), InputError);
  }
  CHECK(refusal("scale(name=*attention*, by=0.5)").find("matches no task") != std::string::npos);
  CHECK(refusal("scale(kind=transfer, by=0.5)").find("matches no task") != std::string::npos);
  CHECK(refusal("scale(phase=backward, by=0.5)").find("has none") != std::string::npos);
  // An edit that takes all from the one after it leaves nothing to match.
  CHECK(refusal("remove(name=relu, kind=device)+scale(name=relu, kind=device, by=2)").find("matches no task") !=
        std::string::npos);
}
