// NCCL: the fastest of its algorithms and protocols at each size.
//
//   ring, all-reduce (k = 2), reduce-scatter and all-gather (k = 1), protocol p
//        base_p + k (P - n) inside_p + k (n - 1) between_p + k (P-1)/P m / (share_p B)
//   tree, all-reduce
//        base_p + 2 ((g - 1) inside_p + ceil(log2 n) between_p) + 2 m / (tree share_p B)
//        share_p {1/3.8, 7/9, 1} inside a machine, else those of a ring with 15/16 for LL128
//   NVLS       25 us + k (P-1)/P m / (nvls B_in)                                one machine
//   NVLS tree  25 us + 2 ceil(log2 n) between + m max(d(n) / (tree B_net), 1 / B_in),  d = 1 for n = 2, else 2
//   CollNet    2 (min(1, g - 1) 3.7 us + 0.4 us (g - 1)) + 31 us, or 2 (g - 1) 2.8 us + 30 us, + m / (collnet B_net)
//   broadcast  as a ring's half; all-to-all: base_p + (g-1) inside_LL + (P-g) peer + volume over the slowest link
//
// P devices, n machines of g devices, B = min(B_in, B_net). The latencies of a hop and of the launch are those of
// NCCL's tuning tables (src/graph/tuning.cc of 2.18 to 2.27: base {6.6, 14, 8.4} us of a ring, {6.8, 14, 0} of a tree;
// hops over NVLink {0.6, 1.9, 3.4} and {0.6, 1.25, 4}, over a network {2.7, 4, 14} and {5, 8.5, 14} by LL, LL128 and
// Simple), scaled by what the cluster's links and its NcclTuning say. LL between machines is limited by the hosts (22.5
// GB/s in the tables). NCCL_ALGO holds for all-reduces alone, as in NCCL. Bounds: bytes as those of ring and tree; two
// machines with NVLS exchange no more than m each. Two devices of one machine reach a share pair^(1/k) of B: 0.72 over
// NVLink, as an A100's and a B200's do (aiconfigurator's tables; 0.62 to 0.80), all of it over PCIe. Levels of the
// network: a ring's hops and a tree's depth take the latency of each level as often as they cross it, and no algorithm
// exceeds what a unit's uplinks carry. Not modelled: the number of channels by size, chunks, PAT.
#include <stepcast/cluster/closed_forms.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace stepcast::collective::nccl {
namespace {

using Algorithm = NcclAlgorithm;
using Protocol = NcclProtocol;
constexpr auto ll = static_cast<std::size_t>(Protocol::ll), ll128 = static_cast<std::size_t>(Protocol::ll128),
               simple = static_cast<std::size_t>(Protocol::simple);

constexpr double us = 1e-6;
constexpr double ring_base[] = {6.6 * us, 14 * us, 8.4 * us}, tree_base[] = {6.8 * us, 14 * us, 0};
// Hops over that of a ring by LL128, which is the latency of a link.
constexpr double ring_inside[] = {0.6 / 1.9, 1, 3.4 / 1.9}, tree_inside[] = {0.6 / 1.9, 1.25 / 1.9, 4 / 1.9};
constexpr double ring_between[] = {2.7 / 4, 1, 14.0 / 4}, tree_between[] = {5.0 / 4, 8.5 / 4, 14.0 / 4};
constexpr double nvls_base = 25 * us;
constexpr double nvls_hop = 14.0 / 4;
constexpr double most_of_ll = 22.5e9 / 0.5;  // of the ring's bandwidth between machines, of which LL takes a share

/// What the forms need of a cluster.
struct Machines {
  explicit Machines(const Cluster& c)
      : t(c.nccl),
        devices(static_cast<double>(c.workers())),
        nodes(static_cast<double>(c.nodes)),
        per_node(static_cast<double>(c.devices_per_node)),
        inside(inside_link(c).latency.value()),
        between(network_link(c).latency.value()),
        inside_rate(inside_link(c).bandwidth.value()),
        pair_rate(inside_link(c, 2).bandwidth.value()),
        card(network_link(c).bandwidth.value()),
        cards(machine_link(c).bandwidth.value()),
        levels(network_levels(c)),
        flows(flows_rate(c.transport).value()),
        algorithms(nccl_algorithms_of(c.nccl.algo, "NCCL_ALGO")),
        protocols(nccl_protocols_of(c.nccl.proto, "NCCL_PROTO")) {
    std::int64_t left = c.nodes, machines = 1;
    for (const NetworkLevel& level : levels) {
      const double latency = level.latency.value();
      ring_hops += static_cast<double>(left - left / level.units) * latency;
      tree_hops += ceil_log2(level.units) * latency;
      left /= level.units;
      if (machines > 1) tree_load = std::max(tree_load, tree_crossings(c.nodes, machines) / level.unit.value());
      machines *= level.units;
    }
  }

  [[nodiscard]] bool several() const { return nodes > 1; }
  /// Of rings with so many passes.
  [[nodiscard]] double ring_rate(double passes) const {
    return several() || devices > 2 ? rate()
                                    : rate() * std::pow(pair_share(t, BytesPerSecond(inside_rate)), 1 / passes);
  }
  [[nodiscard]] double rate() const {
    if (!several()) return inside_rate;
    return per_node > 1 ? std::min(inside_rate, cards) : cards;
  }
  /// Of a tree in which a machine sends 2 m: less than a ring's where uplinks hold it up.
  [[nodiscard]] double tree_rate() const { return tree_load > 0 ? std::min(rate(), 2 / tree_load) : rate(); }
  [[nodiscard]] bool runs(Algorithm a) const { return (algorithms >> static_cast<unsigned>(a) & 1) != 0; }
  [[nodiscard]] bool runs(Protocol p) const { return (protocols >> static_cast<unsigned>(p) & 1) != 0; }

  const NcclTuning& t;
  double devices, nodes, per_node, inside, between, inside_rate, pair_rate, card, cards;
  NetworkLevels levels;
  double flows;                         ///< what a pair of devices reaches at most
  double ring_hops = 0, tree_hops = 0;  ///< latencies along a ring through all machines, and down a tree
  double tree_load = 0;                 ///< seconds a byte of the fullest uplinks of a level above machines
  unsigned algorithms, protocols;
};

CostLine line(double start_up, double seconds_per_byte) { return {Seconds(start_up), seconds_per_byte}; }

/// Bus bandwidth by a protocol where Simple has `rate`.
double by_protocol(const Machines& c, std::size_t protocol, double rate) {
  if (protocol == simple) return rate;
  if (protocol == ll128) return rate * c.t.ll128;
  return c.several() ? std::min(rate, most_of_ll) * c.t.ll_between : rate * c.t.ll;
}

/// What trees by a protocol reach where rings by Simple have `rate`.
double by_tree(const Machines& c, std::size_t protocol, double rate) {
  if (protocol == simple) return rate * c.t.tree;
  if (protocol == ll128) return rate * c.t.tree * (c.several() ? 15.0 / 16 : 7.0 / 9) * c.t.ll128 / 0.92;
  return c.several() ? by_protocol(c, protocol, rate * c.t.tree) : rate * c.t.tree * (c.t.ll / 0.45) / 3.8;
}

/// `rounds` passes of (P-1)/P of the buffer around the ring: 2 for an all-reduce.
void add_rings(const Machines& c, double rounds, CostLines& out) {
  for (std::size_t p = 0; p < nccl_protocol_count; ++p) {
    if (!c.runs(static_cast<Protocol>(p))) continue;
    const double hop = p == simple ? c.t.simple_hop : 1;
    // With one device a machine the network's latency is fully exposed: that of a tree's.
    const double between = (c.per_node > 1 ? ring_between : tree_between)[p] * c.ring_hops;
    const double hops = (c.devices - c.nodes) * ring_inside[p] * c.inside + between;
    out.add(line(c.t.launch * ring_base[p] + rounds * hop * hops,
                 rounds * (c.devices - 1) / c.devices / by_protocol(c, p, c.ring_rate(rounds))));
  }
}

void add_trees(const Machines& c, CostLines& out) {
  for (std::size_t p = 0; p < nccl_protocol_count; ++p) {
    if (!c.runs(static_cast<Protocol>(p))) continue;
    const double hops = (c.per_node - 1) * tree_inside[p] * c.inside + tree_between[p] * c.tree_hops;
    out.add(line(c.t.launch * tree_base[p] + 2 * hops, 2 / by_tree(c, p, c.tree_rate())));
  }
}

void add_switched(const Machines& c, double rounds, CostLines& out) {
  const bool pair = !c.several() && c.devices == 2;  // for which NCCL has no sums in the switch
  if (!(c.t.nvls > 0) || !c.runs(Protocol::simple) || !(c.per_node > 1) || pair) return;
  const double start = nvls_base * c.t.launch;
  if (!c.several()) {
    if (rounds < 2 || c.runs(Algorithm::nvls))
      out.add(line(start, rounds * (c.devices - 1) / c.devices / (c.t.nvls * c.inside_rate)));
    return;
  }
  if (rounds < 2 || !c.runs(Algorithm::nvls_tree)) return;
  const double volume = c.nodes > 2 ? 2 : 1;
  out.add(line(start + 2 * nvls_hop * c.tree_hops,
               std::max({volume / (c.t.tree * c.cards), c.tree_load / c.t.tree, 1 / c.inside_rate})));
}

void add_in_network(const Machines& c, CostLines& out) {
  if (!(c.t.collnet > 0) || !c.several() || !c.runs(Protocol::simple)) return;
  const double per_byte = std::max(1 / (c.t.collnet * c.cards), c.per_node > 1 ? 2 / c.inside_rate : 0);
  const double inside = c.inside / 1.9, between = c.between / 4;  // of a microsecond in NCCL's tables
  if (c.runs(Algorithm::collnet_direct))
    out.add(line(2 * (std::min(1.0, c.per_node - 1) * 3.7 * inside + (c.per_node - 1) * 0.4 * us) + 31 * between,
                 per_byte));
  if (c.runs(Algorithm::collnet_chain)) out.add(line(2 * (c.per_node - 1) * 2.8 * inside + 30 * between, per_byte));
}

/// Pairs of devices exchange directly, by LL or Simple: `volume` over the slowest link, and the latency of all peers.
void add_pairs(const Machines& c, double latency, double volume_over_rate, CostLines& out) {
  for (const std::size_t p : {ll, simple}) {
    if (!c.runs(static_cast<Protocol>(p)) && c.protocols != 1U << ll128) continue;
    const double share = p == ll ? (c.several() ? c.t.ll_between : c.t.ll) : 1;
    out.add(line(c.t.launch * ring_base[p] + latency, volume_over_rate / share));
  }
}

CostLines choices(const Cluster& cluster, Operation op) {
  CostLines out = CostLines::none();
  if (cluster.workers() == 1) return out;
  const Machines c(cluster);
  switch (op) {
    case Operation::all_reduce:
      if (c.runs(Algorithm::ring)) add_rings(c, 2, out);
      if (c.runs(Algorithm::tree)) add_trees(c, out);
      add_switched(c, 2, out);
      add_in_network(c, out);
      break;
    case Operation::reduce_scatter:
    case Operation::all_gather:
      add_rings(c, 1, out);
      add_switched(c, 1, out);
      break;
    case Operation::broadcast:
      add_rings(c, 1, out);
      break;
    case Operation::all_to_all: {
      const double local = c.per_node - 1, remote = c.devices - c.per_node;
      double slowest = local / c.devices / (c.several() ? c.inside_rate : c.ring_rate(1)), below = c.per_node;
      for (const NetworkLevel& level : c.levels) {
        const double partners = c.devices - below;  // each over flows of its own
        slowest = std::max(slowest, partners / c.devices / std::min(level.device.value(), partners * c.flows));
        below *= static_cast<double>(level.units);
      }
      add_pairs(c, local * ring_inside[0] * c.inside + remote * c.t.peer.value(), slowest / c.t.all_to_all, out);
      break;
    }
    case Operation::send:
      add_pairs(c, c.several() ? ring_between[0] * c.between : ring_inside[0] * c.inside,
                1 / (c.several() ? c.card : c.pair_rate) / c.t.send, out);
      break;
    default:
      break;
  }
  return out;
}

/// The one line that stands for all of them: the fastest for a bucket of gradients.
template <Operation op>
CostLine typical(const Cluster& c) {
  const CostLines lines = choices(c, op);
  return lines.count == 0 ? CostLine{} : lines.line[lines.least_at(mebibytes(4))];
}

std::string unsuitable(const Cluster& c) {
  if (c.workers() == 1 || choices(c, Operation::all_reduce).count > 0) return {};
  return "nothing that NCCL has for an all-reduce here is left by NCCL_ALGO=" + c.nccl.algo +
         " and NCCL_PROTO=" + c.nccl.proto;
}

}  // namespace

extern constinit const CollectiveAlgorithm record{
    .name = "nccl",
    .summary = "the fastest of NCCL's rings, trees and switches by LL, LL128 and Simple",
    .reference = "NCCL 2.18 to 2.27 tuning, scaled to the machines",
    .all_reduce = typical<Operation::all_reduce>,
    .reduce_scatter = typical<Operation::reduce_scatter>,
    .all_gather = typical<Operation::all_gather>,
    .broadcast = typical<Operation::broadcast>,
    .all_to_all = typical<Operation::all_to_all>,
    .unsuitable = unsuitable,
    .choices = choices,
    .carries = true};

}  // namespace stepcast::collective::nccl
