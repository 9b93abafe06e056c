// Double binary tree: two complementary trees, half of the data each, pipelined in chunks of c bytes.
//
//   all-reduce   2 ceil(log2 P) (alpha + beta c) + d(P) beta m,   d = 1 for P = 2, 3/2 for P = 3, 2 from P = 4 on
//
// Sanders, Speck, Traeff 2009; NCCL >= 2.4. Half of the buffer crosses each edge of a tree once in each direction, up
// while it is reduced and down while it is broadcast, so a rank sends and receives d = half of its neighbours in both
// trees together. From four ranks on one with three neighbours in one tree is a leaf in the other (d = 2); of two ranks
// each is the other's only neighbour (d = 1), so that two machines exchange no more than the ring's
// 2(n-1)/n m, and the cards need not carry the ring's P > n. Over machines the trees are nested (inside first); the
// pipeline runs at the pace of the busiest link and fills over the levels of both. Machines are in order of their
// ranks, so that few edges cross the uplinks of a level of the network, which carry half a buffer for each. Bounds: at
// most P/(P-1) times the volume of the ring, with logarithmic latency: better than the ring for short messages on many
// ranks, and for all of them on two machines with several devices.
#include <stepcast/cluster/closed_forms.hpp>

#include <algorithm>

namespace stepcast::collective::double_tree {
namespace {

constexpr Bytes chunk(16 * 1024);  // short messages are what trees are for: NCCL's low-latency protocol slices

CostLine fill(std::int64_t p, const Link& link) {
  return {(link.latency + chunk / link.bandwidth) * (2.0 * ceil_log2(p)), 0};
}

/// Buffers that the busiest of p ranks sends, and receives as many.
double busiest(std::int64_t p) { return p >= 4 ? 2 : 0.5 * static_cast<double>(p == 1 ? 0 : p); }

CostLine all_reduce(const Cluster& c) {
  if (c.workers() == 1) return {};
  const double inside = busiest(c.devices_per_node) / inside_link(c).bandwidth.value();
  const NetworkLevels levels = network_levels(c);
  double between = busiest(c.nodes) / levels.outermost().machine.value();
  CostLine line = fill(c.devices_per_node, inside_link(c));
  std::int64_t machines = 1;
  for (const NetworkLevel& level : levels) {
    if (machines > 1) between = std::max(between, tree_crossings(c.nodes, machines) / level.unit.value());
    line = line + fill(level.units, {level.latency, level.machine});
    machines *= level.units;
  }
  return line + CostLine{Seconds(0), std::max(inside, between)};
}

}  // namespace

extern constinit const CollectiveAlgorithm record{
    .name = "double_tree",
    .summary = "two complementary binary trees, pipelined",
    .reference = "Sanders, Speck, Traeff, Parallel Computing 2009; NCCL 2.4",
    .all_reduce = all_reduce,
    .reduce_scatter = nullptr,
    .all_gather = nullptr,
    .broadcast = nullptr,
    .all_to_all = nullptr,
    .unsuitable = nullptr};

}  // namespace stepcast::collective::double_tree
