// Recursive doubling: in round k every rank exchanges its whole partial sum with the rank 2^k away.
//
//   all-reduce   log2(P) (alpha + beta m)
//
// Thakur et al. 2005; P a power of two. Over machines the rounds inside come first; in the log2(n) rounds between
// machines all devices of a machine share its cards. Bounds: fewest steps, so best for m -> 0; log2(P)/2 times the
// volume of the ring or more, so worst for m -> infinity (P > 2).
#include <stepcast/cluster/closed_forms.hpp>

namespace stepcast::collective::recursive_doubling {
namespace {

CostLine all_reduce(const Cluster& c) {
  return whole_message_rounds(c.devices_per_node, inside_link(c)) + exchange_rounds_between(c);
}

}  // namespace

extern constinit const CollectiveAlgorithm record{.name = "recursive_doubling",
                                                  .summary = "exchange of whole partial sums, for short messages",
                                                  .reference = "Thakur et al., IJHPCA 2005",
                                                  .all_reduce = all_reduce,
                                                  .reduce_scatter = nullptr,
                                                  .all_gather = nullptr,
                                                  .broadcast = nullptr,
                                                  .all_to_all = nullptr,
                                                  .unsuitable = power_of_two_only};

}  // namespace stepcast::collective::recursive_doubling
