// Bruck: all-to-all in ceil(log2 P) rounds, in each of which every rank forwards half of its buffer.
//
//   ceil(log2 P) (alpha + beta m/2)
//
// Bruck et al., IEEE TPDS 1997. Over machines the last ceil(log2 n) rounds cross the network, where the devices of a
// machine share its cards. Bounds: fewest steps; moves log2(P)/2 times the volume of the pairwise exchange.
#include <stepcast/cluster/closed_forms.hpp>

namespace stepcast::collective::bruck {
namespace {

CostLine all_to_all(const Cluster& c) {
  return on_part(whole_message_rounds(c.devices_per_node, inside_link(c)), 2) + on_part(exchange_rounds_between(c), 2);
}

}  // namespace

extern constinit const CollectiveAlgorithm record{.name = "bruck",
                                                  .summary = "all-to-all in log2(P) rounds, for short messages",
                                                  .reference = "Bruck et al., IEEE TPDS 1997",
                                                  .all_reduce = nullptr,
                                                  .reduce_scatter = nullptr,
                                                  .all_gather = nullptr,
                                                  .broadcast = nullptr,
                                                  .all_to_all = all_to_all,
                                                  .unsuitable = nullptr};

}  // namespace stepcast::collective::bruck
