// The residual of measured tables over an algorithm's forms, and the forms times it; factors by band and by what was
// measured.
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/cluster/carried.hpp>
#include <stepcast/cluster/size_bands.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace stepcast {
namespace {

constexpr double far = 4, too_far = 16;  // factors on the count, between which a residual fades
constexpr double smallest = 8, largest = 0x1p36, step = 4;

/// Operations whose buffer is divided among the workers.
bool is_divided(Operation op) {
  return op == Operation::all_gather || op == Operation::reduce_scatter || op == Operation::all_to_all;
}

/// The logarithm of a table's time over the forms, by the logarithm of the size at which residuals are alike.
struct Residual {
  double workers = 0;
  std::vector<double> sizes, logs;

  [[nodiscard]] double at(double size) const {
    const auto above = std::lower_bound(sizes.begin(), sizes.end(), size);
    if (above == sizes.begin()) return logs.front();
    if (above == sizes.end()) return logs.back();
    const auto i = static_cast<std::size_t>(above - sizes.begin());
    const double share = (size - sizes[i - 1]) / (sizes[i] - sizes[i - 1]);
    return logs[i - 1] + share * (logs[i] - logs[i - 1]);
  }
};

/// Of another count than the table's, times that the host's launches bound are left out.
Residual residual_of(const MeasuredCollective& table, const Cluster& cluster, Operation op,
                     const CollectiveAlgorithm& algorithm) {
  const CostLines forms = algorithm.lines(bare_machines(cluster, table.workers, nodes_of(table, cluster)), op);
  Residual residual;
  residual.workers = static_cast<double>(table.workers);
  const double divisor = is_divided(op) ? residual.workers : 1;
  const bool same = table.workers == cluster.workers();
  for (std::size_t i = same ? 0 : first_beyond_launches(table); i < table.sizes.size(); ++i) {
    residual.sizes.push_back(std::log(table.sizes[i].value() / divisor));
    residual.logs.push_back(std::log(table.times[i] / forms(table.sizes[i])));
  }
  return residual;
}

/// What a table says of a size between its own; below them the first, above them the last by the bytes.
Seconds time_of(const MeasuredCollective& table, double size) {
  const auto above = std::lower_bound(table.sizes.begin(), table.sizes.end(), Bytes(size));
  if (above == table.sizes.begin()) return table.times.front();
  if (above == table.sizes.end()) return table.times.back() * (size / table.sizes.back().value());
  const auto i = static_cast<std::size_t>(above - table.sizes.begin());
  const double share = std::log(size / table.sizes[i - 1].value()) / std::log(table.sizes[i] / table.sizes[i - 1]);
  return table.times[i - 1] * std::pow(table.times[i] / table.times[i - 1], share);
}

/// What is left of a residual that is carried from `from` workers to `to`.
double share_left(double from, double to) {
  const double factor = std::max(from / to, to / from);
  return std::clamp(std::log(too_far / factor) / std::log(too_far / far), 0.0, 1.0);
}

/// The tables of an operation on as many machines as matter here: one, or several. Of counts that were measured with
/// other numbers of devices a machine, too, those with as many as here.
std::vector<const MeasuredCollective*> tables_like(const Cluster& c, std::string_view operation) {
  std::vector<const MeasuredCollective*> like, same_machines;
  for (const MeasuredCollective& t : c.tables) {
    const std::int64_t nodes = nodes_of(t, c);
    if (t.operation != operation || t.workers < 2 || (nodes > 1) != (c.nodes > 1)) continue;
    if (nodes == 1 && t.workers != c.workers() && std::min(t.workers, c.workers()) == 2) continue;
    like.push_back(&t);
    if (nodes > 1 && t.workers / nodes == c.devices_per_node) same_machines.push_back(&t);
  }
  return same_machines.empty() ? like : same_machines;
}

// ---- spread ----

using Factors = std::array<double, size_band_count>;
constexpr Factors by_name{2.0, 2.6, 2.8, 1.4}, one_count{1.6, 1.65, 1.6, 1.2}, between_counts{1.25, 1.35, 1.35, 1.15},
    measured{1.06, 1.09, 1.1, 1.03}, one_pair{1.35, 1.4, 1.5, 1.65};  // two devices of one machine, of more
constexpr Bytes bucket = mebibytes(25);                               // of gradients
constexpr double eighty_percent = 1.2815515655446004;  // of a normal distribution: P90 over its standard deviation

bool carries(const Cluster& c) {
  const CollectiveAlgorithm* algorithm = collective_algorithm(c.all_reduce);
  return algorithm && algorithm->carries;
}

enum class Known : std::uint8_t { nothing, pair, one_count, counts_around, this_count };

const Factors& factors_of(Known known) {
  switch (known) {
    case Known::nothing:
      return by_name;
    case Known::pair:
      return one_pair;
    case Known::one_count:
      return one_count;
    case Known::counts_around:
      return between_counts;
    case Known::this_count:
      break;
  }
  return measured;
}

/// Two devices of a machine were measured, from which nothing is carried to more of them.
bool knows_a_pair(const Cluster& c, Operation op) {
  return c.nodes == 1 && std::any_of(c.tables.begin(), c.tables.end(), [&](const MeasuredCollective& t) {
           return t.workers == 2 && nodes_of(t, c) == 1 && t.operation == name_of(op);
         });
}

Known known_of(const Cluster& c, Operation op, const MeasuredAround& around) {
  if (!around.below) return knows_a_pair(c, op) ? Known::pair : Known::nothing;
  if (around.below->workers == c.workers() && around.above->workers == c.workers()) return Known::this_count;
  return around.below == around.above ? Known::one_count : Known::counts_around;
}

}  // namespace

std::size_t first_beyond_launches(const MeasuredCollective& table) {
  if (table.devices_per_process <= 1 || table.sizes.empty()) return 0;
  constexpr double grown = 1.3;  // over the least time, which launches one after the other take
  const Seconds bound = *std::min_element(table.times.begin(), table.times.end()) * grown;
  std::size_t first = table.sizes.size() - 1;
  while (first > 0 && table.times[first - 1] > bound) --first;
  return first;
}

std::int64_t nodes_of(const MeasuredCollective& table, const Cluster& cluster) {
  if (table.nodes > 0) return table.nodes;
  return std::max<std::int64_t>(1, table.workers / cluster.devices_per_node);
}

Cluster bare_machines(const Cluster& cluster, std::int64_t workers, std::int64_t nodes) {
  Cluster bare;
  bare.nodes = nodes;
  bare.devices_per_node = std::max<std::int64_t>(1, workers / nodes);
  bare.inside = cluster.inside;
  bare.inside_mesh = cluster.inside_mesh;
  bare.network = cluster.network;
  bare.nccl = cluster.nccl;
  bare.nics_per_node = cluster.nics_per_node;
  if (nodes <= most_machines_of(cluster.levels)) bare.levels = cluster.levels;
  for (Level& level : bare.levels) level.background = 0;
  if (nodes > 1 && bare.devices_per_node < cluster.devices_per_node)
    bare.nics_per_node =
        std::max<std::int64_t>(1, cluster.nics_per_node * bare.devices_per_node / cluster.devices_per_node);
  return bare;
}

MeasuredAround measured_around(const Cluster& c, Operation op) {
  std::vector<const MeasuredCollective*> tables = tables_like(c, name_of(op));
  const bool half = op == Operation::all_gather || op == Operation::reduce_scatter;
  if (tables.empty() && half)
    tables = tables_like(c, name_of(op == Operation::all_gather ? Operation::reduce_scatter : Operation::all_gather));
  MeasuredAround around;
  for (const MeasuredCollective* t : tables) {
    if (t->workers <= c.workers() && (!around.below || t->workers >= around.below->workers)) around.below = t;
    if (t->workers >= c.workers() && (!around.above || t->workers <= around.above->workers)) around.above = t;
  }
  if (!around.below) around.below = around.above;
  if (!around.above) around.above = around.below;
  if (!around.below) return around;
  const std::int64_t nearest = std::clamp(c.workers(), around.below->workers, around.above->workers);
  around.left = share_left(static_cast<double>(nearest), static_cast<double>(c.workers()));
  return around;
}

std::optional<MeasuredCollective> carried_table(const Cluster& c, Operation op, const CollectiveAlgorithm& algorithm) {
  const CostLines forms = algorithm.lines(c, op);
  const auto [below, above, left] = measured_around(c, op);
  if (forms.count == 0 || !below) return std::nullopt;
  const double workers = static_cast<double>(c.workers());
  const Residual low = residual_of(*below, c, op, algorithm), high = residual_of(*above, c, op, algorithm);
  const double share =
      low.workers == high.workers ? 0 : std::log(workers / low.workers) / std::log(high.workers / low.workers);
  const double divisor = is_divided(op) ? workers : 1;
  MeasuredCollective carried;
  carried.operation = name_of(op);
  carried.workers = c.workers();
  // More machines than were measured, of as many devices, are not faster than these, whatever is left of the residual.
  const bool beyond = below == above && c.workers() > below->workers && c.nodes > 1 &&
                      below->workers == nodes_of(*below, c) * c.devices_per_node;
  const auto add = [&](double size) {
    const double at = std::log(size / divisor);
    const double residual = left * ((1 - share) * low.at(at) + share * high.at(at));
    const Seconds time = forms(Bytes(size)) * std::exp(residual);
    carried.sizes.emplace_back(size);
    carried.times.push_back(beyond ? std::max(time, time_of(*below, size)) : time);
  };
  const MeasuredCollective& nearest = workers / low.workers <= high.workers / workers ? *below : *above;
  const double scale = is_divided(op) ? workers / static_cast<double>(nearest.workers) : 1;
  const double first = nearest.sizes.front().value() * scale;
  double size = first;
  while (size / step >= smallest) size /= step;
  for (; size < first * 0.999; size *= step) add(size);
  for (const Bytes measured : nearest.sizes) add(measured.value() * scale);
  for (size = carried.sizes.back().value() * step; size <= largest; size *= step) add(size);
  return carried;
}

std::string_view what_was_measured(const Cluster& c, Operation op) {
  if (!carries(c)) return "one error";
  constexpr std::string_view names[] = {"nothing", "a pair", "one count", "counts around", "this count"};
  return names[static_cast<std::size_t>(known_of(c, op, measured_around(c, op)))];
}

bool rests_on_measurements(const Cluster& c, Operation op) {
  return carries(c) && known_of(c, op, measured_around(c, op)) != Known::nothing;
}

double spread_of(const Cluster& c, Operation op, Bytes size) {
  if (!carries(c)) return std::exp(eighty_percent * c.relative_error);
  const std::size_t band = size_band_of(size);
  const MeasuredAround around = measured_around(c, op);
  const Known what = known_of(c, op, around);
  const Factors& known = factors_of(what);
  if (what != Known::one_count && what != Known::counts_around) return known[band];
  return std::exp(around.left * std::log(known[band]) + (1 - around.left) * std::log(by_name[band]));
}

double relative_error_of(const Cluster& c) {
  if (!carries(c) || c.workers() == 1) return c.relative_error;
  return std::log(spread_of(c, Operation::all_reduce, bucket)) / eighty_percent;
}

LinksMargin margin_of_links(const Cluster& c, double communication) {
  const double factor = std::exp(eighty_percent * relative_error_of(c));
  return {communication * (1 - 1 / factor), communication * (factor - 1)};
}

std::string missing_log_text(const Cluster& c) {
  if (!carries(c) || c.workers() == 1 || measured_around(c, Operation::all_reduce).below) return {};
  // Two machines tell of more; a few devices of one machine do not.
  Cluster logged = c;
  MeasuredCollective& log = logged.tables.emplace_back();
  log.operation = name_of(Operation::all_reduce);
  log.nodes = std::min<std::int64_t>(2, c.nodes);
  log.workers = log.nodes * c.devices_per_node;
  const auto factor = [](const Cluster& of) { return fixed(spread_of(of, Operation::all_reduce, bucket), 1); };
  return (c.tables.empty()
              ? "nothing was measured on '" + c.name + "'"
              : "nothing that was measured on '" + c.name + "' tells of " + counted(c.workers(), "device")) +
         " (nominal links): an all-reduce of " + text_of(bucket) + " may take " + factor(c) +
         " times as long as predicted, or be as many times faster; 'all_reduce_perf -b 8 -e 1G -f 2' on " +
         counted(log.nodes, "machine") + ", then 'stepcast calibrate LOG -o cluster.json', makes that " +
         factor(logged) + " times";
}

}  // namespace stepcast
