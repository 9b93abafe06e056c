// Lists of operators: timed by the same roofline as described models, refused with their place.
#include <stepcast/roofline/operator_list.hpp>
#include <stepcast/roofline/unit_roofline.hpp>

#include <doctest/doctest.h>

#include <string>

#include "helpers/roofline_device.hpp"

using namespace stepcast;

namespace {

/// Two layers: a product, then one that is bound by the memory; the first weight's gradient comes last.
const std::string two_layers = R"({"schema": "stepcast.operators/1", "model": "two", "batch_samples": 8,
  "layers": [
    {"name": "a", "input_shape": [8, 1024], "input_dtype": "bf16", "kept_bytes": 1000,
     "forward": [{"name": "aten.mm", "dtype": "bf16", "products": [[1, 4096, 2048, 1024, 0]]}],
     "backward": [{"name": "aten.mm", "dtype": "bf16", "products": [[1, 1024, 2048, 4096, 0]], "split": 4}]},
    {"name": "b", "forward": [{"name": "aten.gelu", "traffic_bytes": 3e9, "kernels": 2}], "backward": []}],
  "backward_order": [1, 0],
  "tensors": [{"name": "b.weight", "shape": [16], "dtype": "f32", "layer": 1},
              {"name": "a.weight", "shape": [2048, 1024], "dtype": "f32", "layer": 0}],
  "update": [{"name": "aten._foreach_add_", "traffic_bytes": 1.5e9}],
  "bytes_of_state_per_parameter": 16, "assumed": ["optimizer: SGD"]})";

std::string with_text(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string refusal_of(const std::string& text) {
  try {
    (void)listed_profile(operator_list_of_json(text, "list"), test::roofline_device());
  } catch (const InputError& error) { return error.what(); }
  return "accepted";
}

}  // namespace

TEST_CASE("a list of operators becomes a profile with the times of the roofline") {
  const Device device = test::roofline_device();
  const Profile p = listed_profile(operator_list_of_json(two_layers, "list"), device);
  const Seconds product = matrix_time(device, DataType::bf16, {1, 4096, 2048, 1024});
  REQUIRE(p.layers.size() == 2);
  CHECK(p.layers[0].forward.device == product);
  CHECK(p.layers[0].forward.part[KernelClass::gemm] == product);
  CHECK(p.layers[0].forward.host == device.issue);
  CHECK(p.layers[0].backward.device == weight_gradient_time(device, DataType::bf16, {1, 1024, 2048, 4096}, 4));
  CHECK(p.layers[1].forward.device.value() == doctest::Approx(2e-3));
  CHECK(p.layers[1].forward.part[KernelClass::memory] == p.layers[1].forward.device);
  CHECK(p.layers[1].forward.host == device.issue * 2);
  CHECK(p.optimizer.device.value() == doctest::Approx(1e-3));
  CHECK(p.device == "roofline");
  CHECK(p.layers[0].input_size() == Bytes(2 * 8 * 1024));
  CHECK(p.activation_memory == Bytes(1000));
  CHECK(p.gradient_size() == Bytes(4 * (16 + 2048 * 1024)));
  CHECK(p.tensors.back().name == "a.weight");
  CHECK(p.bytes_of_state == 16);
  CHECK(p.provenance == "operators of two, on the roofline of roofline");
  CHECK(p.assumed.size() == 3);
}

TEST_CASE("on the host's own processor all time is the host's, and adds up") {
  Device device = test::roofline_device();
  const OperatorList list = operator_list_of_json(two_layers, "list");
  const Profile beside = listed_profile(list, device);
  device.on_host = true;
  const Profile p = listed_profile(list, device);
  CHECK_FALSE(p.has_device());
  CHECK(p.layers[0].forward.device == Seconds(0));
  CHECK(p.layers[0].forward.host == beside.layers[0].forward.host + beside.layers[0].forward.device);
  CHECK(lone_step_time(p) > lone_step_time(beside));
}

TEST_CASE("what may be computed as tf32 is, where the device can; fused attention has its own rate") {
  Device device = test::roofline_device();
  device.attention_forward = 0.5, device.attention_backward = 0.25;
  const auto first = [&](const std::string& text) {
    return listed_profile(operator_list_of_json(text, "list"), device).layers[0].forward.device;
  };
  const MatrixProduct product{1, 4096, 2048, 1024};
  const std::string reduced = with_text(two_layers, R"("dtype": "bf16", "products")", R"("dtype": "tf32", "products")");
  CHECK(first(reduced) == matrix_time(device, DataType::tf32, product));
  device.matrix_rate[std::size_t(DataType::tf32)] = 0;
  CHECK(first(reduced) == matrix_time(device, DataType::f32, product));
  for (const auto& [pass, share] : {std::pair{"forward", 0.5}, std::pair{"backward", 0.25}}) {
    const std::string inside =
        with_text(two_layers, "2048, 1024, 0]]", "2048, 1024, 0]], \"attention\": \"" + std::string(pass) + "\"");
    CHECK(first(inside) == attention_time(device, DataType::bf16, product, share));
  }
}

TEST_CASE("what is no list of operators is refused with its place") {
  CHECK(refusal_of(two_layers) == "accepted");
  CHECK(refusal_of(with_text(two_layers, "operators/1", "operators/2")) ==
        "list#/schema: expected 'stepcast.operators/1', found 'stepcast.operators/2'");
  CHECK(refusal_of(with_text(two_layers, "[1, 4096, 2048, 1024, 0]", "[1, 4096, 2048]")) ==
        "list#/layers/0/forward/0/products/0: expected five numbers: batch, m, n, k and repeated elements, found "
        "[1,4096,2048]");
  CHECK(refusal_of(with_text(two_layers, "\"traffic_bytes\": 3e9", "\"traffic_byte\": 3e9")).find("'traffic_bytes'") !=
        std::string::npos);
  CHECK(refusal_of(with_text(two_layers, "\"traffic_bytes\": 3e9", "\"kernels\": 1")) != "accepted");
  CHECK(refusal_of(with_text(two_layers, "3e9", "-1")) ==
        "list#/layers/1/forward/0/traffic_bytes: expected a number from 0 to 1e24, found -1");
  CHECK(refusal_of(with_text(two_layers, "\"layer\": 1", "\"layer\": 2")) ==
        "list#/tensors/0/layer: expected the index of a layer, found 2");
  CHECK(refusal_of(with_text(two_layers, "[1, 0]", "[1, 1]")) != "accepted");
  CHECK(refusal_of(with_text(two_layers, R"("dtype": "bf16", "products")", R"("dtype": "f64", "products")")) ==
        "device 'roofline': expected a type in which it multiplies matrices, found f64; known are f32, tf32, f16, "
        "bf16");
}
