// The share that leaders take over is found by bisection: the straggler's chain gets shorter with it, theirs longer.
#include <stepcast/cluster/stragglers.hpp>
#include <stepcast/prediction/leaders.hpp>

#include <algorithm>
#include <cmath>

namespace stepcast {
namespace {

/// Machines that are slow in anything; as few as can hold the slow workers.
std::int64_t slow_machines(const Cluster& c) {
  std::int64_t workers = 0;
  for (const SlowWorkers& s : c.stragglers.slow)
    if (s.compute_factor > 1 || s.delay > Seconds(0) || s.link_share < 1) workers += s.workers;
  return std::min(c.nodes, (workers + c.devices_per_node - 1) / c.devices_per_node);
}

bool leaders_can_help(const Cluster& c, const PlanSpec& plan) {
  if (!c.aggregation || !(c.aggregation->absorbed_share > 0) || c.nodes < 2) return false;
  if (c.stragglers.slow.empty() || c.stragglers.jitter.distribution != Jitter::Distribution::none) return false;
  const Slowness worst = slowest(c.stragglers);
  if (!(worst.factor > 1 || worst.delay > Seconds(0)) || slow_machines(c) == c.nodes) return false;
  const std::string_view named = collective_of(plan);
  const CollectiveAlgorithm* algorithm = collective_algorithm(named.empty() ? c.all_reduce : named);
  return algorithm && algorithm->leaders_help;
}

/// The cluster of a worker that sends `carried` times its own gradients.
Cluster of_sender(Cluster c, double carried, bool leads) {
  c.aggregation->carried = carried;
  if (leads) c.stragglers = {};
  return c;
}

}  // namespace

std::optional<Cluster> with_help_of_leaders(const std::shared_ptr<const PreparedProfile>& healthy,
                                            const std::shared_ptr<const PreparedProfile>& slowest,
                                            const Cluster& cluster, const PlanSpec& spec, const CommPlan* given) {
  if (!leaders_can_help(cluster, spec)) return std::nullopt;
  HotLoop loop;
  const auto step = [&](const std::shared_ptr<const PreparedProfile>& worker, const Cluster& on) {
    const Answer<CommunicationCost> cost = communication_cost(on, collective_of(spec));
    if (!cost) return HUGE_VAL;
    const Answer<Seconds> time = loop.iteration(worker, on, *cost, spec, given);
    return time ? time->value() : HUGE_VAL;
  };
  const double slow = static_cast<double>(slow_machines(cluster));
  const double for_each_leader = slow / (static_cast<double>(cluster.nodes) - slow);
  const auto straggler_step = [&](double x) { return step(slowest, of_sender(cluster, 1 - x, false)); };
  const auto leader_step = [&](double x) { return step(healthy, of_sender(cluster, 1 + x * for_each_leader, true)); };
  const double most = cluster.aggregation->absorbed_share, alone = step(slowest, cluster);
  double low = 0, high = most;
  if (straggler_step(most) >= leader_step(most)) low = most;
  for (int i = 0; i < 40 && high - low > 1e-9; ++i) {
    const double middle = low + (high - low) / 2;
    (straggler_step(middle) >= leader_step(middle) ? low : high) = middle;
  }
  // Nothing taken over is what the collective's own line says.
  if (!(low > 0 && straggler_step(low) < alone)) return std::nullopt;
  return of_sender(cluster, 1 - low, false);
}

}  // namespace stepcast
