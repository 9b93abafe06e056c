// ATP: best-effort aggregation in the switches; packets that find no aggregator are added up by a parameter server.
//
//   V = m 308/248;  all-reduce   2t + max(V / (share B), V (q R + (1-q) n) / (S B))
//
// Lao et al., NSDI 2021 (in-ATP/ATP): 62 values in a packet of 308 bytes, aggregators hashed by job and sequence number
// and not reserved, so that a share q of the packets hits (Aggregation::hit_fraction); R racks whose switches add up
// first; S server machines that take what comes through and return every result. A worker with a smaller share of its
// link holds up all. Bounds: q = 1 and one rack is SwitchML's exchange with these packets; q = 0 is a parameter server
// that takes n V.
#include <stepcast/cluster/in_network.hpp>

namespace stepcast::collective::atp {
namespace {

CostLine all_reduce(const Cluster& c) { return with_local_stages(c, best_effort_aggregation(c, 0)); }

}  // namespace

extern constinit const CollectiveAlgorithm record{
    .name = "atp",
    .summary = "switches add up what they have room for, servers the rest",
    .reference = "Lao et al., NSDI 2021; in-ATP/ATP",
    .all_reduce = all_reduce,
    .reduce_scatter = nullptr,
    .all_gather = nullptr,
    .broadcast = nullptr,
    .all_to_all = nullptr,
    .unsuitable = no_switch_or_server,
    .needs_switch = true,
    .needs_servers = true};

}  // namespace stepcast::collective::atp
