// Ring: every rank sends to its right neighbour only.
//
//   reduce-scatter, all-gather   (P-1) alpha + (P-1)/P beta m
//   all-reduce                   2(P-1) alpha + 2(P-1)/P beta m
//   broadcast                    (ceil(log2 P) + P - 1) alpha + 2(P-1)/P beta m   (binomial scatter + ring all-gather)
//   all-to-all                   (P-1) alpha + (P-1)/P beta m                     (pairwise exchange)
//
// Thakur, Rabenseifner, Gropp 2005; Patarasuk and Yuan 2009. Over machines the flat ring crosses each card once in each
// direction: 1/beta = min(B_inside, B_network). On a torus it takes each link once and one direction of it. Bounds:
// reaches the least volume of any all-reduce without help from the network, 2(P-1)/P beta m; the latency grows with P,
// so small messages suffer.
#include <stepcast/cluster/closed_forms.hpp>

namespace stepcast::collective::ring {
namespace {

CostLine half(const Cluster& c) { return ring_half(c.workers(), flat_link(c)); }
CostLine all_reduce(const Cluster& c) { return half(c) + half(c); }

CostLine broadcast(const Cluster& c) {
  // A binomial scatter moves (P-1)/P of the message out of the root in ceil(log2 P) rounds.
  const double part = static_cast<double>(c.workers() - 1) / static_cast<double>(c.workers());
  return steps_and_volume(ceil_log2(c.workers()), part, flat_link(c)) + half(c);
}

}  // namespace

extern constinit const CollectiveAlgorithm record{
    .name = "ring",
    .summary = "ring; one flat ring over all devices",
    .reference = "Patarasuk and Yuan, JPDC 2009; Thakur et al., IJHPCA 2005",
    .all_reduce = all_reduce,
    .reduce_scatter = half,
    .all_gather = half,
    .broadcast = broadcast,
    .all_to_all = pairwise_all_to_all,
    .unsuitable = nullptr,
    .on_torus = true};

}  // namespace stepcast::collective::ring
