#pragma once
// Closed forms: latency-bandwidth lines of collective algorithms on one kind of link, and the links of a cluster as the
// algorithms see them.
//
// The network between machines has one level or several: a pattern that goes from neighbour to neighbour crosses each
// unit's uplinks with one machine's flow, one in which all devices exchange at a distance crosses them with all.
//
// The textbook forms (Thakur, Rabenseifner, Gropp, IJHPCA 2005; Chan et al., CCPE 2007) with P ranks, latency alpha per
// step and inverse bandwidth beta. The time of the reduction itself (gamma) is folded into a fitted beta. All are zero
// for P = 1, linear in alpha and beta, and monotone in the message size. Members of collectives/ put them together.
#include <stepcast/cluster/collective.hpp>
#include <stepcast/cluster/transport.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace stepcast {

/// Smallest k with 2^k >= p. Requires p >= 1.
constexpr int ceil_log2(std::int64_t p) { return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(p) - 1)); }
constexpr bool is_power_of_two(std::int64_t p) { return std::has_single_bit(static_cast<std::uint64_t>(p)); }

/// `steps` steps in which each rank sends `volume` times the full buffer in all.
constexpr CostLine steps_and_volume(double steps, double volume, const Link& link) {
  return {link.latency * steps, volume / link.bandwidth.value()};
}

/// (P-1) alpha + (P-1)/P beta m: ring reduce-scatter, ring all-gather, pairwise all-to-all.
constexpr CostLine ring_half(std::int64_t p, const Link& link) {
  const double steps = static_cast<double>(p - 1);
  return steps_and_volume(steps, steps / static_cast<double>(p), link);
}

/// log2(P) alpha + (P-1)/P beta m: recursive halving (reduce-scatter) or doubling (all-gather); P a power of two.
constexpr CostLine halving(std::int64_t p, const Link& link) {
  return steps_and_volume(ceil_log2(p), static_cast<double>(p - 1) / static_cast<double>(p), link);
}

/// ceil(log2 P) (alpha + beta m): the whole message in every round (binomial broadcast or reduce, recursive doubling).
constexpr CostLine whole_message_rounds(std::int64_t p, const Link& link) {
  return steps_and_volume(ceil_log2(p), ceil_log2(p), link);
}

/// A line for 1/k of the buffer.
constexpr CostLine on_part(CostLine line, std::int64_t k) {
  return {line.start_up, line.seconds_per_byte / static_cast<double>(k)};
}

// The links of the worker that has the least of them: every pattern here waits for all of its ranks in every step, so
// that the slowest link sets the pace.

/// One level of the network as a job uses it: `units` of what is below are joined, over links of which the algorithms
/// see one card, one machine, one unit or one device, depending on who else sends across at the same time.
struct NetworkLevel {
  std::int64_t units;      ///< product over all levels: the machines of the job
  Seconds latency;         ///< of a step that crosses the level
  BytesPerSecond card;     ///< of one card, while nothing else leaves its unit
  BytesPerSecond machine;  ///< of all cards of one machine, while nothing else leaves its unit
  BytesPerSecond cards;    ///< the same by as many flows as it takes
  BytesPerSecond unit;     ///< of all machines of a unit together: its uplinks
  BytesPerSecond device;   ///< of every device, while all of its unit send across, by as many flows as it takes
};
struct NetworkLevels {
  std::array<NetworkLevel, most_levels> level;
  std::size_t count = 0;

  [[nodiscard]] const NetworkLevel* begin() const { return level.data(); }
  [[nodiscard]] const NetworkLevel* end() const { return level.data() + count; }
  [[nodiscard]] const NetworkLevel& outermost() const { return level[count - 1]; }
};
/// Of n, at most `limit`.
constexpr std::int64_t largest_divisor_up_to(std::int64_t n, std::int64_t limit) {
  for (std::int64_t d = n < limit ? n : limit; d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}
/// The sides of a torus, in place.
struct TorusSides {
  std::array<TorusSide, most_torus_sides> side;
  std::size_t count = 0;

  [[nodiscard]] const TorusSide* begin() const { return side.data(); }
  [[nodiscard]] const TorusSide* end() const { return side.data() + count; }
};
/// True where several machines are linked without switches.
inline bool on_torus(const Cluster& c) { return c.nodes > 1 && !c.levels.empty() && !c.levels.front().torus.empty(); }
/// The part of the first level's torus that so many machines fill, first dimension first, as many of each as divide
/// the job; without dimensions of one machine. Part of a dimension is a line.
inline TorusSides torus_sides(const Cluster& c, std::int64_t machines) {
  TorusSides out;
  std::int64_t rest = machines;
  const std::vector<TorusSide>& torus = c.levels.front().torus;
  for (std::size_t i = 0; i < torus.size() && rest > 1; ++i) {
    const std::int64_t units = i + 1 == torus.size() ? rest : largest_divisor_up_to(rest, torus[i].units);
    if (units > 1) out.side[out.count++] = {units, torus[i].closed && units == torus[i].units};
    rest /= units;
  }
  return out;
}
/// Links that lead on along a dimension, of which a ring can use both.
constexpr double ways_along(const TorusSide& side) { return side.closed && side.units > 2 ? 2 : 1; }
/// Bytes that the fullest link of a torus carries in an all-to-all by the shortest ways, a dimension after the other
/// and both ways where they are equally long, over the buffer of one machine: of a closed dimension of d the mean
/// distance over two links, d / 8 (for odd d, (d^2 - 1) / 8d); of a line what passes its middle.
inline double all_to_all_on_torus(const TorusSides& sides) {
  double most = 0;
  for (const TorusSide& side : sides) {
    const double d = static_cast<double>(side.units), half = static_cast<double>(side.units / 2);
    most = std::max(most, ways_along(side) > 1 ? half * (d - half) / (2 * d) : half * (d - half) / d);
  }
  return most;
}

/// From the inside out, those that the job's machines reach over; at least one, also of one machine. Where machines do
/// not fill whole units, each of them has as many as divide the job.
inline NetworkLevels network_levels(const Cluster& c) {
  const double lossy = usable_share(c.transport), share = c.stragglers.least_link_share() * card_share(c.transport);
  const double cards = static_cast<double>(c.nics_per_node), devices = static_cast<double>(c.devices_per_node);
  const BytesPerSecond flows = flows_rate(c.transport);
  BytesPerSecond card = c.network.bandwidth * share;
  NetworkLevel now{c.nodes,      c.network.latency, std::min(card, flows), std::min(card, flows) * cards,
                   card * cards, card * cards,      card * cards / devices};
  NetworkLevels out;
  if (c.levels.empty()) {
    out.level[out.count++] = now;
    return out;
  }
  std::int64_t rest = c.nodes;
  double machines = 1;  // of a unit below, used or not
  for (std::size_t i = 0; i < c.levels.size(); ++i) {
    const Level& level = c.levels[i];
    if (i > 0) {
      const BytesPerSecond wire = level.bandwidth * lossy;
      card = std::min(card, wire);
      now.latency = std::max(now.latency, level.latency);
      now.unit = wire * (cards * machines * (1 - level.background) / level.oversubscription);
      now.card = std::min({now.card, card, now.unit});
      now.machine = std::min({now.machine, card * cards, now.unit});
      now.cards = std::min({now.cards, card * cards, now.unit});
      now.device = std::min({now.device, card * cards / devices, now.unit / (machines * devices)});
    }
    const bool last = i + 1 == c.levels.size();
    now.units = last ? rest : largest_divisor_up_to(rest, level.units);
    out.level[out.count++] = now;
    if (i == 0 && on_torus(c) && now.units > 1) {
      // A ring in the order of ranks loads each link once, and goes back to the first place of every dimension where it
      // ends: one hop around a closed one. What all send everywhere takes the links of many.
      const TorusSides sides = torus_sides(c, now.units);
      NetworkLevel& torus = out.level[0];
      std::int64_t hops = 0;
      for (const TorusSide& side : sides) hops += side.closed ? 1 : side.units - 1;
      torus.latency *= static_cast<double>(hops);
      const double units = static_cast<double>(now.units);
      torus.device = torus.card * ((units - 1) / units / all_to_all_on_torus(sides) / devices);
    }
    rest /= now.units;
    machines *= static_cast<double>(level.units);
    if (rest == 1) break;
  }
  return out;
}
/// The parent of a rank in NCCL's tree, in which ranks are in order: -1 for rank 0, the root.
constexpr std::int64_t parent_in_tree(std::int64_t ranks, std::int64_t rank) {
  if (rank == 0) return -1;
  const std::int64_t bit = rank & -rank, sibling = rank ^ bit, up = sibling | (bit << 1);
  return up < ranks ? up : sibling;
}
/// Buffers that the busiest unit of a level sends, and receives as many, in an all-reduce by NCCL's two trees over
/// machines in the order of their ranks: half a buffer for each edge that leaves it.
inline double tree_crossings(std::int64_t machines, std::int64_t machines_of_unit) {
  const std::int64_t n = machines, w = machines_of_unit;
  std::vector<int> edges(static_cast<std::size_t>((n + w - 1) / w), 0);
  const auto cross = [&](std::int64_t a, std::int64_t b) {
    if (a / w == b / w) return;
    ++edges[static_cast<std::size_t>(a / w)];
    ++edges[static_cast<std::size_t>(b / w)];
  };
  for (std::int64_t rank = 1; rank < n; ++rank) {
    const std::int64_t up = parent_in_tree(n, rank);
    cross(rank, up);
    // The other tree is the mirror image of even numbers of ranks, and one rank further of odd ones.
    if (n % 2 == 0) cross(n - 1 - rank, n - 1 - up);
    else cross((rank + 1) % n, (up + 1) % n);
  }
  return 0.5 * *std::max_element(edges.begin(), edges.end());
}

/// One network card of a machine, with what its transport leaves of it, across all levels.
inline Link network_link(const Cluster& c) {
  if (!c.levels.empty()) {
    const NetworkLevels levels = network_levels(c);
    return {levels.outermost().latency, levels.outermost().card};
  }
  const BytesPerSecond card = c.network.bandwidth * (c.stragglers.least_link_share() * card_share(c.transport));
  return {c.network.latency, std::min(card, flows_rate(c.transport))};
}
/// Between the devices of one machine. A degraded link is one between machines, if there are several.
inline Link inside_link(const Cluster& c, std::int64_t devices) {
  const Link link = inside_of(c, devices);
  return {link.latency, c.nodes > 1 ? link.bandwidth : link.bandwidth * c.stragglers.least_link_share()};
}
inline Link inside_link(const Cluster& c) { return inside_link(c, c.devices_per_node); }
/// All network cards of a machine together.
inline Link machine_link(const Cluster& c) {
  if (!c.levels.empty()) {
    const NetworkLevels levels = network_levels(c);
    return {levels.outermost().latency, levels.outermost().machine};
  }
  const Link card = network_link(c);
  return {card.latency, card.bandwidth * static_cast<double>(c.nics_per_node)};
}
/// The share of the network that one device has while all devices of its machine send, each to a neighbour.
inline Link shared_link(const Cluster& c) {
  const NetworkLevels levels = network_levels(c);
  return {levels.outermost().latency,
          std::min(flows_rate(c.transport), levels.outermost().cards / static_cast<double>(c.devices_per_node))};
}
/// A step of a pattern that crosses each machine's cards once in each direction, and the links inside as well: the
/// slowest link sets the pace. Several cards carry parallel copies of the pattern, each with its part of the data.
inline Link flat_link(const Cluster& c) {
  if (c.nodes == 1) return inside_link(c);
  const Link between = machine_link(c);
  if (c.devices_per_node == 1) return between;
  const Link inside = inside_link(c);
  return {inside.latency < between.latency ? between.latency : inside.latency,
          inside.bandwidth < between.bandwidth ? inside.bandwidth : between.bandwidth};
}

/// What every device has of a level while all devices below exchange across it, each with one other.
inline Link device_link(const Cluster& c, const NetworkLevel& level) {
  return {level.latency, std::min(level.device, flows_rate(c.transport))};
}

/// What one device has of one link of a torus while all devices of its machine send along the same dimension.
inline Link torus_link(const Cluster& c) {
  const BytesPerSecond link = network_levels(c).level[0].card;
  return {c.network.latency, link / static_cast<double>(c.devices_per_node)};
}

/// What the cards of a machine carry of flows to (or from) so many others.
inline BytesPerSecond cards_to(const Cluster& c, std::int64_t others) {
  const double cards = static_cast<double>(c.nics_per_node);
  return std::min(c.network.bandwidth * cards * card_share(c.transport),
                  flows_rate(c.transport) * (cards * static_cast<double>(others)));
}
/// The link of a healthy worker machine, or of a server machine, for parameter-server traffic.
inline Link server_link(const Cluster& c) {
  Link link = c.server_link;
  if (link.bandwidth.value() == 0) link = {c.network.latency, cards_to(c, c.servers > 0 ? c.servers : c.nodes - 1)};
  else link.bandwidth *= card_share(c.transport);
  if (!c.levels.empty()) link.latency = std::max(link.latency, network_levels(c).outermost().latency);
  return link;
}
/// What one server sends, and receives, at most: its own rate, else that of a worker machine.
inline BytesPerSecond server_rate(const Cluster& c) {
  return c.server_rate > BytesPerSecond(0) ? c.server_rate * usable_share(c.transport) : server_link(c).bandwidth;
}
/// Seconds a byte in which uplinks of levels carry what all machines exchange with servers: with co-located ones the
/// part that leaves a unit, with separate ones all of it.
inline double uplink_time(const Cluster& c) {
  if (c.levels.empty()) return 0;
  double slowest = 0;
  std::int64_t machines = 1;
  for (const NetworkLevel& level : network_levels(c)) {
    const double leaving = c.servers > 0 ? 1 : static_cast<double>(c.nodes - machines) / static_cast<double>(c.nodes);
    slowest = std::max(slowest, leaving / (level.device.value() * static_cast<double>(c.devices_per_node)));
    machines *= level.units;
  }
  return slowest;
}
/// Seconds a byte of what every machine pushes (or pulls), by what carries it: the cards of the slowest worker machine
/// and the uplinks above it, and the cards of servers that hold the same each. A push takes the longer of both; a plan
/// that says which server holds what charges each on its own.
struct ServerTransferTime {
  double worker = 0, server = 0;
};
/// With S servers a worker's card takes m/B and a server's n m / (S B_s); co-located, (n-1)/n of it leaves the machine.
/// A worker may have only a share of its link, and the sum waits for it. One machine needs no server.
inline ServerTransferTime server_transfer_time(const Cluster& c) {
  if (c.nodes == 1) return {};
  const double n = static_cast<double>(c.nodes), s = static_cast<double>(c.servers);
  const double sent = c.servers == 0 ? (n - 1) / n : 1, taken = c.servers == 0 ? sent : n / s;
  const double slowest = 1 / c.stragglers.least_link_share(), card = 1 / server_link(c).bandwidth.value();
  return {std::max(sent * slowest * card, uplink_time(c)), taken / server_rate(c).value()};
}

/// A binomial tree between machines, level by level: one machine of each unit sends the whole message over one card.
inline CostLine tree_rounds_between(const Cluster& c) {
  CostLine line;
  for (const NetworkLevel& level : network_levels(c))
    line = line + whole_message_rounds(level.units, {level.latency, level.card});
  return line;
}
/// Rounds in which all devices exchange the whole message across each level.
inline CostLine exchange_rounds_between(const Cluster& c) {
  CostLine line;
  for (const NetworkLevel& level : network_levels(c))
    line = line + whole_message_rounds(level.units, device_link(c, level));
  return line;
}

/// Pairwise all-to-all: g-1 partners inside, P-g outside, at each level those that it joins.
inline CostLine pairwise_all_to_all(const Cluster& c) {
  const double p = static_cast<double>(c.workers());
  const double inside = static_cast<double>(c.devices_per_node - 1);
  CostLine line = steps_and_volume(inside, inside / p, inside_link(c));
  std::int64_t below = c.devices_per_node;
  for (const NetworkLevel& level : network_levels(c)) {
    const double partners = static_cast<double>(below * (level.units - 1));
    line = line + steps_and_volume(partners, partners / p, device_link(c, level));
    below *= level.units;
  }
  return line;
}

/// Why an algorithm of pairs cannot run; empty if it can.
inline std::string power_of_two_only(const Cluster& c) {
  if (is_power_of_two(c.nodes) && is_power_of_two(c.devices_per_node)) return {};
  return "it needs powers of two, here " + std::to_string(c.nodes) + " machines of " +
         std::to_string(c.devices_per_node) + " devices";
}

/// One level of a factored collective: `factor` ranks over `link`.
struct FactorLevel {
  std::int64_t factor;
  Link link;
};
/// Reduce-scatter (or all-gather) by a ring per level, P = product of the factors (BlueConnect, Cho et al., MLSys
/// 2019): sum_j (p_j - 1) [alpha_j + m / (p_1 ... p_j B_j)].
constexpr CostLine factored_half(std::span<const FactorLevel> levels) {
  CostLine total;
  std::int64_t done = 1;
  for (const FactorLevel& level : levels) {
    total = total + on_part(ring_half(level.factor, level.link), done);
    done *= level.factor;
  }
  return total;
}

}  // namespace stepcast
