// Binary tree: reduce to a root, then broadcast, the whole message in every round, not pipelined.
//
//   all-reduce   2 ceil(log2 P) (alpha + beta m)
//   broadcast    ceil(log2 P) (alpha + beta m)        (binomial tree)
//
// Thakur et al. 2005. Over machines the tree is built inside each machine first, so that ceil(log2 n) rounds cross the
// network, one device per machine on one card. Bounds: few steps; log2(P) times the volume of the ring.
#include <stepcast/cluster/closed_forms.hpp>

namespace stepcast::collective::binary_tree {
namespace {

CostLine broadcast(const Cluster& c) {
  return whole_message_rounds(c.devices_per_node, inside_link(c)) + tree_rounds_between(c);
}
CostLine all_reduce(const Cluster& c) { return broadcast(c) + broadcast(c); }

}  // namespace

extern constinit const CollectiveAlgorithm record{.name = "binary_tree",
                                                  .summary = "binomial tree up and down, not pipelined",
                                                  .reference = "Thakur et al., IJHPCA 2005",
                                                  .all_reduce = all_reduce,
                                                  .reduce_scatter = nullptr,
                                                  .all_gather = nullptr,
                                                  .broadcast = broadcast,
                                                  .all_to_all = nullptr,
                                                  .unsuitable = nullptr};

}  // namespace stepcast::collective::binary_tree
