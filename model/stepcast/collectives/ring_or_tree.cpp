// Ring or double tree, whichever is faster at each size: what NCCL's tuning chooses for an all-reduce.
//
//   all-reduce                   min(ring, double_tree with beta_tree = max(beta_tree, 1 / 65 GB/s))
//   reduce-scatter, all-gather   ring: NCCL has no tree for them
//   broadcast                    (P-1) alpha + beta m: the ring once round, as NCCL's tuning counts it
//   all-to-all                   as `pairwise`
//
// NCCL >= 2.4 (tuning.cc), which credits a tree over A100s with no more than 130 GB/s of bus bandwidth on two machines,
// half as much of payload: with a fast card for every device the ring stays ahead. Bounds: those of its two forms; on
// two machines with several devices to a slow card the tree, elsewhere the ring for long messages. The line of
// MG-WFBP's merge rule is the tree's. Not modelled: that other generations of devices have other limits.
#include <stepcast/cluster/closed_forms.hpp>

#include <algorithm>

namespace stepcast::collective {

namespace ring {
extern const CollectiveAlgorithm record;
}
namespace double_tree {
extern const CollectiveAlgorithm record;
}

namespace ring_or_tree {
namespace {

constexpr BytesPerSecond most_of_tree(65e9);

CostLine smaller_latency(const Cluster& c) {
  CostLine tree = double_tree::record.all_reduce(c);
  if (c.workers() > 1) tree.seconds_per_byte = std::max(tree.seconds_per_byte, 1 / most_of_tree.value());
  return tree;
}
CostLine larger_bandwidth(const Cluster& c) { return ring::record.all_reduce(c); }
CostLine half(const Cluster& c) { return ring::record.reduce_scatter(c); }
CostLines choices(const Cluster& c, Operation op) {
  CostLines lines = CostLines::none();
  if (op != Operation::all_reduce) return lines;
  lines.add(smaller_latency(c));
  lines.add(larger_bandwidth(c));
  return lines;
}
CostLine broadcast(const Cluster& c) {
  return c.workers() == 1 ? CostLine{} : steps_and_volume(static_cast<double>(c.workers() - 1), 1, flat_link(c));
}

}  // namespace

extern constinit const CollectiveAlgorithm record{
    .name = "ring_or_tree",
    .summary = "the faster of ring and double tree at each size, as NCCL chooses",
    .reference = "NCCL 2.4 tuning",
    .all_reduce = smaller_latency,
    .reduce_scatter = half,
    .all_gather = half,
    .broadcast = broadcast,
    .all_to_all = pairwise_all_to_all,
    .unsuitable = nullptr,
    .choices = choices};

}  // namespace ring_or_tree
}  // namespace stepcast::collective
