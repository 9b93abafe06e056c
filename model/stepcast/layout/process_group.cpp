// How the members of a group lie on machines follows from the rank order and the degrees inside of theirs.
#include <stepcast/cluster/transport.hpp>
#include <stepcast/layout/process_group.hpp>

#include <algorithm>
#include <numeric>
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

std::int64_t largest_divisor_up_to(std::int64_t n, std::int64_t limit) {
  for (std::int64_t d = limit; d > 1; --d)
    if (n % d == 0) return d;
  return 1;
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

GroupShape group_shape(const Cluster& cluster, std::int64_t devices, std::span<const RankAxis> axes) {
  GroupShape shape;
  shape.members = members_of(axes);
  if (shape.members == 1) return shape;
  const std::int64_t machine = machine_size(cluster, devices);
  shape.per_node = even_members_per_machine(machine, axes);
  if (shape.per_node == 0) {
    const std::int64_t machines = most_machines(machine, devices, axes);
    shape.per_node = machines == 1 ? shape.members : largest_divisor_up_to(shape.members, shape.members / machines);
  }
  shape.nodes = shape.members / shape.per_node;
  if (shape.nodes > 1)
    shape.sharing_network = std::clamp<std::int64_t>(machine / shape.per_node, 1, devices / shape.members);
  return shape;
}

GroupShape group_shape(const Cluster& cluster, const Layout& layout, Dimension dimension) {
  const RankAxis axis = rank_axis(layout, dimension);
  return group_shape(cluster, layout.devices(), std::span(&axis, 1));
}

Cluster group_cluster(const Cluster& cluster, const GroupShape& shape) {
  Cluster group = cluster;
  group.nodes = shape.nodes;
  group.devices_per_node = shape.per_node;
  // Groups that send at the same time share the cards: whole cards where there are enough of them.
  const std::int64_t cards = std::max<std::int64_t>(1, cluster.nics_per_node / shape.sharing_network);
  const double bandwidth_share =
      static_cast<double>(cluster.nics_per_node) / static_cast<double>(shape.sharing_network);
  group.nics_per_node = cards;
  group.network.bandwidth *= bandwidth_share / static_cast<double>(cards);
  if (group.aggregation && shape.sharing_network > 1)
    group.aggregation->line_rate /= static_cast<double>(shape.sharing_network);
  // A table holds for groups that lie as whole jobs of their size do: filled machines, cards of their own.
  const bool filled = shape.nodes == 1 || (shape.per_node == cluster.devices_per_node && shape.sharing_network == 1);
  std::erase_if(group.tables, [&](const MeasuredCollective& t) { return !filled || t.workers != shape.members; });
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
  if (group_shape(cluster, layout, Dimension::pipeline).nodes == 1) return cluster.inside;
  // The ranks of a stage that lie on one machine send to the next stage together; one pair has one card at most.
  const double pairs = static_cast<double>(std::min(axis.stride, machine));
  const double cards = static_cast<double>(cluster.nics_per_node);
  return {cluster.network.latency,
          cluster.network.bandwidth * (std::min(1.0, cards / pairs) * usable_share(cluster.transport))};
}

}  // namespace stepcast
