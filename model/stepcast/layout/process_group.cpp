// How the members of a group lie on machines follows from the rank order and the degrees inside of theirs.
#include <stepcast/cluster/collective.hpp>
#include <stepcast/cluster/transport.hpp>
#include <stepcast/layout/process_group.hpp>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

/// Devices of one machine that the layout uses.
std::int64_t machine_size(const Cluster& c, std::int64_t devices) { return std::min(c.devices_per_node, devices); }

std::int64_t members_of(std::span<const RankAxis> axes) {
  std::int64_t members = 1;
  for (const RankAxis& a : axes) members *= a.degree;
  return members;
}

/// Members on one machine where machines cut every axis evenly, else 0: the inner axes lie within a machine as long as
/// whole multiples of them fill it.
std::int64_t even_members_per_machine(std::int64_t machine, std::span<const RankAxis> axes) {
  std::int64_t members = 1;
  for (const RankAxis& a : axes) {
    const std::int64_t extent = a.stride * a.degree;
    if (a.degree == 1 || a.stride % machine == 0) continue;
    if (machine % a.stride != 0 || (machine % extent != 0 && extent % machine != 0)) return 0;
    members *= std::min(a.degree, machine / a.stride);
  }
  return members;
}

/// Machines that the group from `base` on reaches over: its members that there are, in the order of their ranks.
std::int64_t machines_from(std::int64_t base, std::int64_t machine, std::int64_t devices,
                           std::span<const RankAxis> axes) {
  std::int64_t last = base / machine, machines = 1;
  for (std::int64_t member = 1, members = members_of(axes); member < members; ++member) {
    std::int64_t rank = base, left = member;
    for (const RankAxis& a : axes) rank += left % a.degree * a.stride, left /= a.degree;
    if (rank >= devices) break;
    machines += last != rank / machine ? 1 : 0;
    last = rank / machine;
  }
  return machines;
}

/// Most machines that a group reaches over. Groups that begin at the same place of their machines reach over the same;
/// the first of them has the most members.
std::int64_t most_machines(std::int64_t machine, std::int64_t devices, std::span<const RankAxis> given) {
  if (devices <= machine) return 1;
  std::vector<RankAxis> axes(given.begin(), given.end());
  const auto extent = [](const RankAxis& a) { return a.stride * a.degree; };
  std::sort(axes.begin(), axes.end(), [&](const RankAxis& a, const RankAxis& b) { return extent(a) < extent(b); });
  // After so many ranks groups begin at the same places of machines again.
  const std::int64_t period = std::lcm(machine, extent(axes.back()));
  std::vector<bool> seen(static_cast<std::size_t>(machine), false);
  std::int64_t most = 1, places = 0;
  for (std::int64_t rank = 0, next = 0; rank < std::min(devices, period) && places < machine; rank = next) {
    next = rank + 1;
    bool begins = true;
    for (const RankAxis& a : axes)
      if (rank / a.stride % a.degree != 0) begins = false, next = std::max(next, (rank / extent(a) + 1) * extent(a));
    const auto place = static_cast<std::size_t>(rank % machine);
    if (!begins || seen[place]) continue;
    seen[place] = true;
    ++places;
    most = std::max(most, machines_from(rank, machine, devices, axes));
  }
  return most;
}

/// Most groups of which one machine has some members but not all, where machines cut through groups.
std::int64_t most_groups_cut(std::int64_t machine, std::int64_t devices, std::span<const RankAxis> axes) {
  constexpr std::int64_t looked_at = 4096;  // ranks, among which a place of machines comes again
  const std::int64_t ranks = std::min(devices, looked_at), members = members_of(axes);
  const auto machines = static_cast<std::size_t>((devices + machine - 1) / machine);
  std::vector<std::int64_t> cut(machines, 0), seen(machines, -1);  // how many; the last group that was met there
  std::int64_t most = 0;
  for (std::int64_t base = 0; base < ranks; ++base) {
    if (std::ranges::any_of(axes, [&](const RankAxis& a) { return base / a.stride % a.degree != 0; })) continue;
    std::size_t first = machines;
    bool several = false;
    for (std::int64_t member = 0; member < members; ++member) {
      std::int64_t rank = base, left = member;
      for (const RankAxis& a : axes) rank += left % a.degree * a.stride, left /= a.degree;
      if (rank >= devices) break;
      const auto m = static_cast<std::size_t>(rank / machine);
      if (seen[m] == base) continue;
      seen[m] = base;
      if (first == machines) {
        first = m;
        continue;
      }
      if (!std::exchange(several, true)) most = std::max(most, ++cut[first]);
      most = std::max(most, ++cut[m]);
    }
  }
  return most;
}

/// Of n, a multiple of `step`, which is one itself.
std::int64_t largest_divisor_up_to(std::int64_t n, std::int64_t limit, std::int64_t step = 1) {
  for (std::int64_t d = limit / step * step; d > step; d -= step)
    if (n % d == 0) return d;
  return step;
}

/// Members within `block` consecutive devices (a machine, or a unit of a level), of which `below` lie in a unit of what
/// is below.
std::int64_t members_within(std::int64_t block, std::int64_t devices, std::span<const RankAxis> axes,
                            std::int64_t below) {
  const std::int64_t members = members_of(axes);
  if (devices <= block) return members;
  if (const std::int64_t even = even_members_per_machine(block, axes); even > 0 && even % below == 0) return even;
  const std::int64_t blocks = most_machines(block, devices, axes);
  return blocks == 1 ? members : largest_divisor_up_to(members, members / blocks, below);
}

/// Devices that unit after unit of each level holds, machines first.
std::vector<std::int64_t> devices_by_level(const Cluster& c) {
  constexpr std::int64_t more_than_all = 1'000'000'000;
  std::vector<std::int64_t> devices{c.devices_per_node};
  for (const Level& level : c.levels) devices.push_back(std::min(more_than_all, devices.back() * level.units));
  return devices;
}

std::vector<GroupLevel> group_levels(const Cluster& c, std::int64_t devices, std::span<const RankAxis> axes,
                                     const GroupShape& shape) {
  std::vector<GroupLevel> levels;
  if (c.levels.empty()) return levels;
  const std::vector<std::int64_t> held = devices_by_level(c);
  std::int64_t below = shape.per_node;
  for (std::size_t k = 0; k < c.levels.size(); ++k) {
    const bool last = k + 1 == c.levels.size();
    const std::int64_t within = last ? shape.members : members_within(held[k + 1], devices, axes, below);
    GroupLevel level{within / below, 1};
    if (level.units > 1 && shape.nodes > 1)
      level.sharing = std::clamp<std::int64_t>(std::min(held[k], devices) / below, 1, devices / shape.members);
    levels.push_back(level);
    below = within;
  }
  return levels;
}

/// Machines of the first level's torus that the group has along every dimension.
void lay_on_torus(const Cluster& c, std::int64_t machine, std::span<const RankAxis> axes, GroupShape& shape) {
  if (c.levels.empty() || c.levels.front().torus.empty()) return;
  std::int64_t found = 1;
  for (const RankAxis& a : axes) {
    if (a.stride * a.degree <= machine) continue;
    const std::int64_t first = std::max<std::int64_t>(1, a.stride / machine), end = a.stride * a.degree / machine;
    std::int64_t before = 1;  // machines within one place of the dimension
    for (const TorusSide& side : c.levels.front().torus) {
      const std::int64_t low = std::max(first, before), high = std::min(end, before * side.units);
      if (high > low && high % low == 0 && low % before == 0) {
        const std::int64_t units = high / low, apart = low / before;
        shape.torus.push_back({units, side.closed && units * apart == side.units});
        shape.sharing_torus = std::max(shape.sharing_torus, apart);
        found *= units;
      }
      before *= side.units;
    }
  }
  const std::int64_t units = shape.levels.front().units;
  if (found == units) {
    if (units == 1) shape.torus = {{1, true}};
    return;
  }
  // Dimensions cut it unevenly: a line, whose links all such groups share.
  shape.torus = {{units, false}};
  shape.sharing_torus = std::max<std::int64_t>(1, c.levels.front().units / units);
}

}  // namespace

RankAxis rank_axis(const Layout& layout, Dimension dimension) {
  RankAxis axis{1, layout.degree(dimension)};
  for (const Dimension d : layout.order) {
    if (d == dimension) break;
    axis.stride *= layout.degree(d);
  }
  return axis;
}

bool same_ranks(const Layout& layout, const std::array<Dimension, dimension_count>& order) {
  Layout other = layout;
  other.order = order;
  return std::ranges::all_of(order, [&](Dimension d) {
    return layout.degree(d) == 1 || rank_axis(layout, d).stride == rank_axis(other, d).stride;
  });
}

namespace {

/// Ranks that divide one expert and stand beside one another.
std::int64_t expert_width(const Layout& l) { return l.whole_experts() ? 1 : l.tensor; }

}  // namespace

RankAxis expert_axis(const Layout& l) {
  if (neighbours_hold_a_stage(l)) return {expert_width(l), l.expert};
  return {rank_axis(l, Dimension::data).stride, l.expert};
}

std::vector<RankAxis> expert_replica_axes(const Layout& l) {
  if (neighbours_hold_a_stage(l)) return {{expert_width(l) * l.expert, l.expert_replicas()}};
  const RankAxis context = rank_axis(l, Dimension::context), data = rank_axis(l, Dimension::data);
  const RankAxis replicas{data.stride * l.expert, l.data / l.expert};
  const bool context_inside = context.stride < data.stride || l.data == 1;
  return context_inside ? std::vector{context, replicas} : std::vector{replicas, context};
}

GroupShape group_shape(const Cluster& cluster, std::int64_t devices, std::span<const RankAxis> axes) {
  GroupShape shape;
  shape.members = members_of(axes);
  if (shape.members == 1) {
    shape.levels.resize(cluster.levels.size());
    return shape;
  }
  const std::int64_t machine = machine_size(cluster, devices);
  shape.per_node = even_members_per_machine(machine, axes);
  const bool even = shape.per_node > 0;
  if (!even) {
    const std::int64_t machines = most_machines(machine, devices, axes);
    shape.per_node = machines == 1 ? shape.members : largest_divisor_up_to(shape.members, shape.members / machines);
  }
  shape.nodes = shape.members / shape.per_node;
  if (shape.nodes > 1)
    shape.sharing_network = std::clamp<std::int64_t>(
        even ? machine / shape.per_node : most_groups_cut(machine, devices, axes), 1, devices / shape.members);
  shape.levels = group_levels(cluster, devices, axes, shape);
  lay_on_torus(cluster, machine, axes, shape);
  return shape;
}

GroupShape group_shape(const Cluster& cluster, const Layout& layout, Dimension dimension) {
  const RankAxis axis = rank_axis(layout, dimension);
  return group_shape(cluster, layout.devices(), std::span(&axis, 1));
}

std::int64_t ranks_of_machine(const Layout& layout, const Cluster& cluster) {
  const std::int64_t stride = rank_axis(layout, Dimension::data).stride;
  return std::max<std::int64_t>(1, machine_size(cluster, cluster.workers()) / stride);
}

bool sums_codes(const Layout& layout, const Cluster& cluster) {
  return layout.quantized_gradients && layout.data > ranks_of_machine(layout, cluster);
}

Layout with_machine_shard(Layout layout, const Cluster& cluster) {
  const std::int64_t ranks = cluster.workers() / (layout.tensor * layout.context * layout.pipeline);
  for (std::int64_t* group : {&layout.shard, &layout.backward_shard}) {
    if (*group != shard_of_machine) continue;
    *group = ranks_of_machine(layout, cluster);
    if (*group >= ranks) *group = 0;
  }
  return layout;
}

namespace {

/// The levels as a group sees them: its own units, each with its part of the uplinks of theirs.
std::vector<Level> levels_of_group(const Cluster& cluster, const GroupShape& shape, double card_share) {
  std::vector<Level> levels = cluster.levels;
  double machines = 1, own = 1;  // of a unit below: of the cluster, and of the group
  for (std::size_t k = 0; k < levels.size(); ++k) {
    levels[k].units = shape.levels[k].units;
    if (k == 0) levels[k].torus = shape.torus;
    if (k > 0) {
      levels[k].bandwidth *= card_share;
      levels[k].oversubscription *=
          static_cast<double>(shape.levels[k].sharing) * own / (machines * static_cast<double>(shape.sharing_network));
    }
    machines *= static_cast<double>(cluster.levels[k].units);
    own *= static_cast<double>(shape.levels[k].units);
  }
  return levels;
}

}  // namespace

double share_cards(Cluster& cluster, double groups) {
  const double left = static_cast<double>(cluster.nics_per_node) / groups;
  cluster.nics_per_node = std::max<std::int64_t>(1, static_cast<std::int64_t>(left));
  const double share = left / static_cast<double>(cluster.nics_per_node);
  cluster.network.bandwidth *= share;
  return share;
}

Cluster group_cluster(const Cluster& cluster, const GroupShape& shape) {
  Cluster group = cluster;
  group.nodes = shape.nodes;
  group.devices_per_node = shape.per_node;
  const double card_share = share_cards(group, static_cast<double>(shape.sharing_network));
  if (shape.sharing_torus > 1) group.network.bandwidth /= static_cast<double>(shape.sharing_torus);
  group.levels = levels_of_group(cluster, shape, card_share);
  if (group.aggregation && shape.sharing_network > 1)
    group.aggregation->line_rate /= static_cast<double>(shape.sharing_network);
  // A table holds for groups that lie as whole jobs of their size do: filled machines, cards of their own.
  const bool filled = shape.nodes == 1 ||
                      (shape.per_node == cluster.devices_per_node && shape.sharing_network == 1 &&
                       std::ranges::all_of(shape.levels, [](const GroupLevel& level) { return level.sharing == 1; }));
  const CollectiveAlgorithm* algorithm = collective_algorithm(cluster.all_reduce);
  const bool carries = algorithm != nullptr && algorithm->carries;  // tables of other counts, to this one
  std::erase_if(group.tables,
                [&](const MeasuredCollective& t) { return !filled || (t.workers != shape.members && !carries); });
  std::int64_t left = shape.members;
  for (SlowWorkers& s : group.stragglers.slow) {
    s.workers = std::min(s.workers, left);
    left -= s.workers;
  }
  std::erase_if(group.stragglers.slow, [](const SlowWorkers& s) { return s.workers == 0; });
  return group;
}

Link stage_link(const Cluster& cluster, const Layout& layout) {
  const RankAxis axis = rank_axis(layout, Dimension::pipeline);
  const std::int64_t machine = machine_size(cluster, layout.devices());
  const GroupShape shape = group_shape(cluster, layout, Dimension::pipeline);
  if (shape.nodes == 1) return inside_of(cluster, 2);
  // The ranks of a stage that lie on one machine send to the next stage together; one pair has one card at most.
  const double pairs = static_cast<double>(std::min(axis.stride, machine));
  const double cards = static_cast<double>(cluster.nics_per_node);
  Link link{cluster.network.latency,
            cluster.network.bandwidth * (std::min(1.0, cards / pairs) * (1 - cluster.transport.background))};
  const std::vector<std::int64_t> held = devices_by_level(cluster);
  for (std::size_t k = 1; k < cluster.levels.size(); ++k) {
    const Level& level = cluster.levels[k];
    if (shape.levels[k].units == 1) continue;
    // Those of a stage within a unit below send across its uplinks together.
    const double senders = static_cast<double>(std::min(axis.stride, held[k]));
    const double machines = static_cast<double>(held[k]) / static_cast<double>(cluster.devices_per_node);
    const double uplinks = cards * machines * (1 - level.background) / level.oversubscription;
    link.latency = std::max(link.latency, level.latency);
    link.bandwidth = std::min(link.bandwidth, level.bandwidth * std::min({1.0, cards / pairs, uplinks / senders}));
  }
  link.bandwidth = std::min(link.bandwidth * usable_share(cluster.transport), flows_rate(cluster.transport));
  return link;
}

}  // namespace stepcast
