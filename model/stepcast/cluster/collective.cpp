// Each operation gets a line from its algorithm or a table that was measured, on free links and on links under compute.
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/carried.hpp>
#include <stepcast/cluster/closed_forms.hpp>
#include <stepcast/cluster/collective.hpp>
#include <stepcast/cluster/fit.hpp>
#include <stepcast/cluster/transport.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace stepcast {

const CollectiveAlgorithm* collective_algorithm(std::string_view name) {
  const auto all = collective_algorithms();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& a) { return a.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string_view name_of(Operation op) {
  static constexpr std::array<std::string_view, operation_count> names{
      "all_reduce", "reduce_scatter", "all_gather",           "broadcast",        "all_to_all", "send", "push",
      "pull",       "server_sum",     "local_reduce_scatter", "local_all_gather", "server_card"};
  return names[static_cast<std::size_t>(op)];
}

std::optional<Operation> operation_of(std::string_view name) {
  for (std::size_t i = 0; i < operation_count; ++i)
    if (name_of(static_cast<Operation>(i)) == name) return static_cast<Operation>(i);
  return std::nullopt;
}

ServerSplit byteps_split(std::int64_t worker_machines, std::int64_t servers) {
  if (worker_machines <= 1) return {0, 0, worker_machines == 1 ? 1.0 : 0.0};
  const double n = static_cast<double>(worker_machines), s = static_cast<double>(servers);
  const double whole = n * n + s * n - 2 * s;
  return {2 * n * (n - 1) / whole, 2 * (n - 1) / whole, (n - s) / whole};
}

CostLines CollectiveAlgorithm::lines(const Cluster& cluster, Operation op) const {
  CostLines all = choices ? choices(cluster, op) : CostLines::none();
  if (all.count > 0) return all;
  using LineOf = CostLine (*)(const Cluster&);
  const LineOf forms[] = {all_reduce, reduce_scatter, all_gather, broadcast, all_to_all};
  const auto i = static_cast<std::size_t>(op);
  if (i < std::size(forms) && forms[i]) all.add(forms[i](cluster));
  return all;
}

// --- Tables ---------------------------------------------------------------------------------------------------------

CostTable::CostTable(std::span<const Bytes> sizes, std::span<const Seconds> times) {
  sizes_.reserve(sizes.size());
  times_.reserve(times.size());
  for (const Bytes size : sizes) sizes_.push_back(size.value());
  for (const Seconds time : times) times_.push_back(time.value());
}

namespace {

/// Continues a table along a line through its outermost points (x0, t0), the end, and (x1, t1), the next one inside. A
/// line, not a power law: latency and bandwidth are what governs beyond the measurements.
double continued(double x, double x0, double t0, double x1, double t1) {
  const double slope = (t1 - t0) / (x1 - x0);
  const bool below = x < x0;
  // A falling end is noise: below it is flat, above the average rate of the last point goes on.
  if (slope <= 0) return below ? t0 : t0 * x / x0;
  const double intercept = t0 - slope * x0;
  // Steeper than proportional: a line would become negative below, and above it exaggerates what may be noise.
  if (below && intercept < 0) return t0 * x / x0;
  return t0 + slope * (x - x0);
}

}  // namespace

Seconds CostTable::operator()(Bytes m) const {
  const std::size_t n = sizes_.size();
  const double x = m.value();
  if (n == 1) return Seconds(x <= sizes_[0] ? times_[0] : times_[0] * x / sizes_[0]);
  if (x < sizes_[0]) return Seconds(continued(x, sizes_[0], times_[0], sizes_[1], times_[1]));
  if (x > sizes_[n - 1]) return Seconds(continued(x, sizes_[n - 1], times_[n - 1], sizes_[n - 2], times_[n - 2]));
  const auto above = std::upper_bound(sizes_.begin() + 1, sizes_.end() - 1, x);
  const auto i = static_cast<std::size_t>(above - sizes_.begin());
  const double share = (x - sizes_[i - 1]) / (sizes_[i] - sizes_[i - 1]);
  return Seconds(times_[i - 1] + share * (times_[i] - times_[i - 1]));
}

Seconds CommunicationCost::measured(std::size_t i, Bytes m) const {
  return overhead_ + table_scale_[i] * tables_[i](m);
}

double CommunicationCost::sprayed_over_hashed() const {
  Transport sprayed = transport_;
  sprayed.spraying = true;
  return path_factor(sprayed) / path_factor(transport_);
}

Seconds CommunicationCost::repair_time(Operation op, Bytes m, double tolerated) const {
  return round_trip_ * repair_rounds(packets(op, m), transport_.loss, tolerated);
}

// --- Costs of one cluster -------------------------------------------------------------------------------------------

namespace {

/// Push (or pull) of m bytes by each of n machines, alone.
CostLine server_transfer(const Cluster& c) {
  if (c.nodes == 1) return {};
  const ServerTransferTime time = server_transfer_time(c);
  return {server_link(c).latency, std::max(time.worker, time.server)};
}

/// Each of S servers (n, if co-located) adds up n m / S bytes.
CostLine server_sum(const Cluster& c) {
  if (c.nodes == 1 || c.server_sum_rate.value() == 0) return {};
  const double servers = static_cast<double>(c.servers == 0 ? c.nodes : c.servers);
  return {Seconds(0), static_cast<double>(c.nodes) / servers / c.server_sum_rate.value()};
}

/// n machines' payloads of m bytes through the card of one separate server. A card takes what the network carries, and
/// at least what one worker's connection delivers (`server_link`, which the worker's end may limit).
CostLine server_card(const Cluster& c) {
  if (c.nodes == 1 || c.servers == 0) return {};
  const BytesPerSecond card =
      c.server_rate > BytesPerSecond(0) ? server_rate(c) : std::max(cards_to(c, c.nodes), server_link(c).bandwidth);
  return {Seconds(0), static_cast<double>(c.nodes) / card.value()};
}

/// Point to point: between machines if there are several, over one card.
CostLine send(const Cluster& c) {
  if (c.workers() == 1) return {};
  return steps_and_volume(1, 1, c.nodes > 1 ? network_link(c) : inside_link(c, 2));
}

/// The stage inside a machine before a push or after a pull. A measured rate of the reduction to one device (or the
/// broadcast from it) comes before the ring; the copies between device and host share its links.
CostLine local_stage(const Cluster& c) {
  CostLine line = ring_half(c.devices_per_node, inside_link(c));
  if (c.server_local_rate.value() > 0)
    line.seconds_per_byte = ring_half(c.devices_per_node, {c.inside.latency, c.server_local_rate}).seconds_per_byte;
  if (c.nodes > 1 && c.server_staging_rate.value() > 0) line.seconds_per_byte += 1 / c.server_staging_rate.value();
  return line;
}

/// The links as slow as they are while the devices compute.
Cluster under_compute(Cluster c) {
  c.inside.bandwidth /= c.contention.inside_under_compute;
  c.server_local_rate /= c.contention.inside_under_compute;
  c.server_staging_rate /= c.contention.inside_under_compute;
  c.network.bandwidth /= c.contention.network_under_compute;
  c.server_link.bandwidth /= c.contention.network_under_compute;
  c.server_rate /= c.contention.network_under_compute;
  for (Link* link : {&c.inside, &c.network, &c.server_link}) link->latency *= c.contention.latency_under_compute;
  for (Level& level : c.levels) {
    level.bandwidth /= c.contention.network_under_compute;
    level.latency *= c.contention.latency_under_compute;
  }
  if (c.aggregation) {
    c.aggregation->line_rate /= c.contention.network_under_compute;
    c.aggregation->round_trip *= c.contention.latency_under_compute;
  }
  return c;
}

/// Bytes that an operation on m bytes puts on the links of all machines, over m. A server's card is loaded by the same
/// bytes as the links of its workers, which count them.
std::array<double, operation_count> network_volumes(const Cluster& c) {
  if (c.nodes == 1) return {};
  const double n = static_cast<double>(c.nodes), others = n - 1, devices = static_cast<double>(c.devices_per_node);
  const double served = c.servers == 0 ? others : n;
  //      all_reduce, reduce_scatter, all_gather, broadcast, all_to_all, send, push, pull, sum, and inside
  return {2 * others, others, others, others, devices * others, n, served, served, 0, 0, 0, 0};
}

using LineOf = CostLine (*)(const Cluster&);

/// The form of every operation in the order of `Operation`; null where the algorithm does not define it.
std::array<LineOf, operation_count> forms_of(const CollectiveAlgorithm& a) {
  return {a.all_reduce,    a.reduce_scatter, a.all_gather, a.broadcast, a.all_to_all, send,
          server_transfer, server_transfer,  server_sum,   local_stage, local_stage,  server_card};
}

/// An operation that moves nothing here (push with one machine) is not launched either.
CostLine launched(CostLine line, Seconds overhead) { return line == CostLine{} ? line : line + CostLine{overhead, 0}; }

/// How many times as long as its form an operation takes in the library.
double library_factor(const Cluster& c, Operation op) {
  const auto said = std::find_if(c.library.begin(), c.library.end(),
                                 [&](const LibraryOperation& l) { return l.operation == name_of(op); });
  return said == c.library.end() ? 1 : said->times_as_long;
}

CostLine in_library(CostLine line, const Cluster& c, Operation op) {
  const double factor = library_factor(c, op);
  return {line.start_up * factor, line.seconds_per_byte * factor};
}

/// Everything that may run for an operation, as the library carries it out, launched: the algorithm's choices, else its
/// one `line`.
CostLines lines_of(const CollectiveAlgorithm& a, CostLine line, const Cluster& c, Operation op, Seconds overhead) {
  CostLines lines = a.choices ? a.choices(c, op) : CostLines::none();
  if (lines.count == 0) lines.add(line);
  for (std::size_t i = 0; i < lines.count; ++i) lines.line[i] = launched(in_library(lines.line[i], c, op), overhead);
  return lines;
}

/// Some lines of a list, by number.
struct SomeLines {
  std::array<std::size_t, CostLines::most> number{};
  std::size_t count = 0;

  void add(std::size_t line) { number[count++] = line; }
  [[nodiscard]] CostLines of(const CostLines& all) const {
    CostLines some = CostLines::none();
    for (std::size_t i = 0; i < count; ++i) some.add(all.line[number[i]]);
    return some;
  }
};

/// The lines that are the fastest at some size, from small sizes to large ones.
SomeLines lower_envelope(const CostLines& lines) {
  const auto& line = lines.line;
  SomeLines kept;
  std::size_t now = 0;
  for (std::size_t i = 1; i < lines.count; ++i)
    if (std::pair(line[i].start_up, line[i].seconds_per_byte) <
        std::pair(line[now].start_up, line[now].seconds_per_byte))
      now = i;
  for (std::size_t next = now;; now = next) {
    kept.add(now);
    double first = HUGE_VAL;  // the size from which a line with more bandwidth takes over
    for (std::size_t i = 0; i < lines.count; ++i) {
      const double gain = line[now].seconds_per_byte - line[i].seconds_per_byte;
      if (!(gain > 0)) continue;
      const double from = (line[i].start_up - line[now].start_up).value() / gain;
      if (from < first || (from == first && line[i].seconds_per_byte < line[next].seconds_per_byte))
        first = from, next = i;
    }
    if (next == now) return kept;
  }
}

const MeasuredCollective* table_for(const Cluster& c, Operation op) {
  const auto fits = [&](const MeasuredCollective& t) {
    return t.workers == c.workers() && (t.nodes == 0 || t.nodes == c.nodes) && t.operation == name_of(op);
  };
  const auto found = std::find_if(c.tables.begin(), c.tables.end(), fits);
  return found == c.tables.end() ? nullptr : &*found;
}

/// A measured table and what to multiply it with; null where nothing fitting was measured.
struct ScaledTable {
  const MeasuredCollective* table;
  double scale;
};

ScaledTable scaled_table_for(const Cluster& c, Operation op) {
  const MeasuredCollective* table = table_for(c, op);
  // A ring all-reduce is a reduce-scatter and an all-gather of the same duration.
  const bool half = op == Operation::reduce_scatter || op == Operation::all_gather;
  if (!table && half) return {table_for(c, Operation::all_reduce), 0.5 * library_factor(c, op)};
  return {table, 1};
}

/// The least-squares line of a table, `scale` times as long.
CostLine line_of(const MeasuredCollective& t, double scale) {
  if (t.sizes.size() < 2) return {t.times.front() * scale, 0};
  const CostLine line = line_fit(t.sizes, t.times).pieces.front().line;
  return {line.start_up * scale, line.seconds_per_byte * scale};
}

/// True where messages have the links as they were measured: no stragglers, losses, limits of flows or other jobs.
bool has_free_links(const Cluster& c) {
  return c.stragglers.least_link_share() == 1 && card_share(c.transport) == 1 &&
         c.transport.flow_rate == BytesPerSecond(0) &&
         std::ranges::all_of(c.levels, [](const Level& level) { return level.background == 0; });
}

/// The table as it would be with the slowest worker's links, with losses and beside other jobs: measured on healthy
/// links, each time grows as the closed form `line` does.
MeasuredCollective on_slowest_link(MeasuredCollective table, LineOf line, const Cluster& c) {
  if (has_free_links(c) || !line) return table;
  Cluster healthy = c;
  healthy.stragglers.slow.clear();
  healthy.transport = {};
  for (Level& level : healthy.levels) level.background = 0;
  const CostLine slow = line(c), free = line(healthy);
  for (std::size_t i = 0; i < table.sizes.size(); ++i)
    if (free(table.sizes[i]) > Seconds(0)) table.times[i] *= slow(table.sizes[i]) / free(table.sizes[i]);
  return table;
}

std::string worker_counts(const Cluster& c) {
  std::string text;
  for (const MeasuredCollective& t : c.tables) {
    if (t.operation != name_of(Operation::all_reduce)) continue;
    add_to_list(text, std::to_string(t.workers));
  }
  return text.empty() ? "none" : text;
}

std::string algorithm_names() {
  std::string text = "table";
  for (const CollectiveAlgorithm& a : collective_algorithms()) text += ", " + std::string(a.name);
  return text;
}

std::string names_on_torus() {
  std::string text;
  for (const CollectiveAlgorithm& a : collective_algorithms())
    if (a.on_torus && a.all_reduce) add_to_list(text, std::string(a.name));
  return text;
}

}  // namespace

void CommunicationCost::add_forms(std::size_t i, const CostLines& free) {
  first_form_[i] = static_cast<std::uint16_t>(forms_.size());
  more_forms_[i] = static_cast<std::uint16_t>(free.count - 1);
  for (const CostLine line : free.all()) forms_.push_back(line);
}

void CommunicationCost::measure(std::size_t i, const MeasuredCollective& table, double scale) {
  defined_[i] = true;
  tables_[i] = CostTable(table.sizes, table.times);
  table_scale_[i] = scale;
  lines_[i] = line_of(table, scale) + CostLine{overhead_, 0};
}

Answer<CommunicationCost> communication_cost(const Cluster& cluster, std::string_view algorithm) {
  const bool by_default = algorithm.empty();
  if (by_default) algorithm = cluster.all_reduce;
  const bool from_table = algorithm == "table" || (by_default && table_for(cluster, Operation::all_reduce));
  // What was not measured (send, all-to-all, ...) comes from the closed forms on the cluster's links.
  const CollectiveAlgorithm* forms = collective_algorithm(algorithm == "table" ? "ring" : algorithm);
  if (!forms) {
    return Inapplicable{"there is no collective algorithm '" + std::string(algorithm) +
                        "'; known: " + algorithm_names()};
  }
  if (std::string why = forms->unsuitable ? forms->unsuitable(cluster) : std::string(); !why.empty()) {
    if (!from_table) return Inapplicable{std::string(forms->name) + ": " + why};
    forms = collective_algorithm("ring");
  }
  if (on_torus(cluster) && !forms->on_torus)
    return Inapplicable{std::string(forms->name) + ": its messages on a torus are not known; " + names_on_torus() +
                        " are"};
  if (!by_default && algorithm != cluster.all_reduce && !cluster.library.empty()) {
    Cluster another = cluster;
    another.library.clear();  // it is said of the cluster's own algorithm
    return communication_cost(another, algorithm);
  }
  CommunicationCost cost;
  cost.forms_.reserve(2 * operation_count);
  cost.algorithm_ = from_table ? std::string_view("table") : forms->name;
  const bool alone = cluster.workers() == 1;
  if (!alone) cost.overhead_ = cluster.message_overhead;
  if (cluster.nodes > 1) cost.transport_ = cluster.transport;
  cost.round_trip_ = 2 * cluster.network.latency;
  cost.packets_per_byte_ = network_volumes(cluster);
  for (double& packets : cost.packets_per_byte_) packets /= cluster.transport.packet.value();

  const auto line_functions = forms_of(*forms);
  cost.contended_ =
      !alone && (cluster.contention.inside_under_compute != 1 || cluster.contention.latency_under_compute != 1 ||
                 cluster.contention.network_under_compute != 1);
  std::optional<Cluster> slow;
  if (cost.contended_) slow = under_compute(cluster), cost.slow_ = cost.forms_;
  for (std::size_t i = 0; i < operation_count; ++i) {
    cost.defined_[i] = line_functions[i] != nullptr;
    if (!line_functions[i] || alone) continue;
    const auto op = static_cast<Operation>(i);
    const CostLine line = line_functions[i](cluster);
    const CostLines all = lines_of(*forms, line, cluster, op, cost.overhead_);
    // A pair of devices has no algorithm of its own, unless the library does.
    const bool of_library = op == Operation::send && forms->choices;
    cost.lines_[i] =
        of_library ? all.line[all.least_at(mebibytes(4))] : launched(in_library(line, cluster, op), cost.overhead_);
    if (all.count == 1 && !slow) {
      cost.add_forms(i, all);
      continue;
    }
    const SomeLines kept = lower_envelope(all);
    cost.add_forms(i, kept.of(all));
    if (!slow) continue;
    const CostLines under = kept.of(lines_of(*forms, line_functions[i](*slow), *slow, op, cost.overhead_));
    cost.slow_.insert(cost.slow_.end(), under.all().begin(), under.all().end());
  }
  if (alone) return cost;
  if (by_default && forms->carries) {
    for (std::size_t i = 0; i < operation_count; ++i) {
      const std::optional<MeasuredCollective> table = carried_table(cluster, static_cast<Operation>(i), *forms);
      if (table) cost.measure(i, *table, 1);
    }
    return cost;
  }
  if (!from_table) return cost;

  if (!table_for(cluster, Operation::all_reduce)) {
    return Inapplicable{"no measured all_reduce for " + std::to_string(cluster.workers()) +
                        " workers (measured: " + worker_counts(cluster) + "); name an algorithm, e.g. @ring"};
  }
  for (std::size_t i = 0; i < operation_count; ++i) {
    const ScaledTable measured = scaled_table_for(cluster, static_cast<Operation>(i));
    if (!measured.table) continue;
    cost.measure(i, on_slowest_link(*measured.table, line_functions[i], cluster), measured.scale);
  }
  return cost;
}

}  // namespace stepcast
