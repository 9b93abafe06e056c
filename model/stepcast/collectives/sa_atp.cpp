// SA-ATP: ATP in which leading workers take over a share x of what a worker with a slow link still has to send.
//
//   V = m 308/248;  all-reduce   2t + max((1 + x' s/l) V/B, (1-x') V / (share B), V (q R + (1-q) n) / (S B))
//
// Li et al., IEEE/ACM ToN 32(6), 2024. s machines have a slow link, the l others lead, and carry what they take over on
// their own links. x' = x (Aggregation::absorbed_share, not published: calibrate it), or less where leaders would be
// later than the one that they help: x' <= (1 - share) / (1 + share s/l). Bounds: never slower than ATP, equal at x =
// 0, without slow links and without leaders; never faster than the sum of all links, n V / ((l + s share) B). Who
// starts late or computes slowly is helped as well, from the moment at which the leaders are ready: there the step
// decides, and this line is asked for the traffic of either side (prediction/leaders.hpp). Not modelled: leaders that
// run out of memory.
#include <stepcast/cluster/in_network.hpp>

namespace stepcast::collective::sa_atp {
namespace {

CostLine all_reduce(const Cluster& c) {
  const double absorbed = c.aggregation ? c.aggregation->absorbed_share : 0;
  return with_local_stages(c, best_effort_aggregation(c, absorbed));
}

}  // namespace

extern constinit const CollectiveAlgorithm record{
    .name = "sa_atp",
    .summary = "ATP whose leading workers help the one with the slowest link",
    .reference = "Li et al., IEEE/ACM Transactions on Networking 32(6), 2024",
    .all_reduce = all_reduce,
    .reduce_scatter = nullptr,
    .all_gather = nullptr,
    .broadcast = nullptr,
    .all_to_all = nullptr,
    .unsuitable = no_switch_or_server,
    .needs_switch = true,
    .needs_servers = true,
    .leaders_help = true};

}  // namespace stepcast::collective::sa_atp
