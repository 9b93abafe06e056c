// What-if on profiles.
#include <stepcast/profile_whatif.hpp>

#include <cmath>
#include <cstdio>

namespace stepcast {

Profile with_faster_compute(Profile profile, double factor) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", factor);
  if (!(factor > 0) || !std::isfinite(factor)) throw InputError("faster compute", "a positive factor", text);
  const Seconds before = compute_time(profile);
  const bool on_device = profile.has_device();
  const auto scale = [&](PassCost& cost) {
    if (!on_device) cost.host /= factor;
    cost.device /= factor;
    cost.device_gemm /= factor;
    cost.device_memory /= factor;
  };
  for (Layer& layer : profile.layers) {
    scale(layer.forward);
    scale(layer.backward);
  }
  scale(profile.optimizer);
  scale(profile.other);
  if (before > Seconds(0)) {
    const double shorter = compute_time(profile) / before;
    for (Seconds& step : profile.step_times) step *= shorter;
  }
  profile.assumed.push_back(std::string("compute is ") + text + " times as fast as traced; step times scaled with it");
  return profile;
}

}  // namespace stepcast
