// Device: the roofline's arithmetic, its invariants, and its JSON.
#include <stepcast/roofline/device.hpp>

#include <doctest/doctest.h>

#include "helpers/roofline_device.hpp"

using namespace stepcast;

namespace {

std::string refusal(const std::string& json) {
  try {
    (void)device_of_json(json, "device.json");
    return "accepted";
  } catch (const InputError& e) { return e.what(); }
}

std::string with(const std::string& from, const std::string& to) {
  std::string json = json_of(test::roofline_device());
  const std::size_t at = json.find(from);
  REQUIRE(at != std::string::npos);
  return json.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a matrix product takes the longest of computing, its operands' way through memory, and the floor") {
  Device d = test::roofline_device();
  d.half_m = d.half_n = d.half_k = d.half_output = 0;
  d.matrix_efficiency = 1;
  const MatrixProduct large{1, 4096, 4096, 4096};
  CHECK(matrix_time(d, DataType::f16, large).value() == doctest::Approx(2 * 4096.0 * 4096 * 4096 / 312e12));
  const MatrixProduct thin{1, 1, 4096, 4096};  // reads a matrix for one row
  CHECK(matrix_time(d, DataType::f16, thin).value() == doctest::Approx((4096.0 * 4096 + 2 * 4096) * 2 / 1.5e12));
  CHECK(matrix_time(d, DataType::f16, {1, 2, 2, 2}) == d.kernel_floor);
  // A convolution's window meets an element again and again; memory gives it once.
  const MatrixProduct window{1, 1, 4096, 4096, 4096.0 * 2048};
  CHECK(matrix_time(d, DataType::f16, window).value() == doctest::Approx((4096.0 * 2048 + 2 * 4096) * 2 / 1.5e12));
}

TEST_CASE("small tiles cost efficiency: a half at the half extent, never more than the largest") {
  Device d = test::roofline_device();
  d.half_m = 128, d.half_n = 64, d.half_k = 32, d.half_output = 0;
  const double huge = 1e12;
  CHECK(matrix_efficiency(d, {1, huge, huge, huge}) == doctest::Approx(d.matrix_efficiency));
  CHECK(matrix_efficiency(d, {1, 128, huge, huge}) == doctest::Approx(d.matrix_efficiency / 2));
  CHECK(matrix_efficiency(d, {1, 128, 64, 32}) == doctest::Approx(d.matrix_efficiency / 8));
  for (double x = 1; x < 1e6; x *= 3) {
    CHECK(matrix_efficiency(d, {1, x, x, x}) < matrix_efficiency(d, {1, 2 * x, x, x}));
    // Work that is divided never takes less in sum.
    CHECK(2 * matrix_time(d, DataType::f16, {1, x, x / 2, x}).value() >=
          matrix_time(d, DataType::f16, {1, x, x, x}).value() * (1 - 1e-12));
  }
}

TEST_CASE("products inside fused attention reach a share of their own, where it is known") {
  const Device d = test::roofline_device();
  const MatrixProduct scores{32, 4096, 4096, 128};
  CHECK(attention_time(d, DataType::f16, scores, 0.5).value() == doctest::Approx(scores.operations() / (0.5 * 312e12)));
  CHECK(attention_time(d, DataType::f16, scores, 0) == matrix_time(d, DataType::f16, scores));
}

TEST_CASE("memory-bound kernels take their bytes' time, and a floor each") {
  const Device d = test::roofline_device();
  CHECK(memory_time(d, Bytes(1.5e9)).value() == doctest::Approx(1e-3));
  CHECK(memory_time(d, Bytes(1), 3).value() == doctest::Approx(3 * d.kernel_floor.value()));
}

TEST_CASE("a data type without a rate is named, with those that have one") {
  try {
    (void)matrix_time(test::roofline_device(), DataType::f64, {1, 8, 8, 8});
    FAIL("accepted");
  } catch (const InputError& e) {
    CHECK(std::string(e.what()) ==
          "device 'roofline': expected a type in which it multiplies matrices, found f64; known are f32, tf32, f16, "
          "bf16");
  }
}

TEST_CASE("a device reads back from its JSON") {
  Device d = test::roofline_device();
  d.memory = Bytes(80e9);
  d.half_output = 12.5;
  d.attention_forward = 0.5, d.attention_backward = 0.25;
  d.attention_kernels[std::size_t(AttentionKernel::flash3)] = {0.6, 0.4};
  d.on_host = true;
  d.relative_error = 0.08;
  d.cast_bandwidth = BytesPerSecond(5e11);
  const std::string json = json_of(d);
  const Device again = device_of_json(json, "device.json");
  CHECK(json_of(again) == json);
  CHECK(again.name == d.name);
  CHECK(again.memory == d.memory);
  CHECK(again.matrix_rate == d.matrix_rate);
  CHECK(again.half_m == d.half_m);
  CHECK(again.half_output == d.half_output);
  CHECK(again.attention_forward == d.attention_forward);
  CHECK(again.attention_backward == d.attention_backward);
  CHECK(again.attention_kernels[std::size_t(AttentionKernel::flash3)].backward == 0.4);
  CHECK(again.attention_kernels[std::size_t(AttentionKernel::flash2)].forward == 0);
  CHECK(again.issue == d.issue);
  CHECK(again.cast_bandwidth == d.cast_bandwidth);
  CHECK(again.on_host);
  CHECK(again.relative_error == d.relative_error);
  CHECK(again.provenance == d.provenance);
}

TEST_CASE("a cast to four bytes takes as long as any kernel where its own bandwidth is not known") {
  Device d = test::roofline_device();
  const Bytes traffic(6e9);
  CHECK(widening_time(d, traffic) == memory_time(d, traffic));
  d.cast_bandwidth = d.memory_bandwidth / 2;
  CHECK(widening_time(d, traffic).value() == doctest::Approx(2 * memory_time(d, traffic).value()));
  CHECK(widening_time(d, Bytes(1)) == d.kernel_floor);
  d.cast_bandwidth = BytesPerSecond(1e300);
  CHECK_THROWS_WITH_AS(checked(d, "d"), doctest::Contains("cast_bandwidth"), InputError);
}

TEST_CASE("what is no device is refused with its place") {
  CHECK(refusal("{") != "accepted");
  CHECK(refusal("[]") == "device.json#: expected an object, found []");
  CHECK(refusal(R"({"name": "x"})") ==
        "device.json#: expected the keys schema, memory_bandwidth, matrix_rate, provenance, found none of them; all of "
        "them are required");
  CHECK(refusal(with("half_m", "half_q")) ==
        "device.json#/half_q: expected a known key, found 'half_q'; did you mean "
        "'half_m'?");
  CHECK(refusal(with("\"tf32\"", "\"tf33\"")) ==
        "device.json#/matrix_rate/tf33: expected a known key, found 'tf33'; did you mean 'tf32'?");
  CHECK(refusal(with("stepcast.device/1", "stepcast.device/2")) ==
        "device.json#/schema: expected 'stepcast.device/1', found 'stepcast.device/2'");
  CHECK(refusal(with("\"matrix_efficiency\": 0.8", "\"matrix_efficiency\": 1.5")) ==
        "device.json#/matrix_efficiency: expected a share from 1e-9 to 1, found 1.5");
  CHECK(refusal(with("\"half_m\": 64.0", "\"half_m\": -1")) ==
        "device.json#/half_m: expected a number from 0 to 1000000000000.0, found -1.0");
  CHECK(refusal(with("\"1500000000000 B/s\"", "1500")).find("a string with number and unit") != std::string::npos);
  // Numbers of no device, with which times become infinite.
  CHECK(refusal(with("\"half_m\": 64.0", "\"half_m\": 1e300")) != "accepted");
  CHECK(refusal(with("\"matrix_efficiency\": 0.8", "\"matrix_efficiency\": 1e-320")) != "accepted");
  CHECK(refusal(with("1500000000000 B/s", "1e-300 B/s")) != "accepted");
  CHECK(refusal(with("1500000000000 B/s", "1e300 B/s")) != "accepted");
  Device one_way = test::roofline_device();
  one_way.attention_forward = 0.5;
  CHECK(refusal(json_of(one_way)) ==
        "device.json#/attention_backward: expected a share above 0, as of the other direction, found 0.0");
  const auto with_kernels = [](const std::string& kernels) {
    return with("\"kernel_floor\"", "\"attention_kernels\": " + kernels + ", \"kernel_floor\"");
  };
  CHECK(refusal(with_kernels(R"({"cudnn": {"forward": 0.4, "backward": 0.3}})")) == "accepted");
  CHECK(refusal(with_kernels(R"({"flash4": {"forward": 0.4, "backward": 0.3}})")).find("attention_kernels/flash4") !=
        std::string::npos);
  CHECK(refusal(with_kernels(R"({"flash2": {"forward": 0.4}})")).find("attention_kernels/flash2") != std::string::npos);
  for (const char* share : {"0", "-1", "1.5", "1e-4"})
    CHECK(refusal(with_kernels(std::string(R"({"flash2": {"forward": )") + share + R"(, "backward": 0.3}})"))
              .find("attention_kernels/flash2/forward: expected a share from 0.001 to 1") != std::string::npos);
  CHECK(refusal(with_kernels(R"({"flash2": {"forward": 0.3, "backward": 0}})"))
            .find("attention_kernels/flash2/backward: expected a share") != std::string::npos);
  Device none = test::roofline_device();
  none.matrix_rate = {};
  CHECK(refusal(json_of(none)) == "device.json#/matrix_rate: expected the rate of at least one data type, found none");
}

TEST_CASE("a device without a level of its own sustains what A100 does, and says so; a processor its peak") {
  Device d = test::roofline_device();
  const auto without = [](const Device& device) {
    std::string text = json_of(device);
    const std::string line = "  \"matrix_efficiency\": 0.8,\n";
    return device_of_json(text.replace(text.find(line), line.size(), ""), "device.json");
  };
  const Device read = without(d);
  CHECK(read.matrix_efficiency == 0.75);
  REQUIRE(read.provenance.size() == 2);
  CHECK(read.provenance.back().starts_with("matrix efficiency: not given; 0.75"));
  CHECK(json_of(device_of_json(json_of(read), "again.json")) == json_of(read));
  d.on_host = true;
  CHECK(without(d).matrix_efficiency == 1);
  CHECK(without(d).provenance.size() == 1);
}

TEST_CASE("shipped devices are valid, named once, and say where their numbers come from") {
  for (const Device& d : shipped_devices()) {
    CAPTURE(d.name);
    CHECK(!d.name.empty());
    CHECK(shipped_device(d.name) == &d);
    CHECK(!d.provenance.empty());
    CHECK(d.memory.value() > 0);
  }
  CHECK(shipped_device("no such device") == nullptr);
}

TEST_CASE("a device's products of one type may reach more of their peak than others") {
  Device device = *shipped_device("gb200-192gb");
  const MatrixProduct p{1, 8192, 8192, 8192};
  const double eight = matrix_time(device, DataType::f8, p).value(),
               half = matrix_time(device, DataType::bf16, p).value();
  CHECK(half / eight == doctest::Approx(2 * 1.05));
  CHECK(device_of_json(json_of(device), "again").relative_efficiency == device.relative_efficiency);
  device.relative_efficiency[std::size_t(DataType::f8)] = 1e-3;
  CHECK_THROWS_WITH_AS(checked(device, "mine"), doctest::Contains("relative_efficiency/f8"), InputError);
}
