#pragma once
// Seeded random workloads, clusters and spaces of layouts that are small enough to look at every layout.
#include "helpers/random_input.hpp"

#include <stepcast/roofline/model_shape.hpp>
#include <stepcast/search/layout_search.hpp>

#include <string>
#include <string_view>

namespace stepcast::test {

inline Device random_device(Draw& draw) {
  Device d;
  d.name = "random";
  d.memory_bandwidth = BytesPerSecond(draw.log_uniform(1e11, 3e12));
  d.matrix_rate.fill(draw.log_uniform(1e12, 4e14));
  d.matrix_efficiency = 0.5 + 0.05 * draw.whole(0, 10);
  d.half_m = draw.whole(0, 100), d.half_n = draw.whole(0, 100), d.half_k = draw.whole(0, 100);
  d.half_output = draw.coin() ? 0 : draw.whole(0, 100000);
  d.kernel_floor = microseconds(draw.whole(0, 5));
  d.issue = draw.coin() ? Seconds(0) : microseconds(draw.whole(0, 10));
  d.provenance = {"random"};
  return d;
}

inline Workload random_workload(Draw& draw, const Device& device) {
  const int heads = 1 << draw.whole(1, 4);
  const std::string text = "gpt:hidden=" + std::to_string(heads * 8 * draw.whole(1, 16)) +
                           ",layers=" + std::to_string(draw.whole(1, 12)) + ",heads=" + std::to_string(heads) +
                           ",seq=" + std::to_string(64 << draw.whole(0, 3)) +
                           ",vocab=" + std::to_string(1024 * draw.whole(1, 8)) +
                           (draw.coin() ? ",attention=flash" : "") + (draw.whole(0, 4) == 0 ? ",experts=4,topk=2" : "");
  return workload_of(model_shape_of(text), device);
}

inline Cluster random_machines(Draw& draw) {
  Cluster c = random_cluster(draw, 4);
  c.devices_per_node = 1 << draw.whole(0, 3);
  c.nics_per_node = draw.coin() ? 1 : c.devices_per_node;
  c.servers = 0;
  return c;
}

/// Some values of each dimension, so that the whole stays small.
inline LayoutSpace random_space(Draw& draw) {
  LayoutSpace space;
  space.context = {1};
  if (draw.whole(0, 3) == 0) space.context = {1, 2};
  if (draw.whole(0, 2) == 0)
    space.context_exchange = {static_cast<ContextExchange>(draw.whole(0, 1)), ContextExchange::all_to_all};
  if (draw.coin()) space.expert_exchange = {ExpertExchange::deduplicated, ExpertExchange::all_to_all};
  if (draw.whole(0, 2) == 0) space.overlap_expert = {1, 0};
  if (draw.coin()) space.micro_batch = {1, 2, 4};
  if (draw.coin()) space.chunks = {1, 2};
  if (draw.whole(0, 3) == 0)
    for (const PipelineSchedule& s : pipeline_schedules()) space.schedules.push_back(&s);
  if (draw.whole(0, 4) == 0)
    for (const TensorScheme& s : tensor_schemes()) space.schemes.push_back(&s);
  const auto some = [&](auto& values, auto a, auto b) {
    switch (draw.whole(0, 2)) {
      case 0:
        values = {a};
        break;
      case 1:
        values = {b};
        break;
      default:
        values = {a, b};
    }
  };
  some(space.zero, draw.whole(0, 1), draw.whole(2, 3));
  some(space.recomputation, Recomputation::none, static_cast<Recomputation>(draw.whole(1, 3)));
  some(space.sequence_parallel, 0, 1);
  some(space.overlap_gradients, 0, 1);
  some(space.overlap_pipeline, 0, 1);
  some(space.overlap_tensor, TensorOverlap::nothing, static_cast<TensorOverlap>(draw.whole(1, 2)));
  if (draw.whole(0, 3) == 0) {
    const std::string_view words[] = {"optimizer", "parameters", "activations", "optimizer+activations"};
    space.offloaded = with_field({}, "offload", words[draw.whole(0, 3)]).offloaded;
  }
  if (draw.whole(0, 3) == 0) space.gradients = {plan_spec_of("ddp"), plan_spec_of("wfbp")};
  return space;
}

}  // namespace stepcast::test
