// Torus: rings along every dimension of a torus at the same time, both ways around.
//
//   reduce-scatter, all-gather   g-ring inside, then phases t = 0 .. k-1, each as long as the longest of its k parts:
//                                part c along dimension j = (c + t) mod k
//                                (d_j - 1) [alpha + m_t / (w_j d_j B / g)],   m_t = m / (g k) over the d of its phases
//                                before
//   all-reduce                   both
//   broadcast                    both: a scatter takes no longer than a reduce-scatter
//   all-to-all                   all pairs by the shortest ways: the fullest link (cluster/closed_forms.hpp)
//
//   phase 0   part 0 along x, part 1 along y, part 2 along z
//   phase 1   part 0 along y, part 1 along z, part 2 along x      each on a shard of what it had
//
// k dimensions of d_j machines with g devices; w_j = 2 where a dimension is closed and longer than two, else 1. Jain
// and Sabharwal, "Optimal bucket algorithms for large MPI collectives on torus interconnects", ICS 2010. Levels above
// the torus follow with a ring each on what is left. Bounds: with equal dimensions each link carries 2 (P-1)/P m / (w
// k) in an all-reduce of one device a machine, which is the least; of one dimension that is a ring both ways. Unequal
// dimensions wait for the longest. Not modelled: parts of unequal size, which would balance them; rings with twists.
#include <stepcast/cluster/closed_forms.hpp>

#include <algorithm>
#include <array>

namespace stepcast::collective::torus {
namespace {

CostLine half(const Cluster& c) {
  CostLine line = ring_half(c.devices_per_node, inside_link(c));
  std::int64_t done = c.devices_per_node;
  if (c.nodes == 1) return line;
  const NetworkLevels levels = network_levels(c);
  const TorusSides sides = torus_sides(c, levels.level[0].units);
  const Link link = torus_link(c);
  std::array<std::int64_t, most_torus_sides> before{};  // of every part, over how many machines it is scattered
  before.fill(1);
  for (std::size_t t = 0; t < sides.count; ++t) {
    CostLine longest;
    for (std::size_t part = 0; part < sides.count; ++part) {
      const TorusSide& side = sides.side[(part + t) % sides.count];
      const CostLine ring = ring_half(side.units, {link.latency, link.bandwidth * ways_along(side)});
      const CostLine of_part = on_part(ring, done * before[part] * static_cast<std::int64_t>(sides.count));
      longest = {std::max(longest.start_up, of_part.start_up),
                 std::max(longest.seconds_per_byte, of_part.seconds_per_byte)};
      before[part] *= side.units;
    }
    line = line + longest;
  }
  done *= levels.level[0].units;
  for (std::size_t i = 1; i < levels.count; ++i) {
    line = line + on_part(ring_half(levels.level[i].units, device_link(c, levels.level[i])), done);
    done *= levels.level[i].units;
  }
  return line;
}
CostLine all_reduce(const Cluster& c) { return half(c) + half(c); }

std::string unsuitable(const Cluster& c) {
  if (c.nodes == 1 || on_torus(c)) return {};
  return "the machines are joined by switches, not in a torus (--level 'pod:torus 4x4x4 x 100GB/s')";
}

}  // namespace

extern constinit const CollectiveAlgorithm record{.name = "torus",
                                                  .summary = "rings along all dimensions of a torus at once, both ways",
                                                  .reference = "Jain and Sabharwal, ICS 2010",
                                                  .all_reduce = all_reduce,
                                                  .reduce_scatter = half,
                                                  .all_gather = half,
                                                  .broadcast = all_reduce,
                                                  .all_to_all = pairwise_all_to_all,
                                                  .unsuitable = unsuitable,
                                                  .on_torus = true};

}  // namespace stepcast::collective::torus
