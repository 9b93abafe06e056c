// What-if on profiles: the primitives, their identities, and faster devices.
#include <stepcast/profile/profile_whatif.hpp>

#include <doctest/doctest.h>

#include "helpers/random_input.hpp"

#include <algorithm>
#include <cmath>

using namespace stepcast;
using namespace stepcast::test;

namespace {

Profile two_layers(bool on_device) {
  Profile p;
  p.model = "two";
  p.device = on_device ? "NVIDIA A100" : "";
  const Seconds host = milliseconds(on_device ? 1 : 10), device = milliseconds(on_device ? 10 : 0);
  for (const char* name : {"a", "b"}) p.layers.push_back({name, {host, device, device}, {host, device}});
  p.backward_order = {1, 0};
  p.optimizer = {host, device};
  p.step_times = {milliseconds(50), milliseconds(60)};
  return p;
}

}  // namespace

TEST_CASE("without a device all compute time is divided") {
  const Profile slow = two_layers(false), fast = with_faster_compute(slow, 4);
  CHECK(compute_time(fast).value() == doctest::Approx(compute_time(slow).value() / 4));
  CHECK(fast.step_times[0].value() == doctest::Approx(0.0125));
  CHECK(fast.assumed.size() == slow.assumed.size() + 1);
}

TEST_CASE("a faster device leaves the host's time: in the end the launches are the step") {
  const Profile slow = two_layers(true);
  CHECK(with_faster_compute(slow, 2).layers[0].forward.host == slow.layers[0].forward.host);
  CHECK(with_faster_compute(slow, 2).layers[0].forward.part[KernelClass::gemm] == milliseconds(5));
  const Seconds launch_bound = compute_time(with_faster_compute(slow, 1e9));
  CHECK(launch_bound.value() == doctest::Approx(0.005).epsilon(1e-3));
}

TEST_CASE("the relative spread of the steps stays") {
  const Profile fast = with_faster_compute(two_layers(true), 3);
  CHECK(fast.step_times[1] / fast.step_times[0] == doctest::Approx(1.2));
}

TEST_CASE("the wait for input does not get shorter with the device") {
  Profile slow = two_layers(false);
  slow.input = compute_time(slow);
  const Profile fast = with_faster_compute(slow, 1e9);
  CHECK(fast.step_times[0].value() == doctest::Approx(slow.step_times[0].value() / 2));
}

TEST_CASE("a factor that is no speed is refused") {
  for (const double factor : {0.0, -1.0, HUGE_VAL, std::nan("")})
    CHECK_THROWS_AS((void)with_faster_compute(two_layers(true), factor), InputError);
}

TEST_CASE("select: patterns of names") {
  CHECK(fits("layer1.0.bn2", "*bn*"));
  CHECK(fits("bn1", "bn?"));
  CHECK(fits("BatchNorm", "batchnorm"));
  CHECK(fits("fc", "bn*|fc"));
  CHECK(fits("aabab", "a*ab"));
  CHECK(fits("", "*"));
  CHECK_FALSE(fits("bn", "bn?"));
  CHECK_FALSE(fits("layer1.conv", "conv"));
  CHECK_FALSE(fits("x", ""));
  CHECK_FALSE(fits("abc", "a*d|b*"));
  Draw draw(1);
  const Profile p = random_profile(draw);
  CHECK(selected_layers(p, "*").size() == p.layers.size());
  CHECK(selected_layers(p, "layer0") == std::vector<std::uint32_t>{0});
  CHECK(selected_layers(p, "none").empty());
}

TEST_CASE("scale by 1 changes no bit; scaling the parts scales the sum") {
  Draw draw(2);
  for (int round = 0; round < 50; ++round) {
    const Profile p = random_profile(draw, {.device = draw.coin()});
    CHECK(json_of(with_scaled(p, all_passes(p), {})) == json_of(p));
  }
  const PassCost cost{milliseconds(1), milliseconds(10), milliseconds(6), milliseconds(3)};
  const PassCost faster = scaled(cost, {1, 0.25, {1. / 3, 0.5}});
  CHECK(faster.host == cost.host);
  CHECK(faster.device.value() == doctest::Approx(0.002 + 0.0015 + 0.00025));
}

TEST_CASE("insert, then remove is the identity, for layers and for kernels") {
  Draw draw(3);
  for (int round = 0; round < 100; ++round) {
    const Profile p = random_profile(draw, {.device = draw.coin()});
    const auto position = std::uint32_t(draw.whole(0, int(p.layers.size())));
    const Profile longer = checked(with_layer(p, position, {"new", {milliseconds(1), {}}, {}}), "test");
    CHECK(longer.layers[position].name == "new");
    CHECK(compute_time(longer) >= compute_time(p));
    CHECK(json_of(without_layers(longer, std::span(&position, 1))) == json_of(p));
  }
  Profile p = two_layers(true);
  const PassPlace other{Pass::other};
  CHECK(json_of(without_cost(with_kernel(p, other, {milliseconds(1), milliseconds(2)}), std::span(&other, 1))) ==
        json_of(p));
}

TEST_CASE("a layer that is inserted last is first in the backward pass") {
  const Profile p = two_layers(true);
  CHECK(with_layer(p, 2, {"c", {}, {}}).backward_order == std::vector<std::uint32_t>{2, 1, 0});
  CHECK(with_layer(p, 0, {"c", {}, {}}).backward_order == std::vector<std::uint32_t>{2, 1, 0});
  CHECK(with_layer(p, 1, {"c", {}, {}}).layers[1].name == "c");
}

TEST_CASE("removal never lengthens, keeps the invariants, and takes the layer's tensors along") {
  Draw draw(4);
  for (int round = 0; round < 200; ++round) {
    const Profile p = random_profile(draw, {.device = draw.coin()});
    if (p.layers.size() < 2) continue;
    std::vector<std::uint32_t> gone;
    for (std::uint32_t l = 0; l + 1 < p.layers.size(); ++l)
      if (draw.coin()) gone.push_back(l);
    const Profile shorter = checked(without_layers(p, gone), "test");
    CHECK(shorter.layers.size() == p.layers.size() - gone.size());
    CHECK(compute_time(shorter) <= compute_time(p));
    CHECK(lone_step_time(shorter) <= lone_step_time(p));
    const auto goes = [&](std::uint32_t l) { return std::find(gone.begin(), gone.end(), l) != gone.end(); };
    const auto kept =
        std::count_if(p.tensors.begin(), p.tensors.end(), [&](const Tensor& t) { return !goes(t.layer); });
    CHECK(std::ssize(shorter.tensors) == kept);
    CHECK(compute_time(without_cost(p, all_passes(p))) == Seconds(0));
  }
}
