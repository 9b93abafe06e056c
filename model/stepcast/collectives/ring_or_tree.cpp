// Ring or double tree, whichever is faster at each size: what NCCL's tuning chooses for an all-reduce.
//
//   all-reduce                   min(ring, double_tree)
//   reduce-scatter, all-gather   ring: NCCL has no tree for them
//   broadcast, all-to-all        as `chain` and `pairwise`
//
// NCCL >= 2.4 (tuning.cc). Bounds: those of its two forms. The line of MG-WFBP's merge rule is the tree's.
#include <stepcast/cluster/closed_forms.hpp>

namespace stepcast::collective {

namespace ring {
extern const CollectiveAlgorithm record;
}
namespace double_tree {
extern const CollectiveAlgorithm record;
}
namespace chain {
extern const CollectiveAlgorithm record;
}

namespace ring_or_tree {
namespace {

CostLine smaller_latency(const Cluster& c) { return double_tree::record.all_reduce(c); }
CostLine larger_bandwidth(const Cluster& c) { return ring::record.all_reduce(c); }
CostLine half(const Cluster& c) { return ring::record.reduce_scatter(c); }
CostLine broadcast(const Cluster& c) { return chain::record.broadcast(c); }

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
    .other_all_reduce = larger_bandwidth};

}  // namespace ring_or_tree
}  // namespace stepcast::collective
