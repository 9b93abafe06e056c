// The recurrence of the header, one unit after the other.
#include <stepcast/parallelism/sharded_pass.hpp>

#include <algorithm>
#include <cassert>
#include <vector>

namespace stepcast {

Seconds sharded_pass(std::span<const ShardedUnit> units, std::int64_t in_flight, double slowed,
                     std::vector<Seconds>* computes) {
  assert(in_flight >= 1 && slowed >= 1);
  const std::size_t n = units.size();
  const auto room = static_cast<std::size_t>(std::min<std::int64_t>(in_flight, static_cast<std::int64_t>(n)));
  std::vector<Seconds> gathered(n);
  Seconds channel, computed;
  const auto gather = [&](std::size_t u) {
    // The unit that makes room has ended just now: what its end issued is before this on the channel.
    if (units[u].gather > Seconds(0)) channel = std::max(channel, computed) + units[u].gather;
    gathered[u] = units[u].gather > Seconds(0) ? channel : computed;
  };
  for (std::size_t u = 0; u < room; ++u) gather(u);
  for (std::size_t u = 0; u < n; ++u) {
    const Seconds start = std::max(computed, gathered[u]);
    computed = start + compute_beside(units[u].compute, channel - start, slowed);
    if (computes != nullptr) computes->push_back(computed - start);
    if (units[u].reduce > Seconds(0)) channel = std::max(channel, computed) + units[u].reduce;
    if (u + room < n) gather(u + room);
  }
  return std::max(channel, computed);
}

}  // namespace stepcast
