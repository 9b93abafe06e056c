// Pairwise exchange: all-to-all in P-1 steps, in each of which every rank swaps m/P with one other.
//
//   (P-1) alpha + (P-1)/P beta m
//
// Thakur et al. 2005. Over machines g-1 of the partners are inside and P-g outside, where the g devices of a machine
// share its cards. Bounds: least volume; for short messages Bruck's algorithm has fewer steps.
#include <stepcast/cluster/closed_forms.hpp>

namespace stepcast::collective::pairwise {

extern constinit const CollectiveAlgorithm record{.name = "pairwise",
                                                  .summary = "all-to-all by pairwise exchange",
                                                  .reference = "Thakur et al., IJHPCA 2005",
                                                  .all_reduce = nullptr,
                                                  .reduce_scatter = nullptr,
                                                  .all_gather = nullptr,
                                                  .broadcast = nullptr,
                                                  .all_to_all = pairwise_all_to_all,
                                                  .unsuitable = nullptr,
                                                  .on_torus = true};

}  // namespace stepcast::collective::pairwise
