// Factored (BlueConnect): P = p_1 p_2 ... p_q, a ring per factor, reduce-scatters outwards and all-gathers back.
//
//   all-reduce = sum_j 2(p_j - 1) [alpha_j + m / (p_1 ... p_j B_j)]
//
// Cho et al., MLSys 2019. Factors here: the devices of a machine over the links inside, then for each level of the
// network the prime factors of the units that it joins, over the shared cards and uplinks; of a torus its dimensions,
// each over one of its links (`torus` uses all at once). Bounds: the volume of
// `hierarchical` on every link, with sum (p_j - 1) instead of n - 1 steps between machines: never slower; equal when
// the number of machines is prime or one.
#include <stepcast/cluster/closed_forms.hpp>

#include <array>
#include <utility>

namespace stepcast::collective::factored {
namespace {

CostLine half(const Cluster& c) {
  std::array<FactorLevel, 64> levels{};  // a 63-bit number has fewer prime factors
  std::size_t used = 0;
  levels[used++] = {c.devices_per_node, inside_link(c)};
  bool first = true;
  for (const NetworkLevel& level : network_levels(c)) {
    std::int64_t rest = level.units;
    if (std::exchange(first, false) && on_torus(c)) {
      for (const TorusSide& side : torus_sides(c, rest)) levels[used++] = {side.units, torus_link(c)};
      continue;
    }
    for (std::int64_t p = 2; p * p <= rest; ++p) {
      for (; rest % p == 0; rest /= p) levels[used++] = {p, device_link(c, level)};
    }
    if (rest > 1) levels[used++] = {rest, device_link(c, level)};
  }
  return factored_half({levels.data(), used});
}
CostLine all_reduce(const Cluster& c) { return half(c) + half(c); }

}  // namespace

extern constinit const CollectiveAlgorithm record{.name = "factored",
                                                  .summary = "BlueConnect: a ring for every factor of P",
                                                  .reference = "Cho et al., BlueConnect, MLSys 2019",
                                                  .all_reduce = all_reduce,
                                                  .reduce_scatter = half,
                                                  .all_gather = half,
                                                  .broadcast = nullptr,
                                                  .all_to_all = nullptr,
                                                  .unsuitable = nullptr,
                                                  .on_torus = true};

}  // namespace stepcast::collective::factored
