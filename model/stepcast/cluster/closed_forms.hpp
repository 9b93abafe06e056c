#pragma once
// Closed forms: latency-bandwidth lines of collective algorithms on one kind of link, and the links of a cluster as the
// algorithms see them.
//
// The textbook forms (Thakur, Rabenseifner, Gropp, IJHPCA 2005; Chan et al., CCPE 2007) with P ranks, latency alpha per
// step and inverse bandwidth beta. The time of the reduction itself (gamma) is folded into a fitted beta. All are zero
// for P = 1, linear in alpha and beta, and monotone in the message size. Members of collectives/ put them together.
#include <stepcast/cluster/collective.hpp>
#include <stepcast/cluster/transport.hpp>

#include <bit>
#include <cstdint>
#include <span>
#include <string>

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

/// One network card of a machine, with what its transport leaves of it.
inline Link network_link(const Cluster& c) {
  return {c.network.latency, c.network.bandwidth * (c.stragglers.least_link_share() * usable_share(c.transport))};
}
/// Between the devices of one machine. A degraded link is one between machines, if there are several.
inline Link inside_link(const Cluster& c) {
  return {c.inside.latency, c.nodes > 1 ? c.inside.bandwidth : c.inside.bandwidth * c.stragglers.least_link_share()};
}
/// All network cards of a machine together.
inline Link machine_link(const Cluster& c) {
  const Link card = network_link(c);
  return {card.latency, card.bandwidth * static_cast<double>(c.nics_per_node)};
}
/// The share of the network that one device has while all devices of its machine send.
inline Link shared_link(const Cluster& c) {
  return {c.network.latency, machine_link(c).bandwidth / static_cast<double>(c.devices_per_node)};
}
/// A step of a pattern that crosses each machine's cards once in each direction, and the links inside as well: the
/// slowest link sets the pace. Several cards carry parallel copies of the pattern, each with its part of the data.
inline Link flat_link(const Cluster& c) {
  if (c.nodes == 1) return inside_link(c);
  const Link between = machine_link(c);
  if (c.devices_per_node == 1) return between;
  return {c.inside.latency < between.latency ? between.latency : c.inside.latency,
          c.inside.bandwidth < between.bandwidth ? c.inside.bandwidth : between.bandwidth};
}

/// Pairwise all-to-all: g-1 partners inside, P-g outside.
inline CostLine pairwise_all_to_all(const Cluster& c) {
  const double p = static_cast<double>(c.workers());
  const double inside = static_cast<double>(c.devices_per_node - 1);
  const double outside = static_cast<double>(c.workers() - c.devices_per_node);
  return steps_and_volume(inside, inside / p, inside_link(c)) + steps_and_volume(outside, outside / p, shared_link(c));
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
