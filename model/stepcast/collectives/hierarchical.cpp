// Hierarchical: reduce-scatter inside each machine, all-reduce of m/g between machines by every local rank, all-gather
// inside.
//
//   all-reduce = 2(g-1) alpha_in + 2(g-1)/g m/B_in + 2(n-1) alpha_x + 2(n-1)/n (m/g)/B_x
//   broadcast  = ceil(log2 n)(alpha_x + m/B_nic) + ceil(log2 g)(alpha_in + m/B_in)
//
// B_x = cards * B_nic / g: the g local ranks share the cards. Textbook; Horovod's
// "hierarchical allreduce". Bounds: g = 1 is the ring over n machines, n = 1 the ring over g devices; the stages follow
// one another, so the flat ring wins where it is not held up by its latency. The rings between machines go from
// neighbour to neighbour, across the uplinks of levels with one machine's flow; `factored` has a stage for each level.
#include <stepcast/cluster/closed_forms.hpp>

namespace stepcast::collective::hierarchical {
namespace {

CostLine half(const Cluster& c) {
  return ring_half(c.devices_per_node, inside_link(c)) +
         on_part(ring_half(c.nodes, shared_link(c)), c.devices_per_node);
}
CostLine all_reduce(const Cluster& c) { return half(c) + half(c); }

CostLine broadcast(const Cluster& c) {
  return tree_rounds_between(c) + whole_message_rounds(c.devices_per_node, inside_link(c));
}

}  // namespace

extern constinit const CollectiveAlgorithm record{.name = "hierarchical",
                                                  .summary = "rings inside the machines, then between them",
                                                  .reference = "Horovod hierarchical allreduce; textbook form",
                                                  .all_reduce = all_reduce,
                                                  .reduce_scatter = half,
                                                  .all_gather = half,
                                                  .broadcast = broadcast,
                                                  .all_to_all = nullptr,
                                                  .unsuitable = nullptr,
                                                  .on_torus = true};

}  // namespace stepcast::collective::hierarchical
