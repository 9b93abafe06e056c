#pragma once
// Collectives: how long one communication operation takes on a cluster.
//
// An algorithm (ring, tree, hierarchical, ...) is a record of pure functions from a network to a line
// T(m) = start_up + m / rate, one per operation that it defines, or several of which a library runs the fastest. A
// measured table replaces the lines where there is one: interpolated between neighbours, extrapolated by the slope of
// its last points; `nccl` carries tables on to other numbers of workers (carried.hpp). m is always the full buffer per
// worker in bytes (for an all-gather: of the full result). Identity: T = 0 for one worker. Not modelled: congestion by
// other jobs; the wait for late peers, which is the scheduler's business.
//
// Servers (push, pull, server_sum, local stages) are the same for every algorithm; m is what one worker *machine* holds
// after its local reduction. Times are those of an operation alone. With separate servers push loads one direction of
// the worker's card and pull the other, so that they overlap. With co-located servers (Cluster::servers == 0) each
// direction also carries the machine's own server role: a plan that lets push and pull overlap has to put both on one
// channel (`server_directions_shared`), which gives 2(n-1)/n * m/B for the pair, the ring's volume. Push and pull
// assume that the servers share the bytes evenly; `server_card` is for plans that say which server holds what.
//
// The table of all algorithms stands with those of the other families in plan/families.cpp.
#include <stepcast/base/error.hpp>
#include <stepcast/base/units.hpp>
#include <stepcast/cluster/cluster.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

enum class Operation : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  all_to_all,
  send,                  ///< point to point
  push,                  ///< worker machine -> servers
  pull,                  ///< servers -> worker machine
  server_sum,            ///< summation on the servers
  local_reduce_scatter,  ///< among the devices of one node, before a push
  local_all_gather,      ///< among the devices of one node, after a pull
  server_card,           ///< payloads of all worker machines into (or out of) the card of one server
};
inline constexpr std::size_t operation_count = 12;
[[nodiscard]] std::string_view name_of(Operation);
/// The operation of that name; nothing if there is none.
[[nodiscard]] std::optional<Operation> operation_of(std::string_view name);

/// T(m) = start_up + m * seconds_per_byte.
struct CostLine {
  Seconds start_up;
  double seconds_per_byte = 0;  ///< inverse bandwidth; s/B
  [[nodiscard]] constexpr Seconds operator()(Bytes m) const {
    return Seconds(start_up.value() + m.value() * seconds_per_byte);
  }
  friend constexpr CostLine operator+(CostLine a, CostLine b) {
    return {a.start_up + b.start_up, a.seconds_per_byte + b.seconds_per_byte};
  }
  bool operator==(const CostLine&) const = default;
};

/// Of lines of which the fastest counts at each size: its time. Requires a line.
[[nodiscard]] constexpr Seconds least_time(std::span<const CostLine> lines, Bytes m) {
  Seconds least = lines[0](m);
  for (std::size_t i = 1; i < lines.size(); ++i) least = std::min(least, lines[i](m));
  return least;
}
/// Which one that is; the first of equals.
[[nodiscard]] constexpr std::size_t fastest_at(std::span<const CostLine> lines, Bytes m) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < lines.size(); ++i)
    if (lines[i](m) < lines[best](m)) best = i;
  return best;
}

/// Such lines, in place: a list is copied and asked without allocation.
struct CostLines {
  static constexpr std::size_t most = 10;
  std::array<CostLine, most> line{};
  std::size_t count = 1;  ///< of a default one: the line that costs nothing

  [[nodiscard]] static constexpr CostLines none() {
    CostLines lines;
    lines.count = 0;
    return lines;
  }
  /// Requires count < most.
  constexpr void add(CostLine another) { line[count++] = another; }
  [[nodiscard]] constexpr std::span<const CostLine> all() const { return {line.data(), count}; }
  [[nodiscard]] constexpr Seconds operator()(Bytes m) const { return least_time(all(), m); }
  [[nodiscard]] constexpr std::size_t least_at(Bytes m) const { return fastest_at(all(), m); }
};

/// One collective algorithm. A function pointer is null where the algorithm does not define the operation.
struct CollectiveAlgorithm {
  std::string_view name;  ///< "ring", "hierarchical", "double_tree", ...
  std::string_view summary;
  std::string_view reference;  ///< where the formula comes from
  CostLine (*all_reduce)(const Cluster&);
  CostLine (*reduce_scatter)(const Cluster&);
  CostLine (*all_gather)(const Cluster&);
  CostLine (*broadcast)(const Cluster&);
  CostLine (*all_to_all)(const Cluster&);
  /// Null = always; else the reason why this cluster cannot use it (empty = it can).
  std::string (*unsuitable)(const Cluster&);
  /// Null = none; else all forms of an operation, of which the fastest runs at each size, as a tuned library chooses;
  /// an empty list where the line above is all there is.
  CostLines (*choices)(const Cluster&, Operation) = nullptr;
  bool carries = false;        ///< tables of other counts are carried on by its forms (carried.hpp)
  bool needs_switch = false;   ///< one that adds up gradients (Cluster::aggregation)
  bool needs_servers = false;  ///< server machines
  bool leaders_help = false;   ///< workers that are ready take over from those that are not (prediction/leaders.hpp)
  bool on_torus = false;       ///< its lines say what it takes where machines are linked without switches

  /// The lines of an operation among workers (all_reduce to all_to_all, and send where `choices` has it), without
  /// message overhead; none where the algorithm does not define it.
  [[nodiscard]] CostLines lines(const Cluster& cluster, Operation op) const;
};

/// All algorithms (collectives/collectives.inc).
[[nodiscard]] std::span<const CollectiveAlgorithm> collective_algorithms();
[[nodiscard]] const CollectiveAlgorithm* collective_algorithm(std::string_view name);

/// Measured points. Between two of them lies the chord, which is exact where a latency and a bandwidth govern, however
/// far apart the points are.
class CostTable {
 public:
  CostTable() = default;
  /// Sizes strictly increasing and positive, times positive, same length >= 1.
  CostTable(std::span<const Bytes> sizes, std::span<const Seconds> times);
  [[nodiscard]] Seconds operator()(Bytes m) const;
  [[nodiscard]] bool empty() const { return sizes_.empty(); }

 private:
  std::vector<double> sizes_, times_;
};

/// The time of every operation on one cluster with one algorithm: made once, asked for each transfer.
class CommunicationCost {
 public:
  [[nodiscard]] bool defines(Operation op) const { return defined_[static_cast<std::size_t>(op)]; }
  /// Time of one operation on `m` bytes, message overhead included; 0 for one worker. Requires defines(op).
  [[nodiscard]] Seconds operator()(Operation op, Bytes m) const {
    const auto i = static_cast<std::size_t>(op);
    if (!tables_[i].empty()) return measured(i, m);
    return least_time(forms_of(i), m);
  }
  /// The latency-bandwidth line of an operation (for a table: its least-squares line), e.g. for MG-WFBP's merge rule.
  [[nodiscard]] CostLine line(Operation op) const { return lines_[static_cast<std::size_t>(op)]; }
  /// Factor (>= 1) on the time of that operation while the devices compute: its time on the links as slow as they are
  /// then (Cluster::contention) over its time on free ones. Both by the closed forms, also where a table is used.
  [[nodiscard]] double slow_down(Operation op, Bytes m) const {
    if (!contended_) return 1;
    const auto i = static_cast<std::size_t>(op);
    const std::size_t runs = first_form_[i] + fastest_at(forms_of(i), m);
    const double free = forms_[runs](m).value();
    return free > 0 ? slow_[runs](m).value() / free : 1;
  }
  /// True where lost packets of that operation are sent again: it arrives later than its last byte was sent.
  [[nodiscard]] bool repairs(Operation op) const { return transport_.loss > 0 && between_machines(op); }
  /// How much later that is, in the mean, if all but the share `tolerated` has to arrive.
  [[nodiscard]] Seconds repair_time(Operation op, Bytes m, double tolerated = 0) const;
  /// Time on the links of packets that are sprayed over all paths, over that of the network's own flows: at most 1.
  [[nodiscard]] double sprayed_over_hashed() const;
  /// Packets of the operation on all links between machines; 0 where it stays inside of them.
  [[nodiscard]] double packets(Operation op, Bytes m) const {
    return packets_per_byte_[static_cast<std::size_t>(op)] * m.value();
  }
  [[nodiscard]] bool between_machines(Operation op) const {
    return packets_per_byte_[static_cast<std::size_t>(op)] > 0;
  }
  /// Of the network between machines; ideal on one machine.
  [[nodiscard]] const Transport& transport() const { return transport_; }
  [[nodiscard]] std::string_view algorithm() const { return algorithm_; }
  /// Every operation takes no time: for checking a plan's structure.
  [[nodiscard]] static CommunicationCost free_of_charge() {
    CommunicationCost cost;
    cost.defined_.fill(true);
    return cost;
  }

 private:
  friend Answer<CommunicationCost> communication_cost(const Cluster&, std::string_view);
  [[nodiscard]] Seconds measured(std::size_t i, Bytes m) const;
  /// From now on the operation takes what a table says, times `scale`.
  void measure(std::size_t i, const MeasuredCollective& table, double scale);
  [[nodiscard]] std::span<const CostLine> forms_of(std::size_t i) const {
    return {forms_.data() + first_form_[i], more_forms_[i] + std::size_t{1}};
  }
  void add_forms(std::size_t i, const CostLines& free);
  /// Closed forms of one operation after the other; the first one is that of all which cost nothing. On free links,
  /// and where they differ on slow ones.
  std::vector<CostLine> forms_{CostLine{}}, slow_;
  std::array<std::uint16_t, operation_count> first_form_{}, more_forms_{};
  std::array<CostLine, operation_count> lines_{};  ///< the one that stands for an operation
  std::array<CostTable, operation_count> tables_{};
  std::array<double, operation_count> table_scale_{};  ///< e.g. 0.5 for a reduce-scatter from an all-reduce table
  std::array<bool, operation_count> defined_{};
  std::array<double, operation_count> packets_per_byte_{};
  Transport transport_;
  Seconds round_trip_;  ///< in which a lost packet is noticed and sent again
  bool contended_ = false;
  Seconds overhead_;  ///< Cluster::message_overhead; part of the lines, added to table values
  std::string_view algorithm_;
};

/// Costs on `cluster` with `algorithm`. "" = the cluster's default: its measured table for this world size if there is
/// one, else its algorithm, which may carry tables of other world sizes on; "table" = the table; a name = that
/// algorithm's closed form, tables or not. Inapplicable when the algorithm is unsuitable for the cluster or a table for
/// this world size is missing.
[[nodiscard]] Answer<CommunicationCost> communication_cost(const Cluster& cluster, std::string_view algorithm = {});

/// True when parameter servers run on the worker machines, so that push and pull compete for both directions.
[[nodiscard]] constexpr bool server_directions_shared(const Cluster& cluster) { return cluster.servers == 0; }

/// How BytePS splits the summation between n worker machines and S extra server machines (0 <= S <= n) so that all
/// cards finish together (BytePS, OSDI 2020, section 4.1): T = factor * M / B, factor = 2n(n-1) / (n^2 + Sn - 2S). One
/// machine sends nothing. S = 0 equals the ring, S = n equals M/B; S * per_server + n * per_worker = 1.
struct ServerSplit {
  double time_factor = 0;  ///< iteration traffic in units of M/B
  double per_server = 0;   ///< share of the summation that one extra server does
  double per_worker = 0;   ///< share that one worker machine does for the others
};
[[nodiscard]] ServerSplit byteps_split(std::int64_t worker_machines, std::int64_t servers);

}  // namespace stepcast
