// profile_of: small traces built by hand, where every number is known, and the lab's own traces against its unprofiled
// measurements.
#include <stepcast/documents/reading.hpp>
#include <stepcast/extraction/fused_update.hpp>
#include <stepcast/extraction/profile_closing.hpp>
#include <stepcast/extraction/profile_of.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

using namespace stepcast;

namespace {

constexpr std::uint32_t main_thread = 0, backward_thread = 1, device_stream = 2, gloo_thread = 3;

/// A trace in the making; times in microseconds.
class Scene {
 public:
  Scene() {
    trace_.source = "scene";
    trace_.tracks = {{1, 1, false, 0}, {1, 2, false, 0}, {0, 7, true, 0}, {1, 3, false, 0}};
  }

  Event& add(std::string_view name, double start_us, double duration_us, std::uint32_t track = main_thread,
             EventKind kind = EventKind::host_op) {
    Event e;
    e.name = text(name);
    e.start_ns = std::int64_t((offset_us_ + start_us) * 1000);
    e.duration_ns = std::int64_t(duration_us * 1000);
    e.track = track;
    e.kind = kind;
    trace_.events.push_back(e);
    return trace_.events.back();
  }
  Event& forward(std::string_view name, double start_us, double duration_us, std::int64_t sequence,
                 std::string_view dims = "") {
    Event& e = add(name, start_us, duration_us);
    e.sequence = sequence_base_ + sequence;
    e.shapes = text(dims);
    return e;
  }
  void node(const std::string& name, double start_us, double duration_us, std::int64_t sequence, std::uint32_t track) {
    for (const std::string prefix : {"autograd::engine::evaluate_function: ", ""}) {
      Event& e = add(prefix + name, start_us, duration_us, track);
      e.sequence = sequence_base_ + sequence;
      e.forward_thread = 1;
    }
  }
  void accumulate(double start_us, double duration_us, std::string_view dims, std::uint32_t track = main_thread,
                  double hook_us = 0) {
    add("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", start_us, duration_us + hook_us, track);
    add("torch::autograd::AccumulateGrad", start_us, duration_us, track).shapes = text(dims);
  }
  /// A launch on the host and its kernel on the device.
  void kernel(std::string_view name, double launch_us, std::uint32_t track, double start_us, double duration_us) {
    const std::int64_t correlation = ++correlation_;
    add("cudaLaunchKernel", launch_us, 1, track, EventKind::runtime_call).correlation = correlation;
    add(name, start_us, duration_us, device_stream, EventKind::kernel).correlation = correlation;
    trace_.device_name = "accelerator";
  }
  /// Takes back the update that was drawn last, and all behind it.
  void without_update() {
    while (!std::string_view(trace_.strings[trace_.events.back().name]).starts_with("Optimizer"))
      trace_.events.pop_back();
    trace_.events.pop_back();
  }
  template <class Draw>
  Scene& steps(int count, double period_us, Draw&& draw, bool annotated = true) {
    for (int i = 0; i < count; ++i) {
      offset_us_ = 1000 + i * period_us;
      sequence_base_ = 100 * i;
      if (annotated) add("ProfilerStep#" + std::to_string(i), 0, period_us, main_thread, EventKind::annotation);
      draw(*this, i);
    }
    return *this;
  }
  [[nodiscard]] Trace trace() const {
    Trace t = trace_;
    std::stable_sort(t.events.begin(), t.events.end(), [](const Event& a, const Event& b) {
      return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.duration_ns > b.duration_ns;
    });
    return t;
  }
  StringId text(std::string_view s) {
    if (s.empty()) return 0;
    const auto [it, fresh] = ids_.emplace(std::string(s), StringId(trace_.strings.size()));
    if (fresh) trace_.strings.emplace_back(s);
    return it->second;
  }

 private:
  Trace trace_;
  std::map<std::string, StringId> ids_;
  double offset_us_ = 0;
  std::int64_t sequence_base_ = 0, correlation_ = 0;
};

/// conv (with a ReLU) and linear on the host alone. Step of 1000 us:
/// 0-10 lead-in | conv 20-120, relu 120-150 | linear 160-200 | backward 220-..., update 700-800, rest 800-1000.
void host_step(Scene& s, int) {
  s.add("aten::empty", 0, 10);
  s.forward("aten::conv2d", 20, 100, 1, "[[8,3,32,32],[16,3,5,5],[],[]]");
  s.forward("aten::convolution", 22, 90, 1);
  s.forward("aten::relu", 120, 30, 2);
  s.forward("aten::linear", 160, 40, 3, "[[8,16],[4,16],[4]]");
  s.forward("aten::t", 161, 2, 3);
  s.forward("aten::addmm", 165, 30, 4);
  s.node("AddmmBackward0", 220, 80, 4, main_thread);
  s.accumulate(300, 5, "[[4]]");
  s.node("TBackward0", 305, 5, 3, main_thread);
  s.accumulate(310, 5, "[[4,16]]");
  s.node("ReluBackward0", 325, 25, 2, main_thread);
  s.node("ConvolutionBackward0", 350, 200, 1, main_thread);
  s.accumulate(550, 10, "[[16,3,5,5]]");
  s.add("Optimizer.step#SGD.step", 700, 100, main_thread, EventKind::annotation);
  s.add("aten::add_", 710, 80);
}

double us(Seconds t) { return t.value() * 1e6; }

Trace file_trace(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  return trace_of({path.filename().string(), std::as_bytes(std::span(bytes.data(), bytes.size()))});
}
std::filesystem::path shared() { return std::filesystem::path(STEPCAST_SOURCE_DIR) / ".." / "shared"; }
bool absent(const std::filesystem::path& path) {
  if (std::filesystem::exists(path)) return false;
  MESSAGE("skipped: " << path.filename().string() << " is not here");
  return true;
}
bool mentions(const std::vector<std::string>& lines, std::string_view part) {
  return std::any_of(lines.begin(), lines.end(), [&](const auto& l) { return l.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("profile_of: host alone, every microsecond has an owner") {
  const Profile p = profile_of(Scene().steps(5, 1000, host_step).trace());
  REQUIRE(p.layers.size() == 2);
  CHECK(p.layers[0].name == "conv2d_0");
  CHECK(p.layers[1].name == "linear_0");
  CHECK(us(p.layers[0].forward.host) == doctest::Approx(10 + 100 + 30));  // the gap before, itself, the ReLU
  CHECK(us(p.layers[1].forward.host) == doctest::Approx(10 + 40));
  CHECK(us(p.layers[1].backward.host) == doctest::Approx(20 + 80 + 5 + 5 + 5));
  CHECK(us(p.layers[0].backward.host) == doctest::Approx(10 + 25 + 200 + 10));
  CHECK(us(p.optimizer.host) == doctest::Approx(100));
  CHECK(us(p.other.host) == doctest::Approx(10 + 140 + 200));
  CHECK(us(compute_time(p)) == doctest::Approx(1000));
  CHECK(us(p.measured_step()) == doctest::Approx(1000));
  CHECK(!p.has_device());
  CHECK(p.batch_samples == 8);
  REQUIRE(p.tensors.size() == 3);
  CHECK(p.tensors[0].name == "linear_0.bias");
  CHECK(p.tensors[1].name == "linear_0.weight");
  CHECK(p.tensors[2].name == "conv2d_0.weight");
  CHECK(p.tensors[2].shape == std::vector<std::int64_t>{16, 3, 5, 5});
  CHECK(p.gradient_size().value() == 4 * (4 + 64 + 1200));
  CHECK(p.backward_order == std::vector<std::uint32_t>{1, 0});
  CHECK(us(gradient_ready_times(p)[2] - forward_time(p)) == doctest::Approx(360));
}

TEST_CASE("profile_of: copies into buckets are estimated by the bytes that the update moves, of a worker alone") {
  const Profile plain = profile_of(Scene().steps(5, 1000, host_step).trace());
  // 100 us read parameters and gradients and write parameters: a copy moves two thirds of that.
  double packing = 0;
  for (const Tensor& t : plain.tensors) packing += us(t.packing.host);
  CHECK(packing == doctest::Approx(100 * 2.0 / 3).epsilon(0.01));
  CHECK(us(plain.communication.after.host) == doctest::Approx(100 * 2.0 / 3).epsilon(0.01));
  CHECK(plain.bytes_of_state == 8);
  CHECK(mentions(plain.recognised, "SGD without momentum"));
  CHECK(mentions(plain.assumed, "copies of gradients into buckets and out of them: 133"));
  const Profile momentum = profile_of(Scene()
                                          .steps(5, 1000,
                                                 [](Scene& s, int i) {
                                                   host_step(s, i);
                                                   s.add("aten::mul_", 790, 5);
                                                 })
                                          .trace());
  CHECK(momentum.bytes_of_state == 12);
  CHECK(us(momentum.communication.after.host) == doctest::Approx(40).epsilon(0.01));
}

TEST_CASE("profile_of: without sequence numbers the order links, without AccumulateGrad shapes the arguments do") {
  Trace t = Scene().steps(5, 1000, host_step).trace();
  for (Event& e : t.events) {
    e.sequence = -1;
    if (t.text(e.name) == "torch::autograd::AccumulateGrad") e.shapes = 0;
  }
  const Profile p = profile_of(t);
  REQUIRE(p.layers.size() == 2);
  CHECK(p.gradient_size().value() == 4 * (4 + 64 + 1200));
  CHECK(us(p.layers[0].backward.host) == doctest::Approx(245));
  CHECK(mentions(p.assumed, "kind and order"));
}

TEST_CASE("profile_of: without any shapes the sizes must come from a description") {
  Trace t = Scene().steps(5, 1000, host_step).trace();
  for (Event& e : t.events) e.shapes = 0;
  try {
    (void)profile_of(t);
    FAIL("sizes out of nothing");
  } catch (const InputError& e) { CHECK(e.hint.find("--model") != std::string::npos); }
  ProfileOptions options;
  for (const double elements : {1200.0, 64.0, 4.0}) {
    Tensor parameter;
    parameter.name = "module" + std::to_string(int(elements)) + ".weight";
    parameter.size = Bytes(4 * elements);
    options.parameters.push_back(parameter);
  }
  options.model = "mine";
  const Profile p = profile_of(t, options);
  CHECK(p.model == "mine");
  CHECK(p.gradient_size().value() == 4 * (4 + 64 + 1200));
  CHECK(p.tensors.back().name == "module1200.weight");
  CHECK(p.layers[0].name == "module1200");
  options.parameters.pop_back();
  CHECK_THROWS_AS((void)profile_of(t, options), InputError);
}

TEST_CASE("profile_of: without shapes the bytes of messages, or a number of parameters, are shared out") {
  const auto without_shapes = [](Trace t) {
    for (Event& e : t.events)
      if (!t.strings[e.name].starts_with("gloo")) e.shapes = 0;
    return t;
  };
  const auto sizes = [](const Profile& p) {
    std::vector<double> out;
    for (const Tensor& t : p.tensors) out.push_back(t.size.value());
    return out;
  };
  const Trace alone = without_shapes(Scene().steps(5, 1000, host_step).trace());
  ProfileOptions counted;
  counted.parameter_count = 1200;
  const Profile even = profile_of(alone, counted);
  CHECK(sizes(even) == std::vector<double>{1600, 1600, 1600});
  CHECK(mentions(even.assumed, "evenly among 3 gradients"));
  CHECK(mentions(even.missing, "input shapes"));
  // Shapes say it better.
  CHECK_THROWS_AS((void)profile_of(Scene().steps(5, 1000, host_step).trace(), counted), InputError);

  const auto two_buckets = [](Scene& s, int i) {
    host_step(s, i);
    s.add("gloo:all_reduce", 320, 10, gloo_thread, EventKind::annotation).shapes = s.text("[[68]]");
    s.add("gloo:all_reduce", 570, 90, gloo_thread, EventKind::annotation).shapes = s.text("[[1200]]");
  };
  const Trace together = without_shapes(Scene().steps(5, 1000, two_buckets).trace());
  const Profile by_messages = profile_of(together);
  CHECK(sizes(by_messages) == std::vector<double>{136, 136, 4800});
  CHECK(by_messages.messages.size() == 2);
  CHECK(mentions(by_messages.assumed, "the bytes of each reduction"));
  // Two messages that follow one another took the gradients before them together; a loss among them took none.
  const auto in_a_row = [](Scene& s, int i) {
    host_step(s, i);
    const std::pair<int, const char*> messages[] = {{570, "[[12]]"}, {600, "[[1]]"}, {610, "[[1]]"}, {620, "[[1200]]"}};
    for (const auto& [start, elements] : messages)
      s.add("gloo:all_reduce", start, 8, gloo_thread, EventKind::annotation).shapes = s.text(elements);
  };
  CHECK(sizes(profile_of(without_shapes(Scene().steps(5, 1000, in_a_row).trace()))) ==
        std::vector<double>{1616, 1616, 1616});
  // Half as many bytes travel as there are: compressed.
  counted.parameter_count = 2 * 1268;
  CHECK(sizes(profile_of(together, counted)) == std::vector<double>{272, 272, 9600});
}

TEST_CASE("profile_of: a trace without backward pass is refused") {
  const auto inference = [](Scene& s, int) { s.forward("aten::conv2d", 20, 100, 1, "[[8,3,32,32],[16,3,5,5]]"); };
  try {
    (void)profile_of(Scene().steps(4, 1000, inference).trace());
    FAIL("a profile of no training");
  } catch (const InputError& e) { CHECK(e.found.find("no backward pass") != std::string::npos); }
  CHECK_THROWS_AS((void)profile_of(Trace{}), InputError);
  // A pipeline without bubbles takes weight gradients by torch.autograd.grad: no node accumulates them.
  const auto apart = [](Scene& s, int) {
    s.forward("aten::linear", 20, 100, 1, "[[8,64],[10,64],[10]]");
    s.node("AddmmBackward0", 200, 100, 1, main_thread);
  };
  try {
    (void)profile_of(Scene().steps(4, 1000, apart).trace());
    FAIL("a profile without gradients");
  } catch (const InputError& e) { CHECK(e.found.find("without any of them") != std::string::npos); }
}

TEST_CASE("profile_of: device work goes to the layer that launched it, waiting is no work") {
  const char* wait = nullptr;
  SUBCASE("CUDA") { wait = "cudaStreamSynchronize"; }
  SUBCASE("HIP") { wait = "hipDeviceSynchronize"; }
  SUBCASE("MUSA") { wait = "musaStreamSynchronize"; }
  SUBCASE("SYCL") { wait = "urQueueFinish"; }
  SUBCASE("SYCL, an event") { wait = "urEventWait"; }
  SUBCASE("SYCL before 2025") { wait = "piQueueFinish"; }
  const auto step = [&](Scene& s, int) {
    s.add("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 30, main_thread, EventKind::annotation);
    s.forward("aten::conv2d", 30, 20, 1, "[[8,3,32,32],[16,3,5,5],[],[]]");
    s.kernel("sm80_xmma_fprop_implicit_gemm_nchw", 35, main_thread, 60, 300);
    s.forward("aten::batch_norm", 50, 20, 2, "[[8,16,28,28],[16],[16]]");
    s.kernel("void cudnn::bn_fw_tr_1C11_kernel_NCHW", 55, main_thread, 360, 50);
    s.node("NativeBatchNormBackward0", 80, 20, 2, backward_thread);
    s.kernel("void cudnn::bn_bw_1C11_kernel_new", 85, backward_thread, 410, 80);
    s.accumulate(100, 2, "[[16]]", backward_thread);
    s.accumulate(102, 2, "[[16]]", backward_thread);
    s.node("ConvolutionBackward0", 110, 20, 1, backward_thread);
    s.kernel("cutlass_80_wgrad_kernel", 115, backward_thread, 490, 400);
    s.accumulate(130, 2, "[[16,3,5,5]]", backward_thread);
    s.add("Optimizer.step#SGD.step", 140, 20, main_thread, EventKind::annotation);
    s.kernel("void at::native::multi_tensor_apply_kernel", 150, main_thread, 890, 40);
    s.add("aten::item", 160, 770);
    s.add(wait, 165, 764, main_thread, EventKind::runtime_call);
  };
  const Profile p = profile_of(Scene().steps(5, 1000, step).trace());
  REQUIRE(p.layers.size() == 2);
  CHECK(p.device == "accelerator");
  CHECK(us(p.layers[0].forward.device) == doctest::Approx(300));
  CHECK(us(p.layers[0].forward.part[KernelClass::gemm]) == doctest::Approx(300));
  CHECK(us(p.layers[1].forward.part[KernelClass::memory]) == doctest::Approx(50));
  CHECK(us(p.layers[1].backward.device) == doctest::Approx(80));
  CHECK(us(p.layers[0].backward.part[KernelClass::gemm]) == doctest::Approx(400));
  CHECK(us(p.layers[0].forward.host) == doctest::Approx(20));
  CHECK(us(p.optimizer.device) == doctest::Approx(40));
  CHECK(us(p.optimizer.host) == doctest::Approx(20));
  CHECK(us(p.input) == doctest::Approx(30));
  CHECK(p.host_waits_for_device);
  CHECK(us(compute_time(p) + p.input) == doctest::Approx(1000));
}

TEST_CASE("profile_of: one marked step of a host that runs ahead takes as long as its kernels, and nothing is scaled") {
  const auto step = [](Scene& s, int) {
    s.forward("aten::mm", 10, 20, 1, "[[64,32],[32,16]]");
    s.kernel("ampere_sgemm", 15, main_thread, 100, 9000);
    s.node("MmBackward0", 40, 20, 1, backward_thread);
    s.kernel("ampere_sgemm", 45, backward_thread, 9100, 18000);
    s.accumulate(60, 2, "[[32,16]]", backward_thread);
    s.add("Optimizer.step#SGD.step", 70, 20, main_thread, EventKind::annotation);
    s.kernel("void at::native::multi_tensor_apply_kernel", 75, main_thread, 27100, 3000);
  };
  const Profile p = profile_of(Scene().steps(1, 100, step).trace());
  CHECK(us(p.measured_step()) == doctest::Approx(9000 + 18000 + 3000));
  CHECK(us(lone_step_time(p)) == doctest::Approx(30000));
  CHECK(us(p.layers[0].forward.device) == doctest::Approx(9000));
  CHECK(us(p.layers[0].backward.device) == doctest::Approx(18000));
  CHECK(us(p.optimizer.device) == doctest::Approx(3000));
  CHECK(!mentions(p.assumed, "scaled"));
  CHECK(mentions(p.assumed, "end before their kernels do"));
  CHECK(p.cautions.empty());
}

TEST_CASE("profile_of: an update is fused where its kernels meet each parameter once") {
  for (const char* name :
       {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
        "namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous "
        "namespace)::FusedAdamMathFunctor<float, 4>",
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float, float, int>, float, float>",
        "triton_for_fused_0"})
    CHECK_MESSAGE(names_fused_update(name), name);
  // 30 of 40 us of the update, and none of what runs outside of it.
  const auto with = [](const char* kernel) {
    const auto step = [kernel](Scene& s, int) {
      s.forward("aten::mm", 10, 20, 1, "[[64,32],[32,16]]");
      s.kernel("multi_tensor_apply_kernel<FusedSgdMathFunctor>", 15, main_thread, 100, 50);
      s.node("MmBackward0", 40, 20, 1, backward_thread);
      s.kernel("ampere_sgemm", 45, backward_thread, 200, 100);
      s.accumulate(60, 2, "[[32,16]]", backward_thread);
      s.add("Optimizer.step#SGD.step", 70, 20, main_thread, EventKind::annotation);
      s.kernel(kernel, 75, main_thread, 310, 30);
      s.kernel("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", 80, main_thread,
               350, 10);
    };
    return profile_of(Scene().steps(3, 1000, step).trace()).fused_update_share;
  };
  CHECK(with("multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<2>, FusedSgdMathFunctor<float, 2>>") ==
        doctest::Approx(0.75));
  CHECK(with("multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpScalarFunctor<float, 2, 1, 1>>") == 0);
}

TEST_CASE("profile_of: parts scaled by more than a tenth are a caution, by more than three tenths an error") {
  const auto closed = [](double measured) {
    Profile p;
    p.layers.push_back({"a", PassCost{Seconds(0.02), Seconds(0)}, PassCost{Seconds(0.08), Seconds(0)}});
    p.backward_order = {0};
    p.step_times = {Seconds(measured)};
    sum_to_measured_step(p, false, Seconds(0), "one.json");
    return p;
  };
  for (const double measured : {0.095, 0.105}) CHECK(closed(measured).cautions.empty());
  for (const double measured : {0.085, 0.115}) {
    const Profile p = closed(measured);
    REQUIRE(p.cautions.size() == 1);
    CHECK(p.layers[0].forward.host.value() == doctest::Approx(0.2 * measured));
    CHECK(profile_of_json(json_of(checked(p, "p")), "p").cautions == p.cautions);
  }
  for (const double measured : {0.065, 0.135}) try {
      (void)closed(measured);
      FAIL("parts of another step");
    } catch (const InputError& e) {
      CHECK(e.where == "one.json");
      CHECK(e.hint.find("schedule(wait=1, warmup=1, active=3)") != std::string::npos);
    }
}

TEST_CASE("profile_of: what FSDP copies on a device alone is told from time in which nothing runs") {
  const auto closed = [](double for_sharding) {
    Profile p;
    p.device = "H100";
    p.layers.push_back({"a", PassCost{Seconds(0), Seconds(0.02)}, PassCost{Seconds(0), Seconds(0.06)}});
    p.backward_order = {0};
    p.step_times = {Seconds(0.1)};
    sum_to_measured_step(p, false, Seconds(for_sharding), "one.json");
    CHECK(p.other.device.value() == doctest::Approx(0.02));
    return p.assumed;
  };
  CHECK(mentions(closed(0.015), "FSDP's own copies on its one device, 15.00 ms a step"));
  CHECK(mentions(closed(0.015), "5.0 % of the step in which the device does nothing"));
  CHECK(!mentions(closed(0.03), "does nothing"));  // beside other kernels for a part of it
  CHECK(mentions(closed(0.03), "FSDP's own copies on its one device, 20.00 ms a step"));
  CHECK(!mentions(closed(0), "FSDP"));
}

TEST_CASE("profile_of: communication and the waiting that it causes are left out of a distributed run") {
  const auto step = [](Scene& s, int i) {
    host_step(s, i);
    const double shift = 1000;  // the update waits for the all-reduce
    s.add("gloo:all_reduce", 400, 1200, gloo_thread, EventKind::annotation).shapes = s.text("[[1268]]");
    s.add("torch.distributed.ddp.reducer::copy_bucket_to_grad", shift + 600, 50);
    s.add("Optimizer.step#SGD.step", shift + 700, 100, main_thread, EventKind::annotation);
  };
  const auto distributed = [&](Scene& s, int i) {
    step(s, i);
    s.add("aten::zeros", 1810, 20);
  };
  Trace t = Scene().steps(5, 2000, distributed).trace();
  // The update of the host-only step is not part of this one.
  std::erase_if(t.events, [&](const Event& e) {
    const std::int64_t at = (e.start_ns / 1000 - 1000) % 2000;
    return at == 700 || at == 710;
  });
  const Profile p = profile_of(t);
  CHECK(us(p.layers[0].backward.host) == doctest::Approx(245));
  CHECK(us(p.optimizer.host) == doctest::Approx(100));
  CHECK(us(compute_time(p)) < 1000);
  CHECK(us(p.measured_step()) == doctest::Approx(2000));
  REQUIRE(p.collectives.size() == 1);
  CHECK(p.collectives[0].operation == "allreduce");
  CHECK(p.collectives[0].count == 1);
  CHECK(p.collectives[0].size.value() == 4 * 1268);
  CHECK(us(p.collectives[0].duration) == doctest::Approx(1200));
}

TEST_CASE("profile_of: more bytes reduced than gradients found is a caution with both figures") {
  const auto reducing = [](const char* elements) {
    return profile_of(Scene()
                          .steps(5, 1000,
                                 [&](Scene& s, int i) {
                                   host_step(s, i);
                                   s.add("gloo:all_reduce", 560, 100, gloo_thread, EventKind::annotation).shapes =
                                       s.text(elements);
                                 })
                          .trace());
  };
  CHECK(reducing("[[1268]]").cautions.empty());  // 4 + 64 + 1200 elements of gradients
  CHECK(reducing("[[1300]]").cautions.empty());  // and a norm
  CHECK(reducing("[[634]]").cautions.empty());   // some strategies send less
  const Profile p = reducing("[[2560]]");
  REQUIRE(p.cautions.size() == 1);
  CHECK(p.cautions[0].find("10.0 KiB") != std::string::npos);
  CHECK(p.cautions[0].find("5.0 KiB") != std::string::npos);
}

TEST_CASE("profile_of: several steps in one mark are steps; accumulated passes and two networks in turn are one") {
  const auto marked_by_threes = [](const std::function<void(Scene&, int)>& draw) {
    Scene s;
    s.steps(15, 1000, draw, false);
    return profile_of(s.steps(5, 3000, [](Scene&, int) {}).trace());
  };
  const Profile whole = profile_of(Scene().steps(5, 1000, host_step).trace());
  const Profile p = marked_by_threes(host_step);
  CHECK(us(p.measured_step()) == doctest::Approx(1000));
  CHECK(p.gradient_size() == whole.gradient_size());
  REQUIRE(p.layers.size() == whole.layers.size());
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    CHECK(us(p.layers[l].forward.host) == doctest::Approx(us(whole.layers[l].forward.host)));
    CHECK(us(p.layers[l].backward.host) == doctest::Approx(us(whole.layers[l].backward.host)));
  }
  CHECK(us(p.optimizer.host) == doctest::Approx(100));
  CHECK(mentions(p.recognised, "each holds 3 steps"));
  CHECK(!mentions(p.assumed, "backward passes per step"));

  const Profile accumulated = marked_by_threes([](Scene& s, int i) {
    host_step(s, i);
    if (i % 3 != 2) s.without_update();
  });
  CHECK(us(accumulated.measured_step()) == doctest::Approx(3000));
  CHECK(mentions(accumulated.assumed, "3 backward passes per step"));
  // Parameters are needed by the first forward pass, gradients are ready in the last backward pass, and what lies
  // between is one more layer: two passes of each kind.
  REQUIRE(accumulated.layers.size() == whole.layers.size() + 1);
  for (std::size_t l = 0; l < whole.layers.size(); ++l) {
    CHECK(accumulated.layers[l].name == whole.layers[l].name);
    CHECK(us(accumulated.layers[l].forward.host) == doctest::Approx(us(whole.layers[l].forward.host)));
    CHECK(us(accumulated.layers[l].backward.host) == doctest::Approx(us(whole.layers[l].backward.host)));
    CHECK(accumulated.backward_order[l + 1] == whole.backward_order[l]);
  }
  CHECK(accumulated.backward_order[0] == whole.layers.size());
  CHECK(us(accumulated.layers.back().forward.host) == doctest::Approx(2 * 1000));  // with the gaps between them
  CHECK(accumulated.layers.back().backward.host == Seconds(0));
  CHECK(accumulated.gradient_size() == whole.gradient_size());
  CHECK(accumulated.batch_samples == 3 * whole.batch_samples);
  CHECK(accumulated.activation_memory.value() == whole.activation_memory.value());
  const Profile in_turn = marked_by_threes([](Scene& s, int i) {
    host_step(s, i);
    if (i % 3 == 1) s.accumulate(565, 5, "[[7]]");
  });
  CHECK(us(in_turn.measured_step()) == doctest::Approx(3000));
}

TEST_CASE("profile_of: a host that reads back a norm between two collectives waits for the device, and packs nothing") {
  const auto step = [](Scene& s, int) {
    s.forward("aten::conv2d", 20, 60, 1, "[[8,3,32,32],[16,3,5,5],[],[]]");
    s.kernel("sm80_xmma_fprop_implicit_gemm_nchw", 30, main_thread, 60, 200);
    s.node("ConvolutionBackward0", 90, 60, 1, backward_thread);
    s.kernel("cutlass_80_wgrad_kernel", 100, backward_thread, 260, 400);
    s.accumulate(140, 5, "[[16,3,5,5]]", backward_thread);
    s.add("c10d::allreduce_", 160, 10);
    s.add("aten::item", 180, 500);
    s.add("cudaStreamSynchronize", 185, 490, main_thread, EventKind::runtime_call);
    s.add("c10d::allreduce_", 690, 10);
    s.add("Optimizer.step#SGD.step", 720, 50, main_thread, EventKind::annotation);
  };
  const Profile p = profile_of(Scene().steps(5, 1000, step).trace());
  CHECK(p.host_waits_for_device);
  // 10 us of the collectives each, the 10 us around the copy, and the gaps between them.
  CHECK(mentions(p.recognised, "their packing and waiting (60.00 us of host time"));
}

TEST_CASE("profile_of: gradient hooks of a distributed run are no computing") {
  const auto step = [](Scene& s, int) {
    s.forward("aten::conv2d", 20, 100, 1, "[[8,3,32,32],[16,3,5,5],[],[]]");
    s.node("ConvolutionBackward0", 120, 200, 1, main_thread);
    s.accumulate(320, 10, "[[16,3,5,5]]", main_thread, 300);
    s.add("aten::mul", 340, 100);
    s.add("c10d::allreduce_", 450, 150);
    s.add("Optimizer.step#SGD.step", 900, 100, main_thread, EventKind::annotation);
  };
  const Profile p = profile_of(Scene().steps(5, 1000, step).trace());
  CHECK(us(p.layers[0].backward.host) == doctest::Approx(210));
  CHECK(us(compute_time(p)) == doctest::Approx(20 + 100 + 210 + 100));
  // Of the hook's 300 us 150 issue the message, and 30 behind the call wait for it.
  CHECK(us(p.communication.message) == doctest::Approx(150));
  REQUIRE(p.tensors.size() == 1);
  CHECK(us(p.tensors[0].packing.host) == doctest::Approx(120));
}

TEST_CASE(
    "profile_of: what a worker does for its messages is kept by what causes it, and messages by what they carry") {
  const auto step = [](Scene& s, int i) {
    s.add("DistributedDataParallel.forward", 10, 220, main_thread, EventKind::annotation);
    s.add("aten::copy_", 20, 30);  // buffers, ahead of the first operator of the model
    s.forward("aten::conv2d", 60, 60, 1, "[[8,3,32,32],[16,3,5,5],[],[]]");
    s.kernel("sm80_xmma_fprop_implicit_gemm_nchw", 70, main_thread, 80, 100);
    s.forward("aten::linear", 130, 60, 2, "[[8,16],[4,16]]");
    s.kernel("sm80_xmma_gemm_f32f32", 140, main_thread, 180, 50);
    s.node("TBackward0", 300, 50, 2, backward_thread);
    s.accumulate(350, 10, "[[4,16]]", backward_thread, 40);
    s.add("torch::distributed::reducer::mul_out", 362, 30, backward_thread);
    s.kernel("void at::native::vectorized_elementwise_kernel", 364, backward_thread, 400, 7);
    s.node("ConvolutionBackward0", 400, 50, 1, backward_thread);
    s.accumulate(450, 10, "[[16,3,5,5]]", backward_thread, 120);
    s.add("torch::distributed::reducer::mul_out", 462, 20, backward_thread);
    s.kernel("void at::native::vectorized_elementwise_kernel", 464, backward_thread, 500, 5);
    s.add("c10d::allreduce_", 490, 60, backward_thread);
    Event& all_reduce =
        s.add("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 560, 100 + 10 * i, device_stream, EventKind::kernel);
    all_reduce.shapes = s.text("[[1264]]");
    s.add("torch.distributed.ddp.reducer::copy_bucket_to_grad", 580, 40, backward_thread);
    s.kernel("Memcpy DtoD (Device -> Device)", 590, backward_thread, 690, 3);
    s.add("c10d::barrier", 640, 1, backward_thread);
    s.add("Optimizer.step#SGD.step", 700, 100, main_thread, EventKind::annotation);
  };
  const Profile p = profile_of(Scene().steps(5, 1000, step).trace());
  REQUIRE(p.tensors.size() == 2);
  CHECK(us(p.tensors[0].packing.host) == doctest::Approx(40));
  CHECK(us(p.tensors[0].packing.device) == doctest::Approx(7));
  CHECK(us(p.tensors[1].packing.host) == doctest::Approx(60));
  CHECK(us(p.tensors[1].packing.device) == doctest::Approx(5));
  CHECK(us(p.communication.message) == doctest::Approx(60));
  CHECK(us(p.communication.before.host) == doctest::Approx(30 + 20));  // with the gap before it
  CHECK(us(p.communication.after.host) == doctest::Approx(40 + 20 + 1));
  CHECK(us(p.communication.after.device) == doctest::Approx(3));
  CHECK(profile_of_json(json_of(p), "json").communication == p.communication);
  CHECK(json_of(profile_of_json(json_of(p), "json")) == json_of(p));
}

TEST_CASE("profile_of: of what FSDP does around its collectives copies go by the bytes, the rest is FSDP's own") {
  const auto sharded = [](Scene& s, int i) {
    host_step(s, i);
    // A gather before the first layer: 3 us of work around 7 us from the call to the end of the collective.
    s.add("FSDP::pre_forward (0)", 10, 10, main_thread, EventKind::annotation);
    s.add("c10d::_allgather_base_", 12, 1);
    s.add("gloo:all_gather", 13, 6, gloo_thread, EventKind::annotation);
    s.add("fsdp::split_with_sizes_copy", 19, 1);
    s.add("aten::split_with_sizes_copy", 19.2, 0.8);  // the same once more
    // Gradients after the backward pass: 20 us of work around 40 us of the collective.
    s.add("FSDP::post_backward_reduce (0)", 600, 60, main_thread, EventKind::annotation);
    s.add("c10d::_reduce_scatter_base_", 610, 2);
    s.add("gloo:reduce_scatter", 612, 38, gloo_thread, EventKind::annotation);
    s.add("aten::view", 650, 10);
  };
  const Profile alone = profile_of(Scene().steps(5, 1000, host_step).trace());
  const Profile p = profile_of(Scene().steps(5, 1000, sharded).trace());
  CHECK(us(p.layers[1].backward.host) == doctest::Approx(us(alone.layers[1].backward.host)));
  // Gathered once and scattered once: three copies of all bytes, one of which is no copy of DDP's.
  PassCost packing;
  for (const Tensor& t : p.tensors) packing += t.packing;
  CHECK(us(packing.host) == doctest::Approx(1.0 / 3).epsilon(0.01));
  CHECK(us(p.communication.after.host) == doctest::Approx(1.0 / 3).epsilon(0.01));
  CHECK(us(p.communication.sharding.host) == doctest::Approx((23.0 - 1) / 2).epsilon(0.001));
  CHECK(profile_of_json(json_of(p), "json").communication == p.communication);
  CHECK(p.tensors.back().packing.host / packing.host == doctest::Approx(1200.0 / 1268).epsilon(0.001));
  CHECK(mentions(p.assumed, "the rest only plans that shard pay"));
}

TEST_CASE("profile_of: a copy to the host in which the host waits is waiting, a slow launch is work") {
  const auto step = [](std::string_view copy, double host_us) {
    return [=](Scene& s, int) {
      s.forward("aten::conv2d", 20, 60, 1, "[[8,3,32,32],[16,3,5,5],[],[]]");
      s.kernel("sm80_xmma_fprop_implicit_gemm_nchw", 30, main_thread, 60, 400);
      s.node("ConvolutionBackward0", 90, 60, 1, backward_thread);
      s.kernel("cutlass_80_wgrad_kernel", 100, backward_thread, 460, 300);
      s.accumulate(140, 5, "[[16,3,5,5]]", backward_thread);
      for (int k = 0; k < 9; ++k)
        s.kernel("void at::native::vectorized_elementwise_kernel", 150 + 2 * k, main_thread, 761 + k, 1);
      s.add("aten::item", 200, host_us + 10);
      s.kernel(copy, 205, main_thread, 780, 2);
      s.add("Optimizer.step#SGD.step", 900, 50, main_thread, EventKind::annotation);
    };
  };
  const auto profile = [&](std::string_view copy, EventKind kind) {
    Trace t = Scene().steps(5, 1000, step(copy, 590)).trace();
    for (Event& e : t.events) {
      const std::string_view name = t.strings[e.name];
      if (name == copy) e.kind = kind;
      if (name == "cudaLaunchKernel" && (e.start_ns / 1000 - 1000) % 1000 == 205) e.duration_ns = 580'000;
    }
    return profile_of(t);
  };
  CHECK(profile("Memcpy DtoH (Device -> Pageable)", EventKind::copy).host_waits_for_device);
  CHECK_FALSE(profile("void at::native::reduce_kernel", EventKind::kernel).host_waits_for_device);
}

TEST_CASE("profile_of: a blocking collective inside an operator is waiting up to what its thread does next") {
  const auto step = [](Scene& s, int) {
    s.forward("aten::linear", 20, 100, 1, "[[8,16],[4,16]]");
    s.forward("ColumnParallel", 120, 300, 2);
    s.add("c10d::allreduce_", 130, 20);  // the wait for it lasts until the next operator
    s.add("aten::mul", 350, 60);
    s.node("ColumnParallelBackward", 450, 50, 2, main_thread);
    s.node("TBackward0", 500, 100, 1, main_thread);
    s.accumulate(600, 10, "[[4,16]]");
    s.add("Optimizer.step#SGD.step", 700, 100, main_thread, EventKind::annotation);
  };
  const Profile p = profile_of(Scene().steps(5, 1000, step).trace());
  REQUIRE(p.layers.size() == 1);
  CHECK(us(p.layers[0].forward.host) == doctest::Approx(20 - 20 + 100 + 300 - 220 + 20));
}

TEST_CASE("profile_of: a compiled model is cut into slices, so that the device need not wait for the last launch") {
  const auto step = [](Scene& s, int) {
    s.forward("CompiledFunction", 0, 200, 1);
    for (int k = 0; k < 80; ++k) s.kernel("triton_poi_fused_add", 1 + 2 * k, main_thread, 5 + 4 * k, 4);
    s.node("CompiledFunctionBackward", 210, 200, 1, backward_thread);
    for (int k = 0; k < 80; ++k) s.kernel("triton_tem_fused_mm", 211 + 2 * k, backward_thread, 325 + 8 * k, 8);
    s.accumulate(410, 5, "[[64,64]]", backward_thread);
    s.add("Optimizer.step#SGD.step", 420, 20, main_thread, EventKind::annotation);
    s.kernel("multi_tensor_apply_kernel", 430, main_thread, 965, 30);
  };
  const Profile p = profile_of(Scene().steps(6, 1000, step).trace());
  REQUIRE(p.layers.size() == 16);
  CHECK(p.backward_order.front() == 15);
  CHECK(!p.layers.front().slice);
  CHECK(std::all_of(p.layers.begin() + 1, p.layers.end(), [](const Layer& l) { return l.slice; }));
  CHECK(profile_of_json(json_of(p), "p").layers.back().slice);
  CHECK(p.tensors[0].layer == 0);
  double gemm = 0, total = 0;
  for (const Layer& layer : p.layers) {
    gemm += us(layer.backward.part[KernelClass::gemm]);
    total += us(layer.forward.device + layer.backward.device);
  }
  CHECK(gemm == doctest::Approx(640).epsilon(0.01));
  CHECK(total == doctest::Approx(960).epsilon(0.01));
  CHECK(!p.host_waits_for_device);
  CHECK(us(compute_time(p)) == doctest::Approx(1000).epsilon(0.02));
  CHECK(mentions(p.assumed, "slices"));
}

TEST_CASE("profile_of: any trace gives a valid profile or one InputError") {
  const std::vector<std::string> names = {"aten::conv2d",
                                          "aten::linear",
                                          "aten::t",
                                          "aten::add_",
                                          "aten::zero_",
                                          "autograd::engine::evaluate_function: X",
                                          "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
                                          "torch::autograd::AccumulateGrad",
                                          "ConvolutionBackward0",
                                          "Optimizer.step#SGD.step",
                                          "ProfilerStep#3",
                                          "ProfilerStep#4",
                                          "ProfilerStep#5",
                                          "DistributedDataParallel.forward",
                                          "c10d::allreduce_",
                                          "nccl:all_reduce",
                                          "cudaLaunchKernel",
                                          "cudaStreamSynchronize",
                                          "enumerate(DataLoader)#x",
                                          "ncclDevKernel_AllReduce_Sum_f32",
                                          "void gemm",
                                          ""};
  std::mt19937_64 random(11);
  const auto whole = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int profiles = 0;
  for (int i = 0; i < 4000; ++i) {
    Scene s;
    for (int n = whole(0, 60); n > 0; --n) {
      const bool device = whole(0, 4) == 0;
      Event& e = s.add(names[std::size_t(whole(0, int(names.size()) - 1))], whole(0, 500), whole(0, 200),
                       device ? device_stream : std::uint32_t(whole(0, 1)), EventKind(whole(0, 4)));
      if (device) e.kind = EventKind::kernel;
      e.sequence = whole(-1, 6);
      e.correlation = whole(-1, 6);
      e.forward_thread = whole(-1, 1);
      if (whole(0, 1) == 1) e.shapes = s.text("[[8,3,9,9],[4,3,5,5],[4]]");
      if (whole(0, 9) == 0) e.shapes = s.text("[[");
    }
    try {
      (void)checked(profile_of(s.trace()), "random");
      ++profiles;
    } catch (const InputError& e) { CHECK(std::string_view(e.what()).size() > 10); }
  }
  CHECK(profiles > 50);
}

TEST_CASE("profile_of: two backward passes a step are gradient accumulation") {
  const auto step = [](Scene& s, int) {
    for (const int pass : {0, 1}) {
      const double at = 400.0 * pass;
      s.forward("aten::conv2d", at + 20, 100, 10 * pass + 1, "[[8,3,32,32],[16,3,5,5],[],[]]");
      s.node("ConvolutionBackward0", at + 120, 200, 10 * pass + 1, main_thread);
      s.accumulate(at + 320, 10, "[[16,3,5,5]]");
    }
    s.add("Optimizer.step#SGD.step", 800, 100, main_thread, EventKind::annotation);
  };
  const Profile p = profile_of(Scene().steps(5, 1000, step).trace());
  CHECK(p.tensors.size() == 1);
  CHECK(p.gradient_size().value() == 4800);
  CHECK(mentions(p.assumed, "backward passes per step"));
  CHECK(us(compute_time(p)) == doctest::Approx(1000));
}

TEST_CASE("profile_of: without step annotations updates or forward passes delimit the steps") {
  const Profile updates = profile_of(Scene().steps(5, 1000, host_step, false).trace());
  CHECK(updates.step_times.size() == 4);
  CHECK(us(updates.measured_step()) == doctest::Approx(1000));
  CHECK(mentions(updates.assumed, "optimizer updates"));
  Trace t = Scene().steps(5, 1000, host_step, false).trace();
  std::erase_if(t.events, [&](const Event& e) { return t.text(e.name).starts_with("Optimizer"); });
  const Profile passes = profile_of(t);
  CHECK(us(passes.measured_step()) == doctest::Approx(1000));
  CHECK(passes.gradient_size().value() == 4 * (4 + 64 + 1200));
  CHECK(mentions(passes.assumed, "forward passes"));
}

TEST_CASE("profile_of: of several ranks the median one stands for all") {
  std::vector<Trace> ranks;
  for (const double period : {1200.0, 1000.0, 1100.0}) ranks.push_back(Scene().steps(5, period, host_step).trace());
  const Profile p = profile_of(ranks);
  CHECK(us(compute_time(p)) == doctest::Approx(1100));
  CHECK(p.traced_workers == 3);
  CHECK(mentions(p.recognised, "3 ranks"));
}

TEST_CASE("lab: profiles of single-worker traces agree with unprofiled measurements") {
  struct Case {
    const char* model;
    double bytes;
    std::size_t tensors;
  };
  for (const Case& c : {Case{"resnet18", 46'758'048, 62}, Case{"tfm4x256", 16'807'744, 54}}) {
    CAPTURE(c.model);
    const auto path = shared() / "lab/traces" / (std::string(c.model) + "_w1_solo_rank0.json.gz");
    const auto truth_path = shared() / "lab" / ("gradients_" + std::string(c.model) + ".json");
    if (absent(path) || absent(truth_path)) continue;
    const Profile p = profile_of(file_trace(path));
    std::ifstream truth_file(truth_path);
    const auto truth = nlohmann::json::parse(truth_file);
    CHECK(p.gradient_size().value() == c.bytes);
    REQUIRE(p.tensors.size() == c.tensors);
    CHECK(compute_time(p) / p.measured_step() == doctest::Approx(1).epsilon(0.01));
    // Where in the backward pass each gradient becomes ready: same order, within 3 % of the pass.
    const std::vector<Seconds> ready = gradient_ready_times(p);
    for (std::size_t i = 0; i < c.tensors; ++i) {
      CAPTURE(p.tensors[i].name);
      CHECK(p.tensors[i].size.value() == truth["gradients"][i]["bytes"].get<double>());
      const double share = (ready[i] - forward_time(p)) / backward_time(p);
      const double measured = truth["gradients"][i]["ready_ms"].get<double>() / truth["backward_ms"].get<double>();
      CHECK(std::abs(share - measured) < 0.03);
    }
  }
}

TEST_CASE("lab: distributed runs and old traces of the same model have the same gradients") {
  for (const char* name :
       {"resnet18_w2_ddp25_1000mbit_rank0", "resnet18_w2_wfbp_1000mbit_rank1", "resnet18_w2_psgd1_1000mbit_rank0",
        "legacy_resnet18_w1_solo_rank0", "legacy_resnet18_w2_ddp25_1000mbit_rank0"}) {
    CAPTURE(name);
    const auto path = shared() / "lab/traces" / (std::string(name) + ".json.gz");
    if (absent(path)) continue;
    const Profile p = profile_of(file_trace(path));
    CHECK(p.model == "resnet18");
    CHECK(p.tensors.size() == 62);
    CHECK(p.gradient_size().value() == 46'758'048);
    CHECK(p.layers.size() == 41);
    const bool solo = std::string_view(name).find("solo") != std::string_view::npos;
    CHECK((compute_time(p) / p.measured_step() > 0.98) == solo);
  }
  const auto old = shared() / "lab/traces/legacy_tfm4x256_w1_solo_rank0.json.gz";
  if (!absent(old)) CHECK_THROWS_AS((void)profile_of(file_trace(old)), InputError);
}

TEST_CASE("public traces: ResNet-50 with and without shapes") {
  struct Case {
    const char* path;
    bool single;
  };
  for (const Case& c : {Case{"pytorch__kineto/resnet50_num_workers_0__worker0.pt.trace.json.gz", true},
                        Case{"pytorch__kineto/resnet50_num_workers_0__worker0.1623143566756.pt.trace.json.gz", true},
                        Case{"facebookresearch__HolisticTraceAnalysis/nccl_parser_config__nccl_data.json.gz", false}}) {
    CAPTURE(c.path);
    const auto path = shared() / "traces" / c.path;
    if (absent(path)) continue;
    const Profile p = profile_of(file_trace(path));
    CHECK(p.model == "resnet50");
    CHECK(p.tensors.size() == 161);
    CHECK(p.gradient_size().value() == 4 * 25'557'032.0);
    CHECK(p.layers.size() == 107);
    CHECK(p.has_device());
    const double share = (compute_time(p) + p.input) / p.measured_step();
    if (c.single) CHECK(share == doctest::Approx(1).epsilon(0.04));
    else CHECK(share < 1);
    if (!c.single) CHECK(mentions(p.assumed, "the model is resnet50"));
  }
}

TEST_CASE("shipped jobs of PyTorch 2.15: ranks join, and a step has the collectives that the job issued") {
  struct Job {
    const char* name;
    std::vector<std::pair<std::string, std::int64_t>> collectives;  // operation, and how many of a role a step
  };
  // Counted by the process groups themselves while the traces were recorded: 1, 27 and 8 operations a step.
  for (const Job& job :
       {Job{"ddp", {{"allreduce", 1}}}, Job{"fsdp2", {{"allgather", 9}, {"allgather", 9}, {"allreduce", 9}}},
        Job{"1f1b", {{"recv", 4}, {"send", 4}}}}) {
    CAPTURE(job.name);
    std::vector<Trace> ranks;
    for (const std::string rank : {"0", "1"})
      ranks.push_back(file_trace(std::filesystem::path(STEPCAST_SOURCE_DIR) / "profiles/examples" /
                                 ("gpt-cpu-" + std::string(job.name) + "-rank" + rank + ".pt.trace.json.gz")));
    const Profile p = profile_of(ranks);
    CHECK(p.ranks.size() == 2);
    CHECK(p.traced_workers == 2);
    CHECK(p.unclassified_share < 0.02);
    REQUIRE(p.collectives.size() == job.collectives.size());
    for (std::size_t i = 0; i < job.collectives.size(); ++i) {
      CHECK(p.collectives[i].operation == job.collectives[i].first);
      CHECK(p.collectives[i].count == job.collectives[i].second);
    }
  }
}

TEST_CASE("shipped jobs of PyTorch 2.15: the same model alone and under DDP has the same gradients") {
  const auto examples = std::filesystem::path(STEPCAST_SOURCE_DIR) / "profiles/examples";
  const Profile alone = profile_of(file_trace(examples / "gpt-cpu-1-worker.pt.trace.json.gz"));
  const Profile ddp = profile_of(file_trace(examples / "gpt-cpu-ddp-rank0.pt.trace.json.gz"));
  CHECK(alone.tensors.size() == 102);
  CHECK(ddp.tensors.size() == 102);
  // 2000 x 256 words twice, with a bias once; 128 x 256 positions; 6 layers; the last norm.
  const double layer = 4 * (256 * 256 + 256) + 2 * 4 * 256 * 256 + 5 * 256 + 4 * 256;
  CHECK(alone.gradient_size().value() == 4 * (2 * 2000 * 256 + 2000 + 128 * 256 + 6 * layer + 2 * 256));
  CHECK(ddp.gradient_size().value() == alone.gradient_size().value());
  CHECK(alone.collectives.empty());
}
