// Layer activations: inputs from arguments, what is kept from the allocator's events or from what autograd saves.
#include "helpers/kineto_text.hpp"
#include "helpers/shared_data.hpp"

#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/layer_activations.hpp>
#include <stepcast/extraction/profile_of.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace stepcast;
using test::op;

namespace {

std::string node(const std::string& name, int ts, int dur, int sequence) {
  return op("autograd::engine::evaluate_function: " + name, std::to_string(ts), std::to_string(dur),
            R"("Sequence number": )" + std::to_string(sequence) + R"(, "Fwd thread id": 1)");
}
std::string accumulate(int ts, const std::string& dims) {
  return op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", std::to_string(ts), "6", "") +
         ", " +
         op("torch::autograd::AccumulateGrad", std::to_string(ts + 1), "4",
            R"("Input Dims": [)" + dims + R"(], "Input type": ["float"])");
}
std::string forward(const std::string& name, int ts, int dur, int sequence, const std::string& dims,
                    const std::string& types) {
  return op(name, std::to_string(ts), std::to_string(dur),
            R"("Sequence number": )" + std::to_string(sequence) + R"(, "Input Dims": )" + dims + R"(, "Input type": )" +
                types);
}
std::string memory(int ts, long bytes, int device = 0) {
  return R"({"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 7, "tid": 8, "ts": )" +
         std::to_string(ts) + R"(, "args": {"Total Reserved": 0, "Total Allocated": 0, "Bytes": )" +
         std::to_string(bytes) + R"(, "Addr": 17, "Device Id": -1, "Device Type": )" + std::to_string(device) + "}}";
}
/// linear, gelu, dropout | linear, forward in 20..300, backward in 400..700.
std::string step(const std::string& more) {
  const std::string types = R"(["float", "float", "float"])";
  return test::file_of(
      R"({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 7, "tid": 8, "ts": 0, "dur": 1000}, )" +
      forward("aten::linear", 20, 60, 1, "[[8, 32, 16], [64, 16], [64]]", types) + ", " +
      forward("aten::gelu", 100, 30, 2, "[[8, 32, 64]]", R"(["c10::Half"])") + ", " +
      forward("aten::dropout", 140, 30, 3, "[[8, 32, 64], []]", R"(["float", ""])") + ", " +
      forward("aten::linear", 200, 60, 4, "[[8, 32, 64], [16, 64], [16]]", types) + ", " +
      node("AddmmBackward0", 400, 40, 4) + ", " + accumulate(450, "[16]") + ", " + accumulate(460, "[16, 64]") + ", " +
      node("MulBackward0", 480, 20, 3) + ", " + node("GeluBackward0", 510, 20, 2) + ", " +
      node("AddmmBackward0", 540, 40, 1) + ", " + accumulate(590, "[64]") + ", " + accumulate(600, "[64, 16]") + ", " +
      op("Optimizer.step#SGD.step", "700", "100") + more);
}

}  // namespace

TEST_CASE("layer activations: inputs with their types, kept from what operators save") {
  const Profile p = profile_of(test::read(step("")));
  REQUIRE(p.layers.size() == 2);
  CHECK(p.layers[0].input_shape == std::vector<std::int64_t>{8, 32, 16});
  CHECK(p.layers[1].input_shape == std::vector<std::int64_t>{8, 32, 64});
  CHECK(p.layers[1].input_size() == Bytes(8 * 32 * 64 * 4));
  // linear: its input; gelu: its input in half precision; dropout on the host: a mask of the input's type.
  CHECK(p.layers[0].kept == Bytes(8 * 32 * (16 * 4 + 64 * 2 + 64 * 4)));
  CHECK(p.layers[1].kept == Bytes(8 * 32 * 64 * 4));
  CHECK(p.activation_memory == p.layers[0].kept + p.layers[1].kept);
  CHECK(test::mentions(p.recognised, "what operators save"));
  CHECK_FALSE(test::mentions(p.missing, "activation memory"));
}

TEST_CASE("layer activations: the allocator's balance of the forward pass goes before shapes") {
  // 5000 and 300 stay of the first layer; 700 of the second, which frees 100 of the first; what comes before the
  // forward pass, in the backward pass or on a device is not counted.
  const Trace trace =
      test::read(step(", " + memory(410, 99999) + ", " + memory(5, 77777) + ", " + memory(30, 5000) + ", " +
                      memory(110, 400) + ", " + memory(150, -100) + ", " + memory(210, 700) + ", " + memory(220, -100) +
                      ", " + memory(230, 123456, 1) + ", " + memory(650, -5000)));
  REQUIRE(trace.allocations.size() == 9);
  CHECK(trace.allocations.front().bytes == 77777);
  CHECK(trace.allocations.back().bytes == -5000);
  CHECK(std::count_if(trace.allocations.begin(), trace.allocations.end(),
                      [](const Allocation& a) { return a.on_device; }) == 1);
  const Profile p = profile_of(trace);
  CHECK(p.layers[0].kept == Bytes(5300));
  CHECK(p.layers[1].kept == Bytes(600));
  CHECK(p.activation_memory == Bytes(5900));
  CHECK(test::mentions(p.recognised, "from the allocator's events"));
}

TEST_CASE("layer activations: a layer that frees more than it takes has it from the one before") {
  const Profile p =
      profile_of(test::read(step(", " + memory(30, 5000) + ", " + memory(210, 100) + ", " + memory(220, -1100))));
  CHECK(p.layers[0].kept == Bytes(4000));
  CHECK(p.layers[1].kept == Bytes(0));
}

TEST_CASE("layer activations: a traced transformer keeps about what its description says") {
  const test::File file(std::filesystem::path(STEPCAST_SOURCE_DIR) /
                        "profiles/examples/transformer-cpu-1-worker.pt.trace.json.gz");
  const Profile p = profile_of(trace_of(file.source()));
  for (const Layer& layer : p.layers) CHECK_FALSE(layer.input_shape.empty());
  CHECK(p.activation_memory > Bytes());
}
