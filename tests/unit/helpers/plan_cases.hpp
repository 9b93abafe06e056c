#pragma once
// Profiles from lists of gradients, and plans of named strategies, for tests.
#include "oracles/iteration_by_clock.hpp"

#include <stepcast/plan/strategy.hpp>
#include <stepcast/prediction/prediction.hpp>
#include <stepcast/schedule/lower.hpp>
#include <stepcast/schedule/plan_flaw.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace stepcast::test {

/// A gradient in production order: the backward time of its layer, and its size.
struct Produced {
  Seconds backward;
  Bytes size;
};

/// One layer and one tensor per gradient, computed on the host; the whole forward time is in the first layer.
inline Profile profile_of_gradients(const std::vector<Produced>& gradients, Seconds forward, Seconds update = {}) {
  Profile p;
  const auto n = static_cast<std::uint32_t>(gradients.size());
  p.layers.resize(n);
  for (std::uint32_t k = 0; k < n; ++k) {
    const std::uint32_t layer = n - 1 - k;
    p.layers[layer].name = "layer" + std::to_string(layer);
    p.layers[layer].backward.host = gradients[k].backward;
    p.backward_order.push_back(layer);
    p.tensors.push_back({"t" + std::to_string(k), {}, DataType::f32, gradients[k].size, layer});
  }
  p.layers[0].forward.host = forward;
  p.optimizer.host = update;
  p.step_times = {compute_time(p)};
  return p;
}

/// `nodes` machines with one device; links without latency unless given.
inline Cluster plain_cluster(std::int64_t nodes, BytesPerSecond bandwidth, Seconds latency = {}) {
  Cluster c;
  c.name = "plain";
  c.nodes = nodes;
  c.network = c.inside = {latency, bandwidth};
  return c;
}

inline CommPlan plan_of(const std::string& text, const Profile& profile, const Cluster& cluster) {
  const PlanSpec spec = plan_spec_of(text);
  const Answer<CommunicationCost> cost = communication_cost(cluster, spec.collective);
  REQUIRE_MESSAGE(bool(cost), (cost ? "" : cost.reason()));
  Answer<CommPlan> plan = comm_plan_of(spec, profile, cluster, *cost);
  REQUIRE_MESSAGE(bool(plan), text);
  REQUIRE(flaw_of(*plan, profile) == "");
  return *plan;
}

inline Seconds time_of(const std::string& text, const Profile& profile, const Cluster& cluster) {
  const PlanSpec spec = plan_spec_of(text);
  const Answer<CommunicationCost> cost = communication_cost(cluster, spec.collective);
  REQUIRE_MESSAGE(bool(cost), (cost ? "" : cost.reason()));
  Timeline scratch;
  const Answer<Seconds> time = predicted_iteration(profile, cluster, *cost, spec, scratch);
  REQUIRE_MESSAGE(bool(time), text);
  return *time;
}

}  // namespace stepcast::test
