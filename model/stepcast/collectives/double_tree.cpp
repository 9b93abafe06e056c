// Double binary tree: two complementary trees, half of the data each, pipelined in chunks of c bytes.
//
//   all-reduce   2 ceil(log2 P) (alpha + beta c) + 2 beta m
//
// Sanders, Speck, Traeff 2009; NCCL >= 2.4. Every rank sends and receives about 2m in all. Over machines the trees are
// nested (inside first); the pipeline runs at the pace of the slowest link and fills over the levels of both. Bounds:
// P/(P-1) times the volume of the ring, with logarithmic latency: better than the ring for short messages on many
// ranks.
#include <stepcast/cluster/closed_forms.hpp>

namespace stepcast::collective::double_tree {
namespace {

constexpr Bytes chunk(16 * 1024);  // short messages are what trees are for: NCCL's low-latency protocol slices

CostLine fill(std::int64_t p, const Link& link) {
  return {(link.latency + chunk / link.bandwidth) * (2.0 * ceil_log2(p)), 0};
}

CostLine all_reduce(const Cluster& c) {
  if (c.workers() == 1) return {};
  const CostLine pipeline{Seconds(0), 2 / flat_link(c).bandwidth.value()};
  return fill(c.devices_per_node, inside_link(c)) + fill(c.nodes, machine_link(c)) + pipeline;
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
