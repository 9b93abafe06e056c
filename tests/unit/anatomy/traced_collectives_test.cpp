// Traced collectives: each operation once, and whence its bytes come.
#include <stepcast/anatomy/traced_collectives.hpp>
#include <stepcast/documents/chakra_export.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/trace/trace.hpp>
#include <stepcast/trace/trace_index.hpp>

#include "helpers/hand_trace.hpp"
#include "helpers/shared_data.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {
namespace {

using test::HandTrace;

StringId text_in(Trace& trace, std::string_view text) {
  const auto at = std::ranges::find(trace.strings, text);
  if (at != trace.strings.end()) return StringId(at - trace.strings.begin());
  trace.strings.emplace_back(text);
  return StringId(trace.strings.size() - 1);
}

Event& event_named(Trace& trace, std::string_view name, int occurrence = 0) {
  for (Event& e : trace.events)
    if (trace.text(e.name) == name && occurrence-- == 0) return e;
  FAIL("no event ", std::string(name));
  return trace.events.front();
}

CollectiveArguments& argue(Trace& trace, Event& event, std::string_view name, std::int64_t in, std::int64_t out,
                           std::string_view dtype, std::int64_t group_size = 4) {
  CollectiveArguments arguments;
  arguments.name = text_in(trace, name);
  arguments.dtype = text_in(trace, dtype);
  arguments.in_elements = in;
  arguments.out_elements = out;
  arguments.group_size = group_size;
  event.collective = std::uint32_t(trace.collectives.size());
  trace.collectives.push_back(arguments);
  return trace.collectives.back();
}

std::vector<TracedCollective> collectives(const Trace& trace) { return collectives_of(TraceIndex(trace)); }

/// One all-reduce as PyTorch records it: up to five events.
HandTrace all_reduce() {
  HandTrace hand;
  hand.op(0, "c10d::allreduce_", 0, 100);
  hand.op(0, "record_param_comms", 10, 90);
  hand.annotation(0, "nccl:all_reduce", 20, 80);
  hand.kernel(0, 30, 35, 20, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(args)", 200, 300);
  hand.add(EventKind::device_annotation, hand.device(20), "nccl:all_reduce", 199, 301);
  return hand;
}

TEST_CASE("five events of one all-reduce count once, by the best level that there is") {
  Trace trace = all_reduce().trace();
  std::vector<TracedCollective> found = collectives(trace);
  REQUIRE(found.size() == 1);
  CHECK(found[0].operation == "allreduce");
  CHECK(found[0].duration.value() == doctest::Approx(100e-6));
  CHECK(found[0].issued_ns == 30'000);
  CHECK(found[0].source == BytesSource::unknown);
  CHECK(found[0].size == Bytes(0));

  const auto drop = [&](EventKind kind) {
    std::erase_if(trace.events, [&](const Event& e) { return e.kind == kind; });
  };
  drop(EventKind::kernel);
  found = collectives(trace);
  REQUIRE(found.size() == 1);
  CHECK(found[0].duration.value() == doctest::Approx(60e-6));
  drop(EventKind::annotation);
  found = collectives(trace);
  REQUIRE(found.size() == 1);
  CHECK(found[0].duration.value() == doctest::Approx(100e-6));
  event_named(trace, "c10d::allreduce_").name = text_in(trace, "a wrapper");
  CHECK(collectives(trace).empty());
  argue(trace, event_named(trace, "record_param_comms"), "allreduce", 10, 10, "Float");
  CHECK(collectives(trace).size() == 1);
}

TEST_CASE("bytes: arguments of the kernel, else of the call around its launch") {
  Trace trace = all_reduce().trace();
  argue(trace, event_named(trace, "record_param_comms"), "allreduce", 100, 100, "BFloat16", 8);
  TracedCollective c = collectives(trace).front();
  CHECK(c.size == Bytes(200));
  CHECK(c.source == BytesSource::metadata);
  CHECK(c.group_size == 8);
  argue(trace, event_named(trace, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(args)"), "allreduce", 7, 9, "Float");
  c = collectives(trace).front();
  CHECK(c.size == Bytes(36));
  CHECK(c.group_size == 4);
}

TEST_CASE("bytes: counts that came with the execution trace are told apart") {
  Trace trace = all_reduce().trace();
  argue(trace, event_named(trace, "record_param_comms"), "allreduce", 100, 100, "Float").from_execution_trace = true;
  const TracedCollective c = collectives(trace).front();
  CHECK(c.size == Bytes(400));
  CHECK(c.source == BytesSource::execution_trace);
}

TEST_CASE("bytes: split sizes where there are no counts, and nothing from a list that was cut") {
  Trace trace = all_reduce().trace();
  const StringId splits = text_in(trace, "[4, 0, 12]"), cut = text_in(trace, "[1, 2, ...]");
  CollectiveArguments& arguments = argue(trace, event_named(trace, "record_param_comms"), "all_to_allv", -1, -1, "Int");
  arguments.in_split = splits;
  TracedCollective c = collectives(trace).front();
  CHECK(c.operation == "alltoall");
  CHECK(c.size == Bytes(64));
  trace.collectives.front().in_split = cut;
  c = collectives(trace).front();
  CHECK(c.source == BytesSource::unknown);
  CHECK(c.size == Bytes(0));
}

TEST_CASE("bytes: an unknown element type is no size") {
  Trace trace = all_reduce().trace();
  argue(trace, event_named(trace, "record_param_comms"), "allreduce", 100, 100, "Quaternion");
  CHECK(collectives(trace).front().source == BytesSource::unknown);
}

TEST_CASE("bytes: one launch of a group serves all the calls before it") {
  HandTrace hand;
  hand.op(0, "record_param_comms", 0, 10);
  hand.op(0, "record_param_comms", 10, 20);
  hand.annotation(0, "nccl:coalesced", 30, 60);
  hand.kernel(0, 40, 45, 20, "ncclDevKernel_SendRecv(args)", 100, 200);
  hand.op(0, "record_param_comms", 70, 80);
  hand.annotation(0, "nccl:coalesced", 85, 99);
  hand.kernel(0, 90, 95, 20, "ncclDevKernel_SendRecv(args)", 300, 350);
  Trace trace = hand.trace();
  argue(trace, event_named(trace, "record_param_comms", 0), "send", 10, 10, "Float", 2);
  argue(trace, event_named(trace, "record_param_comms", 1), "recv", 20, 20, "Float", 2);
  argue(trace, event_named(trace, "record_param_comms", 2), "send", 5, 5, "Float", 2);
  const std::vector<TracedCollective> found = collectives(trace);
  REQUIRE(found.size() == 2);
  CHECK(found[0].operation == "sendrecv");
  CHECK(found[0].size == Bytes(120));
  CHECK(found[0].source == BytesSource::metadata);
  CHECK(found[0].group_size == 2);
  CHECK(found[1].size == Bytes(20));
}

TEST_CASE("bytes: shapes of the operators around, lists of tensors summed, the type from whoever knows it") {
  Trace trace = all_reduce().trace();
  Event& call = event_named(trace, "c10d::allreduce_");
  call.shapes = text_in(trace, "[[[10,4],[8]],[],[],[]]");
  call.types = text_in(trace, R"(["TensorList","","",""])");
  TracedCollective c = collectives(trace).front();
  CHECK(c.source == BytesSource::shapes);
  CHECK(c.size == Bytes(96));  // 48 elements of bf16, which only the kernel tells
  Event& annotation = event_named(trace, "nccl:all_reduce");
  annotation.shapes = text_in(trace, "[[48]]");
  annotation.types = text_in(trace, R"(["float"])");
  c = collectives(trace).front();
  CHECK(c.size == Bytes(192));
}

TEST_CASE("bytes: shapes of an all-gather are those of what comes out, which NCCL's annotation does not have") {
  HandTrace hand;
  hand.op(0, "c10d::_allgather_base_", 0, 100);
  hand.annotation(0, "nccl:_all_gather_base", 20, 80);
  hand.kernel(0, 30, 35, 20, "ncclKernel_AllGather_RING_LL_Sum_int8_t(args)", 200, 300);
  Trace trace = hand.trace();
  for (Event& event : trace.events) event.types = text_in(trace, R"(["float","float"])");
  event_named(trace, "nccl:_all_gather_base").shapes = text_in(trace, "[[100]]");
  CHECK(collectives(trace).front().size == Bytes(400));
  trace.world_size = 8;  // each of which gives as much
  CHECK(collectives(trace).front().size == Bytes(3200));
  event_named(trace, "c10d::_allgather_base_").shapes = text_in(trace, "[[800],[100],[],[]]");
  CHECK(collectives(trace).front().size == Bytes(3200));

  const ChakraExport written = chakra_export_of(trace);
  const Trace back = trace_of({"trace.0.et", std::as_bytes(std::span(written.bytes))});
  REQUIRE(back.collectives.size() == 1);
  CHECK(back.collectives[0].in_elements == 400);
  CHECK(back.collectives[0].out_elements == 3200);
  CHECK(written.remarks.size() == 1);
}

TEST_CASE("a kernel that hides what it does gets its name from the arguments or from the call around it") {
  HandTrace hand;
  hand.annotation(0, "nccl:all_to_all", 0, 50);
  hand.kernel(0, 10, 20, 20, "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(args)", 100, 200);
  hand.op(0, "record_param_comms", 50, 90);
  hand.kernel(0, 60, 65, 20, "ncclDevKernel_Generic_4(args)", 300, 400);
  hand.annotation(0, "xccl:all_reduce", 90, 99);
  hand.kernel(0, 91, 92, 20, "oneccl_reduce_base<float, 2, 16, 1, 1, 2>", 400, 500);
  hand.kernel(0, 100, 101, 20, "oneccl_reduce_base<float, 2, 16, 1, 1, 2>", 500, 600);
  Trace trace = hand.trace();
  argue(trace, event_named(trace, "record_param_comms"), "reduce_scatter_tensor_coalesced", 10, 5, "Float");
  const std::vector<TracedCollective> found = collectives(trace);
  REQUIRE(found.size() == 4);
  CHECK(found[0].operation == "alltoall");
  CHECK(found[1].operation == "reducescatter");
  CHECK(found[2].operation == "allreduce");
  CHECK(found[3].operation == "reduce");  // nobody says more
}

TEST_CASE("what a library carries out on its own threads was issued by the call in whose turn it is") {
  const auto queued = [](int calls) {
    HandTrace hand;
    for (int k = 0; k < calls; ++k) hand.op(0, "c10d::allreduce_", 10 * k, 10 * k + 2);
    hand.annotation(5, "gloo:all_reduce", 3, 40);
    hand.annotation(5, "gloo:all_reduce", 40, 80);
    std::vector<std::int64_t> issued;
    for (const TracedCollective& c : collectives(hand.trace())) issued.push_back(c.issued_ns);
    return issued;
  };
  const std::vector<std::int64_t> two = queued(2);
  REQUIRE(two.size() == 2);
  CHECK(two[1] - two[0] == 10'000);
  // Two more may be in the queue yet; of five calls and two collectives nobody knows which belong together.
  CHECK(queued(4) == two);
  const std::vector<std::int64_t> alone = queued(5);
  CHECK(alone[1] - alone[0] == 37'000);
}

TEST_CASE("averages keep sources apart: a known size never hides an unknown one") {
  TracedCollective known, unknown;
  known.operation = unknown.operation = "allreduce";
  known.size = Bytes(100);
  known.source = BytesSource::metadata;
  const std::vector<std::vector<TracedCollective>> steps = {{known, unknown, known}, {known, unknown, known}};
  const std::vector<ObservedCollective> seen = observed_collectives(steps);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].count == 2);
  CHECK(seen[0].size == Bytes(200));
  CHECK(seen[1].count == 1);
  CHECK(seen[1].source == BytesSource::unknown);
  CHECK(seen[1].size == Bytes(0));
}

TEST_CASE("reductions without a size take the gradients that became ready since the one before") {
  StepAnatomy step;
  step.gradients = {{2, 0, 30'000}, {0, 0, 10'000}, {1, 0, 20'000}};
  std::vector<Tensor> tensors(3);
  tensors[0].size = Bytes(1);    // ready at 30
  tensors[1].size = Bytes(100);  // at 10
  tensors[2].size = Bytes(10);   // at 20
  const auto reduction = [](double us, const char* operation, BytesSource source = BytesSource::unknown) {
    TracedCollective c;
    c.operation = operation;
    c.issued_ns = std::int64_t(us * 1000);
    c.source = source;
    return c;
  };
  std::vector<TracedCollective> list = {reduction(5, "allreduce"), reduction(22, "allreduce"),
                                        reduction(25, "broadcast"), reduction(31, "reducescatter")};
  size_by_gradients(list, step, tensors);
  CHECK(list[0].source == BytesSource::unknown);  // no gradient yet: a loss, say
  CHECK(list[1].size == Bytes(110));
  CHECK(list[1].source == BytesSource::gradients);
  CHECK(list[2].source == BytesSource::unknown);
  CHECK(list[3].size == Bytes(1));
  // A known size is kept, and its gradients are spent.
  std::vector<TracedCollective> mixed = {reduction(22, "allreduce", BytesSource::metadata), reduction(31, "allreduce")};
  size_by_gradients(mixed, step, tensors);
  CHECK(mixed[0].size == Bytes(0));
  CHECK(mixed[1].size == Bytes(1));
}

TEST_CASE("messages carry all gradients of every step, and time that a library shares among them counts once") {
  StepAnatomy step;
  step.gradients = {{0, 0, 10'000}, {1, 0, 20'000}, {2, 0, 30'000}};
  std::vector<Tensor> tensors(3);
  tensors[0].size = Bytes(100), tensors[1].size = Bytes(20), tensors[2].size = Bytes(300);
  const auto reduction = [](double us, double size, double start_us, double end_us,
                            const char* operation = "allreduce") {
    TracedCollective c;
    c.operation = operation;
    c.issued_ns = std::int64_t(us * 1000);
    c.size = Bytes(size);
    c.start_ns = std::int64_t(start_us * 1000);
    c.duration = microseconds(end_us - start_us);
    return c;
  };
  using Steps = std::vector<std::vector<TracedCollective>>;
  const auto messages = [&](const Steps& steps) {
    const std::vector<StepAnatomy> anatomies(steps.size(), step);
    return gradient_messages(steps, anatomies, tensors);
  };
  // A loss first; then the first two gradients, and the third one beside them.
  const std::vector<TracedCollective> one = {reduction(5, 4, 5, 6), reduction(21, 120, 25, 125),
                                             reduction(31, 300, 40, 145)};
  const std::vector<TracedMessage> found = messages({one, one});
  REQUIRE(found.size() == 2);
  CHECK(found[0].tensors == 2);
  CHECK(found[0].size == Bytes(120));
  CHECK(found[0].duration.value() == doctest::Approx(100e-6));
  CHECK(found[1].tensors == 1);
  CHECK(found[1].duration.value() == doctest::Approx(20e-6));
  CHECK(observed_collectives(Steps{one})[0].duration.value() == doctest::Approx(121e-6));
  CHECK(messages({{reduction(21, 60, 25, 125), reduction(31, 150, 140, 145)}}).size() == 2);  // half the bytes
  // Each in the hook of its own tensor, before the gradient is taken.
  const std::vector<TracedMessage> each =
      messages({{reduction(9, 100, 9, 50), reduction(19, 20, 50, 60), reduction(29, 300, 60, 90)}});
  REQUIRE(each.size() == 3);
  CHECK(each[2].tensors == 1);
  CHECK(messages({one, {}}).empty());  // accumulated
  CHECK(messages({{reduction(21, 100, 25, 125), reduction(31, 100, 140, 145)}}).empty());
  CHECK(messages({{reduction(21, 120, 25, 125)}}).empty());
  CHECK(messages({{reduction(31, 420, 40, 145, "reducescatter")}}).empty());
}

}  // namespace
}  // namespace stepcast
