// SA-ATP: ATP in which leading workers take over a share x of what a worker with a slow link still has to send.
//
//   V = m 308/248;  all-reduce   2t + max(V/B, (1-x) V / (share B), V (q R + (1-q) n) / (S B))
//
// Li et al., IEEE/ACM ToN 32(6), 2024. x (Aggregation::absorbed_share) is not published: calibrate it. A worker that
// starts late is helped, too, which needs to know how late; here every exchange
// starts when the last worker is ready. Bounds: never slower than ATP, equal at x = 0 and without slow links.
#include <stepcast/cluster/in_network.hpp>

namespace stepcast::collective::sa_atp {
namespace {

CostLine all_reduce(const Cluster& c) {
  const double absorbed = c.aggregation ? c.aggregation->absorbed_share : 0;
  return with_local_stages(c, best_effort_aggregation(c, 1 - absorbed));
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
    .needs_servers = true};

}  // namespace stepcast::collective::sa_atp
