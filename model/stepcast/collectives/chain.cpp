// Chain: pipelined broadcast along a line of ranks.
//
//   (P - 2 + K) (alpha + beta m/K), K chunks of c = m/K bytes:  (P-2)(alpha + beta c) + m (beta + alpha/c)
//
// What NCCL's ring broadcast does. With a fixed chunk c the time is a line in m for m >= c. Bounds: for long messages
// beta m alone, half of scatter + all-gather.
#include <stepcast/cluster/closed_forms.hpp>

namespace stepcast::collective::chain {
namespace {

constexpr Bytes chunk(512 * 1024);  // NCCL's slice of the Simple protocol: a 4 MiB buffer in 8 steps

CostLine broadcast(const Cluster& c) {
  const std::int64_t p = c.workers();
  if (p == 1) return {};
  const Link link = flat_link(c);
  const Seconds step = link.latency + chunk / link.bandwidth;
  return {step * static_cast<double>(p - 2), step / Seconds(chunk.value())};
}

}  // namespace

extern constinit const CollectiveAlgorithm record{
    .name = "chain",
    .summary = "broadcast along a pipelined chain of ranks, in 512 KiB chunks",
    .reference = "NCCL broadcast; van de Geijn, textbook form",
    .all_reduce = nullptr,
    .reduce_scatter = nullptr,
    .all_gather = nullptr,
    .broadcast = broadcast,
    .all_to_all = nullptr,
    .unsuitable = nullptr};

}  // namespace stepcast::collective::chain
