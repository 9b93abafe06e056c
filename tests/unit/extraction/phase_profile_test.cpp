// Coarse profiles of traces that hold kernels and marked phases only.
#include <stepcast/base/error.hpp>
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/profile_of.hpp>
#include <stepcast/trace/trace_draft.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "helpers/shared_data.hpp"

using namespace stepcast;

namespace {

/// Steps of 1000 us: forward 0..200, backward, reductions launched at 400 and 600, optimizer 700..800, a loader beside.
class Marked {
 public:
  explicit Marked(bool marks_backward = false) : marks_backward_(marks_backward) {}

  Trace trace(int steps, int without_kernels = 0) {
    for (int n = 0; n < steps; ++n) step(n, n < steps - without_kernels);
    draft_.trace().device_name = "Board";
    return draft_.finish();
  }

 private:
  void add(EventKind kind, std::string_view name, std::int64_t process, std::int64_t thread, std::int64_t start_us,
           std::int64_t end_us, std::int64_t correlation = -1) {
    Event e;
    e.kind = kind;
    e.name = draft_.text(name);
    e.track = draft_.track(process, thread, is_device_work(kind));
    e.start_ns = (base_us_ + start_us) * 1000;
    e.duration_ns = (end_us - start_us) * 1000;
    e.correlation = correlation;
    draft_.add(e);
  }
  void range(std::string_view name, std::int64_t from, std::int64_t to) {
    add(EventKind::annotation, name, 1, 1, from, to);
  }
  void launch(std::string_view name, std::int64_t thread, std::int64_t host, std::int64_t stream, std::int64_t from,
              std::int64_t to) {
    add(EventKind::runtime_call, "cudaLaunchKernel", 1, thread, host, host + 2, ++correlation_);
    if (with_kernels_) add(EventKind::kernel, name, 0, stream, from, to, correlation_);
  }
  void step(int number, bool with_kernels) {
    base_us_ = 1000 * number;
    with_kernels_ = with_kernels;
    range("step " + std::to_string(number), 0, 850);
    range("Forward", 0, 200);
    if (marks_backward_) range("backward", 250, 690);
    range("optimizer", 700, 800);
    launch("ampere_sgemm", 1, 100, 7, 110, 210);
    add(EventKind::runtime_call, "cudaStreamSynchronize", 1, 1, 170, 190);
    launch("sgemm_backward", 2, 300, 7, 310, 460);
    launch("ncclDevKernel_AllReduce_Sum", 2, 400, 20, 460, 500);
    launch("elementwise_kernel", 2, 500, 7, 510, 560);
    launch("ncclDevKernel_AllReduce_Sum", 2, 600, 20, 610, 690);
    launch("multi_tensor_adam", 1, 750, 7, 760, 790);
    launch("rotate_images", 3, 500, 17, 505, 805);
  }

  TraceDraft draft_{"report.sqlite"};
  std::int64_t base_us_ = 0, correlation_ = 0;
  bool marks_backward_ = false, with_kernels_ = true;
};

ProfileOptions two_tensors() {
  ProfileOptions options;
  options.model = "two";
  options.parameters = {{"first.weight", {1 << 18}, DataType::f32, Bytes(1 << 20), 0},
                        {"last.weight", {1 << 18}, DataType::f32, Bytes(1 << 20), 1}};
  return options;
}

bool says(const std::vector<std::string>& lines, const std::string& part) {
  return std::ranges::any_of(lines, [&](const std::string& l) { return l.find(part) != std::string::npos; });
}
double us(Seconds t) { return std::round(t.value() * 1e9) / 1e3; }

}  // namespace

TEST_CASE("kernels between marked phases become pieces of a profile, one for each reduction") {
  const Profile p = profile_of(Marked().trace(6), two_tensors());
  CHECK(p.model == "two");
  CHECK(p.device == "Board");
  CHECK(us(p.measured_step()) == 1000);
  REQUIRE(p.layers.size() == 2);
  // The backward pass begins with the last layer.
  CHECK(p.backward_order == std::vector<std::uint32_t>{1, 0});
  CHECK(us(p.layers[1].backward.device) == 150);
  CHECK(us(p.layers[1].backward.part[KernelClass::gemm]) == 150);
  CHECK(us(p.layers[1].backward.host) == 200);
  CHECK(us(p.layers[0].backward.device) == 50);
  CHECK(us(p.layers[0].backward.part[KernelClass::memory]) == 50);
  CHECK(us(p.layers[0].backward.host) == 300);
  // In proportion to the backward pass; the time in cudaStreamSynchronize is waiting.
  CHECK(us(p.layers[1].forward.device) == 75);
  CHECK(us(p.layers[0].forward.device) == 25);
  CHECK(us(p.layers[0].forward.host + p.layers[1].forward.host) == 180);
  CHECK(us(p.optimizer.device) == 30);
  CHECK(us(p.optimizer.host) == 100);
  CHECK(us(p.other.host) == 200);
  CHECK(p.host_waits_for_device);
  REQUIRE(p.tensors.size() == 2);
  CHECK(p.tensors[0].name == "last.weight");
  CHECK(p.tensors[0].layer == 1);
  CHECK(p.tensors[1].layer == 0);
  CHECK(says(p.assumed, "DDP's buckets"));
  CHECK(says(p.assumed, "work on other streams (300"));
  CHECK(says(p.assumed, "next marked phase is the backward pass"));
  CHECK(says(p.missing, "layers"));
  REQUIRE(p.collectives.size() == 1);
  CHECK(p.collectives[0].count == 2);
}

TEST_CASE("a marked backward pass is taken as marked") {
  const Profile p = profile_of(Marked(true).trace(6), two_tensors());
  CHECK(us(p.layers[1].backward.host) == 150);
  CHECK(us(p.layers[0].backward.host) == 290);
  CHECK_FALSE(says(p.assumed, "next marked phase"));
}

TEST_CASE("steps whose device records were lost do not count") {
  const Profile p = profile_of(Marked().trace(9, 3), two_tensors());
  CHECK(us(p.layers[1].backward.device) == 150);
  CHECK(says(p.assumed, "left out: they have another number of reductions"));
}

TEST_CASE("more parameters than buckets tell are dealt by bytes, and said so") {
  ProfileOptions options = two_tensors();
  for (int i = 0; i < 6; ++i)
    options.parameters.push_back({"p" + std::to_string(i), {1 << 23}, DataType::f32, Bytes(1 << 25), 2});
  const Profile p = profile_of(Marked().trace(6), options);
  REQUIRE(p.tensors.size() == 8);
  CHECK(says(p.assumed, "by equal bytes"));
  CHECK(p.tensors.front().layer == 1);
  CHECK(p.tensors.back().layer == 0);
}

TEST_CASE("without sizes of gradients there is no profile, and the reason is told") {
  CHECK_THROWS_WITH_AS((void)profile_of(Marked().trace(6)), doctest::Contains("--model"), InputError);
}

TEST_CASE("the public Nsight Systems report gives a coarse profile of its step") {
  const auto folder = test::shared_folder("traces/NERSC__sc22-dl-tutorial/derived_nsys_sqlite");
  if (!folder) return;
  const test::File file(*folder / "4gpu_baseline_nsys-rep.sqlite.gz");
  const Profile p = profile_of(trace_of(file.source()), two_tensors());
  CHECK(p.layers.size() == 8);
  CHECK(p.measured_step().value() == doctest::Approx(30.55e-3).epsilon(0.01));
  CHECK(lone_step_time(p).value() < p.measured_step().value() * 1.001);
  CHECK(lone_step_time(p).value() > p.measured_step().value() * 0.5);
}
