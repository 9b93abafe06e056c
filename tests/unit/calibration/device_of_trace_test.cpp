// A device fitted to a trace: the roofline that made the kernels is found again, and thin traces say what they lack.
#include "helpers/hand_trace.hpp"

#include <stepcast/calibration/device_of_trace.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

using namespace stepcast;

namespace {

constexpr auto f32 = static_cast<std::size_t>(DataType::f32);
constexpr double host_us = 12;

/// On the grid of the fit, so that nothing but the rounding of times to nanoseconds stands between.
Device real_device() {
  Device d;
  d.name = "real";
  d.memory_bandwidth = BytesPerSecond(1.5e12);
  d.matrix_rate[f32] = 20e12;
  d.matrix_efficiency = 0.75;
  d.half_m = d.half_n = 0;
  d.half_output = 1024 * 256;
  d.half_k = 64;
  d.kernel_floor = microseconds(3);
  d.issue = microseconds(host_us);
  d.provenance = {"test"};
  return d;
}
/// What a data sheet tells, and guesses.
Device data_sheet() {
  Device d = real_device();
  d.name = "sheet";
  d.memory_bandwidth = BytesPerSecond(2e12);
  d.matrix_efficiency = 0.9;
  d.half_output = 1e6;
  d.half_k = 0;
  d.kernel_floor = microseconds(1);
  d.issue = microseconds(40);
  return d;
}

/// Operators in a row, each with one kernel.
class KernelTrace {
 public:
  explicit KernelTrace(const Device& device) : device_(device) {}

  void product(std::int64_t m, std::int64_t n, std::int64_t k) {
    const Seconds time = matrix_time(device_, DataType::f32, {1, double(m), double(n), double(k)});
    add("aten::mm", "ampere_sgemm_128x64_nn", list({m, k}, {k, n}), time);
  }
  void sum(std::int64_t elements) {
    add("aten::add", elementwise, list({elements}, {elements}),
        memory_time(device_, Bytes(12.0 * double(elements)), 1));
  }
  void shortest() { add("aten::fill_", elementwise, "", device_.kernel_floor); }

  /// The same computed by the host itself.
  void on_host() { on_host_ = true; }
  [[nodiscard]] Trace trace() const {
    Trace t = hand_.trace();
    const auto string = [&](const std::string& text) {
      t.strings.push_back(text);
      return static_cast<StringId>(t.strings.size() - 1);
    };
    const StringId types = string("[\"float\",\"float\"]");
    std::size_t operation = 0;
    for (Event& e : t.events) {
      if (e.kind != EventKind::host_op) continue;
      const std::string& shapes = shapes_[operation++];
      if (shapes.empty()) continue;
      e.shapes = string(shapes);
      e.types = types;
    }
    return t;
  }

 private:
  static constexpr std::string_view elementwise = "void at::native::vectorized_elementwise_kernel<4>";
  static std::string text(const std::vector<std::int64_t>& shape) {
    std::string out = "[";
    for (const std::int64_t extent : shape) out += (out.size() > 1 ? "," : "") + std::to_string(extent);
    return out + "]";
  }
  static std::string list(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
    return "[" + text(a) + "," + text(b) + "]";
  }
  void add(std::string_view op, std::string_view kernel, std::string shapes, Seconds time) {
    const double duration = time.value() * 1e6;
    hand_.op(0, op, at_, at_ + (on_host_ ? duration : host_us));
    if (!on_host_) hand_.kernel(0, at_ + 2, at_ + 6, 7, kernel, at_ + 7, at_ + 7 + duration);
    shapes_.push_back(std::move(shapes));
    at_ += host_us + 10 + duration;
  }

  Device device_;
  test::HandTrace hand_;
  std::vector<std::string> shapes_;
  double at_ = 0;
  bool on_host_ = false;
};

KernelTrace products_and_sums(bool on_host = false) {
  KernelTrace t(real_device());
  if (on_host) t.on_host();
  for (const std::int64_t m : {512, 1024, 4096})
    for (const std::int64_t n : {256, 1024, 3072})
      for (const std::int64_t k : {128, 1024, 4096}) t.product(m, n, k);
  for (const std::int64_t elements : {1 << 22, 1 << 24, 1 << 25}) t.sum(elements);
  for (int i = 0; i < 6; ++i) t.shortest();
  return t;
}

}  // namespace

TEST_CASE("the device that made the kernels of a trace is found again") {
  const Device real = real_device();
  const Answer<DeviceFit> fit = device_of_trace(data_sheet(), products_and_sums().trace());
  REQUIRE_MESSAGE(fit, (fit ? "" : fit.reason()));
  const Device& d = fit->device;
  CHECK(d.kernel_floor.value() == doctest::Approx(real.kernel_floor.value()).epsilon(1e-3));
  CHECK(d.memory_bandwidth.value() == doctest::Approx(real.memory_bandwidth.value()).epsilon(1e-3));
  CHECK(d.issue.value() == doctest::Approx(real.issue.value()).epsilon(1e-3));
  CHECK(d.matrix_efficiency == doctest::Approx(real.matrix_efficiency).epsilon(1e-3));
  CHECK(d.half_output == real.half_output);
  CHECK(d.half_k == real.half_k);
  CHECK(d.relative_error < 1e-3);
  CHECK(fit->residuals.size() >= 20);
  for (const double r : fit->residuals) CHECK(std::abs(r) < 2e-3);
  CHECK(fit->notes.empty());
}

TEST_CASE("a trace that shows too little of a device says what it lacks") {
  const auto reason = [](const Device& start, const KernelTrace& t) {
    const Answer<DeviceFit> fit = device_of_trace(start, t.trace());
    return fit ? std::string("fits") : fit.reason();
  };
  const KernelTrace empty(real_device());
  CHECK(reason(data_sheet(), empty).find("no kernels") != std::string::npos);
  KernelTrace sums(real_device());
  sums.sum(1 << 24);
  CHECK(reason(data_sheet(), sums).find("none of the trace's 1 kernels") != std::string::npos);
  Device halves = data_sheet();
  halves.matrix_rate[static_cast<std::size_t>(DataType::f16)] = 3e14;
  halves.matrix_rate[f32] = 0;
  CHECK(reason(halves, products_and_sums()).find("are of f32, whose peak rate the start does not state") !=
        std::string::npos);
  KernelTrace tiny(real_device());
  tiny.product(16, 16, 16);
  tiny.product(32, 16, 16);
  CHECK(reason(data_sheet(), tiny).find("all 2 matrix products of the trace take less than twice") == 0);

  KernelTrace one(real_device());
  one.product(4096, 1024, 1024);
  one.shortest();
  const Answer<DeviceFit> thin = device_of_trace(data_sheet(), one.trace());
  REQUIRE(thin);
  REQUIRE(thin->notes.size() == 2);
  CHECK(thin->notes[0].find("memory bandwidth: no large element-wise kernels") == 0);
  CHECK(thin->notes[1].find("efficiency: 1 shape of products cannot tell") == 0);
}

TEST_CASE("of a host that computes the operators are the kernels") {
  Device start = data_sheet();
  start.on_host = true;
  const Answer<DeviceFit> fit = device_of_trace(start, products_and_sums(true).trace());
  REQUIRE_MESSAGE(fit, (fit ? "" : fit.reason()));
  CHECK(fit->device.on_host);
  CHECK(fit->device.matrix_efficiency == doctest::Approx(0.75).epsilon(0.01));
  CHECK(fit->device.memory_bandwidth.value() == doctest::Approx(1.5e12).epsilon(0.01));
  CHECK(fit->device.issue == start.issue);
  CHECK(fit->device.kernel_floor == start.kernel_floor);
  // Its trace says nothing of a device, and says so.
  CHECK_FALSE(device_of_trace(data_sheet(), products_and_sums(true).trace()));
  const Answer<DeviceFit> without = device_of_trace(start, KernelTrace(real_device()).trace());
  REQUIRE_FALSE(without);
  CHECK(without.reason() ==
        "none of the trace's operators is a matrix product that names its shapes (record_shapes=True)");
}
