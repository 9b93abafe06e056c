// What-if on profiles: faster devices.
#include <stepcast/profile_whatif.hpp>

#include <doctest/doctest.h>

#include <cmath>

using namespace stepcast;

namespace {

Profile two_layers(bool on_device) {
  Profile p;
  p.model = "two";
  p.device = on_device ? "NVIDIA A100" : "";
  const Seconds host = milliseconds(on_device ? 1 : 10), device = milliseconds(on_device ? 10 : 0);
  for (const char* name : {"a", "b"}) p.layers.push_back({name, {host, device, device, {}}, {host, device, {}, {}}});
  p.backward_order = {1, 0};
  p.optimizer = {host, device, {}, {}};
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
  CHECK(with_faster_compute(slow, 2).layers[0].forward.device_gemm == milliseconds(5));
  const Seconds launch_bound = compute_time(with_faster_compute(slow, 1e9));
  CHECK(launch_bound.value() == doctest::Approx(0.005).epsilon(1e-3));
}

TEST_CASE("the relative spread of the steps stays") {
  const Profile fast = with_faster_compute(two_layers(true), 3);
  CHECK(fast.step_times[1] / fast.step_times[0] == doctest::Approx(1.2));
}

TEST_CASE("a factor that is no speed is refused") {
  for (const double factor : {0.0, -1.0, HUGE_VAL, std::nan("")})
    CHECK_THROWS_AS((void)with_faster_compute(two_layers(true), factor), InputError);
}
