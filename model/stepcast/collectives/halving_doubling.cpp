// Halving-doubling (Rabenseifner): recursive halving reduce-scatter, then recursive doubling all-gather.
//
//   reduce-scatter, all-gather   log2(P) alpha + (P-1)/P beta m
//   all-reduce                   2 log2(P) alpha + 2(P-1)/P beta m
//
// Thakur, Rabenseifner, Gropp 2005; P a power of two. Over machines the large first exchanges stay inside; between
// machines every device owns 1/g of the buffer and the devices share the cards. Bounds: never worse than the ring on
// one kind of link.
#include <stepcast/cluster/closed_forms.hpp>

#include <cstdint>

namespace stepcast::collective::halving_doubling {
namespace {

CostLine half(const Cluster& c) {
  CostLine line = halving(c.devices_per_node, inside_link(c));
  std::int64_t done = c.devices_per_node;
  for (const NetworkLevel& level : network_levels(c)) {
    line = line + on_part(halving(level.units, device_link(c, level)), done);
    done *= level.units;
  }
  return line;
}
CostLine all_reduce(const Cluster& c) { return half(c) + half(c); }

}  // namespace

extern constinit const CollectiveAlgorithm record{.name = "halving_doubling",
                                                  .summary = "recursive halving, then recursive doubling",
                                                  .reference = "Rabenseifner, ICCS 2004; Thakur et al., IJHPCA 2005",
                                                  .all_reduce = all_reduce,
                                                  .reduce_scatter = half,
                                                  .all_gather = half,
                                                  .broadcast = nullptr,
                                                  .all_to_all = nullptr,
                                                  .unsuitable = power_of_two_only};

}  // namespace stepcast::collective::halving_doubling
