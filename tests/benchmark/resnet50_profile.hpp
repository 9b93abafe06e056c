#pragma once
// The profile that the benchmarks of predictions ask about: ResNet-50, one layer per gradient tensor (161), with times
// as of a V100-class device: 60 us forward, 120 us backward, host a third of that.
#include <stepcast/roofline/shipped_models.hpp>

#include <cstdint>

namespace stepcast {

/// `device`: a host that launches work on a device; else all times are the host's.
inline Profile resnet50(bool device) {
  const ModelDescription* model = shipped_model("resnet50");
  Profile p;
  p.model = model->name;
  p.provenance = "benchmark";
  if (device) p.device = "device";
  const auto cost = [&](double us) {
    PassCost c;
    (device ? c.device : c.host) = microseconds(us);
    if (device) c.host = microseconds(us / 3);
    return c;
  };
  const auto n = static_cast<std::uint32_t>(model->parameters.size());
  for (std::uint32_t l = 0; l < n; ++l) p.layers.push_back({model->parameters[l].name, cost(60), cost(120)});
  for (std::uint32_t l = n; l-- > 0;) {
    p.backward_order.push_back(l);
    Tensor t = model->parameters[l];
    t.layer = l;
    p.tensors.push_back(t);
  }
  p.optimizer = cost(500);
  return checked(p, "benchmark");
}

}  // namespace stepcast
