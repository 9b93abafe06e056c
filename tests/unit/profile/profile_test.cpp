// Profile: invariants, the two-stream recurrence, JSON round trip and refusal of bad input, shipped models.
#include <stepcast/profile/profile.hpp>
#include <stepcast/roofline/shipped_models.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>

using namespace stepcast;

namespace {

PassCost cost(double host_ms, double device_ms = 0, double gemm_ms = 0, double memory_ms = 0) {
  return {milliseconds(host_ms), milliseconds(device_ms), milliseconds(gemm_ms), milliseconds(memory_ms)};
}

Tensor tensor(std::string name, std::vector<std::int64_t> shape, std::uint32_t layer) {
  Tensor t;
  t.name = std::move(name);
  t.shape = std::move(shape);
  double elements = 1;
  for (const auto d : t.shape) elements *= double(d);
  t.size = Bytes(elements * 4);
  t.layer = layer;
  return t;
}

/// Two layers on a device: the first is launch-bound in the forward pass, the second device-bound.
Profile two_layers() {
  Profile p;
  p.model = "two layers";
  p.device = "accelerator";
  p.layers = {{"first", cost(2, 1, 0.5, 0.5), cost(1, 4)}, {"second", cost(1, 5), cost(1, 6)}};
  p.backward_order = {1, 0};
  p.tensors = {tensor("second.weight", {10, 20}, 1), tensor("first.weight", {5}, 0)};
  p.optimizer = cost(3, 1);
  p.other = cost(0.5, 0);
  p.step_times = {milliseconds(22), milliseconds(24), milliseconds(23)};
  return p;
}

bool equal(const Layer& a, const Layer& b) {
  return a.name == b.name && a.forward == b.forward && a.backward == b.backward && a.input_shape == b.input_shape &&
         a.input_dtype == b.input_dtype && a.kept == b.kept;
}
bool equal(const Tensor& a, const Tensor& b) {
  return a.name == b.name && a.shape == b.shape && a.dtype == b.dtype && a.size == b.size && a.layer == b.layer;
}
bool equal(const ObservedCollective& a, const ObservedCollective& b) {
  return a.operation == b.operation && a.count == b.count && a.size == b.size && a.duration == b.duration &&
         a.waiting == b.waiting && a.group_size == b.group_size && a.source == b.source && a.role == b.role;
}
bool equal(const TracedRank& a, const TracedRank& b) {
  return a.rank == b.rank && a.source == b.source && a.step == b.step && a.transfer == b.transfer &&
         a.waiting == b.waiting && a.late == b.late && a.clock_offset == b.clock_offset &&
         a.clock_residual == b.clock_residual;
}
bool equal(const TransferTimes& a, const TransferTimes& b) {
  return a.operation == b.operation && a.workers == b.workers && a.per_machine == b.per_machine && a.sizes == b.sizes &&
         a.times == b.times && a.library == b.library;
}
template <class T>
bool all_equal(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const T& x, const T& y) { return equal(x, y); });
}
bool equal(const Profile& a, const Profile& b) {
  return a.model == b.model && a.device == b.device && all_equal(a.layers, b.layers) &&
         a.backward_order == b.backward_order && all_equal(a.ranks, b.ranks) && a.lateness == b.lateness &&
         all_equal(a.tensors, b.tensors) && a.optimizer == b.optimizer && a.other == b.other && a.input == b.input &&
         a.input_period == b.input_period && a.host_waits_for_device == b.host_waits_for_device &&
         a.batch_samples == b.batch_samples && a.activation_memory == b.activation_memory &&
         a.step_times == b.step_times && all_equal(a.collectives, b.collectives) &&
         all_equal(a.transfers, b.transfers) && a.unclassified_share == b.unclassified_share &&
         a.half_precision_share == b.half_precision_share && a.tf32_share == b.tf32_share &&
         a.fused_update_share == b.fused_update_share && a.traced_workers == b.traced_workers &&
         a.provenance == b.provenance && a.recognised == b.recognised && a.missing == b.missing &&
         a.assumed == b.assumed;
}

class RandomProfiles {
 public:
  explicit RandomProfiles(unsigned seed) : random_(seed) {}

  Profile next() {
    Profile p;
    p.model = text();
    if (whole(0, 1) == 1) p.device = "d" + text();
    const auto n = std::size_t(whole(1, 12));
    for (std::size_t l = 0; l < n; ++l) {
      p.layers.push_back({std::to_string(l) + text(), any_cost(p), any_cost(p)});
      if (whole(0, 1) == 1) p.layers.back().input_shape = {whole(1, 64), whole(1, 512)};
      if (whole(0, 1) == 1 && !p.layers.back().input_shape.empty()) p.layers.back().input_dtype = DataType::bf16;
      if (whole(0, 2) == 0) p.layers.back().kept = Bytes(double(whole(0, 1 << 30)));
    }
    p.backward_order.resize(n);
    std::iota(p.backward_order.rbegin(), p.backward_order.rend(), 0u);
    if (whole(0, 2) == 0) std::shuffle(p.backward_order.begin(), p.backward_order.end(), random_);
    for (const std::uint32_t layer : p.backward_order)
      for (auto k = whole(0, 3); k > 0; --k) p.tensors.push_back(any_tensor(std::to_string(p.tensors.size()), layer));
    p.optimizer = any_cost(p);
    p.other = any_cost(p);
    p.input = time();
    p.input_period = time();
    p.host_waits_for_device = whole(0, 1) == 1;
    p.batch_samples = double(whole(0, 512));
    p.activation_memory = Bytes(std::floor(real() * 1e9));
    for (auto k = whole(0, 4); k > 0; --k) p.step_times.push_back(time());
    for (auto k = whole(0, 3); k > 0; --k)
      p.collectives.push_back({"op" + text(), whole(0, 9), Bytes(real() * 1e8), time(), time(),
                               whole(0, 1) == 0 ? -1 : 8, BytesSource(whole(0, 3)),
                               CollectiveRole(whole(0, std::int64_t(collective_roles) - 1))});
    for (auto k = whole(0, 2); k > 0; --k)
      p.transfers.push_back(
          {"op" + text(), 2 * whole(1, 64), whole(0, 1) == 0 ? -1 : 2, {Bytes(1 + real())}, {Seconds(1e-9 + real())}});
    for (auto k = whole(0, 2); k > 0; --k)
      p.ranks.push_back({whole(0, 9), text(), time(), time(), time(), time(), -time(), time()});
    p.lateness = text();
    p.unclassified_share = whole(0, 1) == 0 ? -1 : real();
    p.half_precision_share = whole(0, 1) == 0 ? 0 : real();
    p.tf32_share = whole(0, 1) == 0 ? 0 : real();
    p.fused_update_share = whole(0, 1) == 0 ? 0 : real();
    p.traced_workers = whole(1, 1024);
    p.provenance = text();
    p.recognised = {text(), text()};
    p.assumed = {text()};
    return p;
  }

 private:
  std::int64_t whole(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  double real() { return std::uniform_real_distribution<double>(0, 1)(random_); }
  /// Times over fifteen orders of magnitude, zero and a denormal included.
  Seconds time() {
    if (whole(0, 9) == 0) return Seconds(0);
    if (whole(0, 19) == 0) return Seconds(5e-324);
    return Seconds(std::exp(real() * 34 - 27));
  }
  PassCost any_cost(const Profile& p) {
    PassCost c{time(), {}};
    if (!p.has_device()) return c;
    c.device = time();
    c.part[KernelClass::gemm] = c.device * (0.5 * real());
    c.part[KernelClass::memory] = c.device * (0.5 * real());
    return c;
  }
  Tensor any_tensor(std::string name, std::uint32_t layer) {
    Tensor t;
    t.name = std::move(name);
    t.layer = layer;
    t.dtype = DataType(whole(0, int(DataType::f8)));
    double elements = double(whole(1, 1000));
    for (auto d = whole(0, 4); d > 0; --d) t.shape.push_back(whole(1, 64));
    if (!t.shape.empty()) {
      elements = 1;
      for (const auto d : t.shape) elements *= double(d);
    }
    t.size = Bytes(elements * size_of(t.dtype));
    return t;
  }
  std::string text() {
    static const std::vector<std::string> words = {"",  "conv1", "a \"quoted\" name", "back\\slash", "new\nline",
                                                   "µ", "日本",  "/slash~tilde",      "tab\t",       "null"};
    return words[std::size_t(whole(0, std::int64_t(words.size()) - 1))];
  }
  std::mt19937_64 random_;
};

InputError refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& e) { return e; }
  FAIL("nothing was refused");
  return InputError("", "", "");
}

std::string with(const Profile& p, const std::string& from, const std::string& to) {
  std::string json = json_of(p);
  const std::size_t at = json.find(from);
  REQUIRE(at != std::string::npos);
  return json.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("profile: the recurrence by hand") {
  const Profile p = checked(two_layers(), "test");
  // Host: 2, 3 | 4, 5 | 8 | 8.5.  Device: 3, 8 | 14, 18 | 19 | 19.
  CHECK(forward_time(p).value() == doctest::Approx(8e-3));
  CHECK(backward_time(p).value() == doctest::Approx(10e-3));
  CHECK(compute_time(p).value() == doctest::Approx(19e-3));
  const std::vector<Seconds> ready = gradient_ready_times(p);
  REQUIRE(ready.size() == 2);
  CHECK(ready[0].value() == doctest::Approx(14e-3));
  CHECK(ready[1].value() == doctest::Approx(18e-3));
  CHECK(p.measured_step().value() == doctest::Approx(23e-3));
  CHECK(p.gradient_size().value() == 820);
}

TEST_CASE("profile: a launch-bound profile is as long as its host; without a device the host is all") {
  Profile p = two_layers();
  p.optimizer.host = milliseconds(100);
  CHECK(compute_time(p).value() == doctest::Approx(106e-3));  // issued at 105, on the device until 106
  p.device.clear();
  for (Layer& layer : p.layers) layer = {layer.name, cost(2), cost(3)};
  p.optimizer = p.other = cost(1);
  CHECK(compute_time(checked(p, "test")).value() == doctest::Approx(12e-3));
  CHECK(gradient_ready_times(p)[1].value() == doctest::Approx(10e-3));
}

TEST_CASE("profile: gradients become ready in order, before the step ends") {
  RandomProfiles profiles(7);
  for (int i = 0; i < 300; ++i) {
    const Profile p = checked(profiles.next(), "random");
    Seconds last(0);
    for (const Seconds ready : gradient_ready_times(p)) {
      CHECK(ready >= last);
      CHECK(ready <= compute_time(p));
      last = ready;
    }
    CHECK((forward_time(p) + backward_time(p)).value() <= compute_time(p).value() * (1 + 1e-12));
  }
}

TEST_CASE("profile: JSON reads back to the same value") {
  RandomProfiles profiles(20);
  for (int i = 0; i < 500; ++i) {
    const Profile p = checked(profiles.next(), "random");
    const std::string json = json_of(p);
    CHECK(equal(profile_of_json(json, "random"), p));
    CHECK(json_of(profile_of_json(json, "random")) == json);
  }
}

TEST_CASE("profile: a profile by hand needs little") {
  const Profile p = profile_of_json(R"({"schema": "stepcast.profile/1",
    "layers": [{"name": "a", "forward": {"host_s": 1e-3}}, {"name": "b", "backward": {"host_s": 2e-3}}],
    "tensors": [{"name": "w", "shape": [3, 4], "dtype": "bf16", "layer": "b"}, {"name": "v", "size_bytes": 7, "layer": 0}]})",
                                    "hand");
  CHECK(p.backward_order == std::vector<std::uint32_t>{1, 0});
  CHECK(p.tensors[0].size.value() == 24);
  CHECK(p.tensors[1].layer == 0);
  CHECK(compute_time(p).value() == doctest::Approx(3e-3));
  CHECK(!p.has_device());
}

TEST_CASE("profile: each broken invariant is refused at its place") {
  struct Case {
    const char* where;
    std::function<void(Profile&)> breaks;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<Case> cases = {
      {"p#/layers", [](Profile& p) { p.layers.clear(); }},
      {"p#/layers/1/name", [](Profile& p) { p.layers[1].name = "first"; }},
      {"p#/layers/0/name", [](Profile& p) { p.layers[0].name.clear(); }},
      {"p#/layers/0/forward/host_s", [](Profile& p) { p.layers[0].forward.host = Seconds(-1e-9); }},
      {"p#/layers/1/backward/device_s", [nan](Profile& p) { p.layers[1].backward.device = Seconds(nan); }},
      {"p#/optimizer/host_s", [infinity](Profile& p) { p.optimizer.host = Seconds(infinity); }},
      {"p#/other/host_s", [](Profile& p) { p.other.host = Seconds(3e6); }},
      {"p#/layers/0/forward/device_s",
       [](Profile& p) { p.layers[0].forward.part[KernelClass::gemm] = milliseconds(0.9); }},
      {"p#/layers/0/forward/device_s", [](Profile& p) { p.device.clear(); }},
      {"p#/backward_order", [](Profile& p) { p.backward_order = {1}; }},
      {"p#/backward_order/1",
       [](Profile& p) {
         p.backward_order = {1, 1};
       }},
      {"p#/backward_order/0",
       [](Profile& p) {
         p.backward_order = {2, 0};
       }},
      {"p#/tensors/1/layer",
       [](Profile& p) {
         p.backward_order = {0, 1};
       }},
      {"p#/tensors/0/layer", [](Profile& p) { p.tensors[0].layer = 2; }},
      {"p#/tensors/1/name", [](Profile& p) { p.tensors[1].name = p.tensors[0].name; }},
      {"p#/tensors/0/size_bytes", [](Profile& p) { p.tensors[0].size = Bytes(801); }},
      {"p#/tensors/0/size_bytes", [](Profile& p) { p.tensors[0].size = Bytes(-800); }},
      {"p#/tensors/0/shape/1",
       [](Profile& p) {
         p.tensors[0].shape = {10, 0};
       }},
      {"p#/step_times_s/2", [nan](Profile& p) { p.step_times[2] = Seconds(nan); }},
      {"p#/input_s", [](Profile& p) { p.input = Seconds(-1); }},
      {"p#/batch_samples", [](Profile& p) { p.batch_samples = -1; }},
      {"p#/activation_memory_bytes", [](Profile& p) { p.activation_memory = Bytes(1e18); }},
      {"p#/traced_workers", [](Profile& p) { p.traced_workers = 0; }},
      {"p#/collectives/0/group_size",
       [](Profile& p) {
         p.collectives = {{"allreduce", 1, Bytes(1), Seconds(1), Seconds(0), 0}};
       }},
      {"p#/collectives/0/count",
       [](Profile& p) {
         p.collectives = {{"allreduce", -1, Bytes(1), Seconds(1), Seconds(0), 2}};
       }},
  };
  for (const Case& c : cases) {
    CAPTURE(c.where);
    Profile p = two_layers();
    c.breaks(p);
    CHECK(refusal([&] { (void)checked(p, "p"); }).where == c.where);
  }
}

TEST_CASE("profile: JSON that is no profile is refused at its place") {
  const Profile p = two_layers();
  Profile communicating = p;
  communicating.collectives = {{"allreduce", 1, Bytes(1), Seconds(1), Seconds(0), 2, BytesSource::metadata}};
  struct Case {
    const char* where;
    std::string json;
  };
  const std::vector<Case> cases = {
      {"f#/layrs", with(p, "\"layers\"", "\"layrs\": [], \"layers\"")},
      {"f#/layers", with(p, "\"layers\"", "\"lairs\"")},
      {"f#/layers/0/forward/hots_s", with(p, "\"host_s\":0.002", "\"hots_s\":0.002")},
      {"f#/layers/0/forward/host_s", with(p, "\"host_s\":0.002", "\"host_s\":\"2 ms\"")},
      {"f#/layers/0/forward/host_s", with(p, "\"host_s\":0.002", "\"host_s\":null")},
      {"f#/layers/0/forward/host_s", with(p, "\"host_s\":0.002", "\"host_s\":-0.002")},
      {"f#/layers/0/name", with(p, "\"name\":\"first\"", "\"name\":1")},
      {"f#/layers/1", with(p, "{\"name\":\"second\",\"forward\"", "1, {\"name\":\"second\",\"forward\"")},
      {"f#/tensors/0/layer", with(p, "\"layer\":\"second\"", "\"layer\":\"secnd\"")},
      {"f#/tensors/0/layer", with(p, "\"layer\":\"second\"", "\"layer\":7")},
      {"f#/tensors/0/dtype", with(p, "\"dtype\":\"f32\"", "\"dtype\":\"f31\"")},
      {"f#/tensors/0/shape/0", with(p, "[10,20]", "[10.5,20]")},
      {"f#/tensors/0/size_bytes", with(p, "\"size_bytes\":800", "\"size_bytes\":801")},
      {"f#/schema", with(p, "stepcast.profile/1", "stepcast.profile/9")},
      {"f#/model", with(p, "\"two layers\"", "2")},
      {"f#/host_waits_for_device", with(p, "\"host_waits_for_device\": false", "\"host_waits_for_device\": 0")},
      {"f#/step_times_s", with(p, "\"step_times_s\": [", "\"step_times_s\": 3, \"other_times_s\": [")},
      {"f#/traced_workers", with(p, "\"traced_workers\": 1", "\"traced_workers\": 18446744073709551615")},
      {"f#/collectives/0/role", with(communicating, "\"role\":\"unknown\"", "\"role\":\"bufers\"")},
      {"f#/missing", with(p, "\"missing\": []", "\"missing\": \"all\"")},
      {"f#", "[]"},
      {"f@359", with(p, "\"host_s\":0.002", "\"host_s\":1e999")},
      {"f", with(p, "\"host_s\":0.002", "\"host_s\":0.002,\"host_s\":7")},
      {"f", with(p, "\"traced_workers\": 1", "\"traced_workers\": 1, \"traced_workers\": 2")},
  };
  for (const Case& c : cases) {
    CAPTURE(c.where);
    CHECK(refusal([&] { (void)profile_of_json(c.json, "f"); }).where == c.where);
  }
  CHECK(refusal([&] { (void)profile_of_json(cases[2].json, "f"); }).hint == "did you mean 'host_s'?");
  CHECK(refusal([&] { (void)profile_of_json(cases[8].json, "f"); }).hint == "did you mean 'second'?");
  for (const std::string text : {"", "{", "NaN", "{\"schema\": nan}"}) {
    const std::string where = refusal([&] { (void)profile_of_json(text, "f"); }).where;
    CHECK(where.substr(0, 2) == "f@");
  }
}

TEST_CASE("profile: every beginning of a valid text is refused, never crashes") {
  const std::string json = json_of(two_layers());
  for (std::size_t n = 0; n + 2 < json.size(); n += 7)
    CHECK_THROWS_AS((void)profile_of_json(std::string_view(json).substr(0, n), "cut"), InputError);
}

TEST_CASE("profile: element types") {
  CHECK(*data_type_of("Float") == DataType::f32);
  CHECK(*data_type_of("c10::BFloat16") == DataType::bf16);
  CHECK(*data_type_of("c10::Half") == DataType::f16);
  CHECK(*data_type_of("long int") == DataType::i64);
  CHECK(*data_type_of("UInt32") == DataType::i32);
  CHECK(*data_type_of("c10::Float8_e8m0fnu") == DataType::f8);
  CHECK(size_of(*data_type_of("Float4_e2m1fn_x2")) == 1);
  CHECK(*data_type_of("torch.bfloat16") == DataType::bf16);
  CHECK(!data_type_of("quaternion"));
  for (int i = 0; i <= int(DataType::f8); ++i) {
    CHECK(size_of(DataType(i)) > 0);
    CHECK(*data_type_of(name_of(DataType(i))) == DataType(i));
  }
}

TEST_CASE("shipped models: totals of the literature") {
  struct Total {
    const char* name;
    double parameters;
    std::size_t tensors;
  };
  for (const Total& total : {Total{"resnet18", 11'689'512, 62}, Total{"resnet50", 25'557'032, 161},
                             Total{"resnet101", 44'549'160, 314}, Total{"vgg16_bn", 138'365'992, 58},
                             Total{"bert_base", 110'111'042, 206}, Total{"bert_large", 336'232'258, 398}}) {
    CAPTURE(total.name);
    const ModelDescription* model = shipped_model(total.name);
    REQUIRE(model != nullptr);
    double sum = 0;
    for (const Tensor& t : model->parameters) sum += t.size.value() / size_of(t.dtype);
    CHECK(sum == total.parameters);
    CHECK(model->parameters.size() == total.tensors);
    CHECK(std::is_sorted(model->parameters.begin(), model->parameters.end(),
                         [](const Tensor& a, const Tensor& b) { return a.layer < b.layer; }));
    CHECK(!model->provenance.empty());
  }
  CHECK(shipped_model("no such model") == nullptr);
}
