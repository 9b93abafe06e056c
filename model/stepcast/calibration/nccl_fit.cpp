// A compass search over the logarithms of all factors.
#include <stepcast/calibration/benchmark_logs.hpp>
#include <stepcast/calibration/nccl_fit.hpp>
#include <stepcast/cluster/carried.hpp>
#include <stepcast/cluster/size_bands.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace stepcast {
namespace {

constexpr double huber = 0.25;          // of the logarithm, from where an error counts by its size alone
constexpr double prior_weight = 0.01;   // of a number one deviation away from its prior
constexpr double of_one_machine = 0.2;  // weight of a table of one machine beside those of several
constexpr double of_best_rate = 0.9;    // from which on a message tells the bandwidth of a link
constexpr double better_by = 0.1;       // in which sums in the switch have to explain the tables

enum Index : std::size_t {
  launch,
  inside_latency,
  between_latency,
  inside_rate,
  between_rate,
  share_ll,
  share_ll_between,
  share_ll128,
  share_tree,
  share_nvls,
  share_all_to_all,
  share_send,
  share_pair,
  simple_hop,
  peer,
  numbers
};
using Numbers = std::array<double, numbers>;

/// What is expected of each number: NCCL's own constants scaled by what is typical of machines with public logs, and
/// the standard deviation of the logarithm among them. Rates are set from the tables.
struct Prior {
  Numbers typical{1.0, 1.6 * 1.9e-6, 2.0 * 4e-6, 0, 0, 0.45, 0.5, 0.92, 0.75, 1.25, 0.9, 0.6, 1.0, 0.6, 1.5e-6};
  Numbers deviation{0.4, 0.35, 0.5, 0.5, 0.7, 0.2, 0.4, 0.1, 0.2, 0.15, 0.3, 0.4, 0.1, 0.5, 0.8};
};

/// A table with its machines and what each of its points counts.
struct Target {
  Operation operation{};
  Cluster machines;
  std::vector<Bytes> sizes;
  std::vector<double> logs, weights;
  bool of_link = false;  ///< measured by a benchmark of the link itself, which tells its bandwidth alone
};

void set(Cluster& c, const Numbers& x, bool sums_in_switch) {
  c.inside = {Seconds(x[inside_latency]), BytesPerSecond(x[inside_rate])};
  c.network = {Seconds(x[between_latency]), BytesPerSecond(x[between_rate])};
  NcclTuning& t = c.nccl;
  t.launch = x[launch], t.simple_hop = x[simple_hop];
  t.ll = x[share_ll], t.ll_between = x[share_ll_between], t.ll128 = x[share_ll128];
  t.tree = x[share_tree], t.nvls = sums_in_switch ? x[share_nvls] : 0;
  t.all_to_all = x[share_all_to_all], t.send = x[share_send], t.pair = x[share_pair];
  t.peer = Seconds(x[peer]);
}

/// Bytes through the busiest link of an operation on one byte: bus bandwidth over payload, but for an all-to-all
/// between machines, which share cards.
double share_of_link(Operation op, const Cluster& c) {
  if (op != Operation::all_to_all || c.nodes == 1) return bus_factor_of(op, c.workers());
  const double workers = static_cast<double>(c.workers()), per_node = static_cast<double>(c.devices_per_node);
  return (workers - per_node) / workers * per_node;
}

/// Of one card where several machines exchange, else of a device.
double best_bus_rate(const Target& t) {
  double best = 0;
  for (std::size_t i = 0; i < t.sizes.size(); ++i)
    best = std::max(best, t.sizes[i].value() * share_of_link(t.operation, t.machines) / std::exp(t.logs[i]));
  const bool one_card = t.machines.nodes == 1 || t.operation == Operation::send;
  return one_card ? best : best / static_cast<double>(t.machines.nics_per_node);
}

/// Every band counts alike in a table, and its points alike in a band.
std::vector<double> balanced_weights(const std::vector<Bytes>& sizes) {
  std::array<double, size_band_count> in_band{};
  for (const Bytes size : sizes) ++in_band[size_band_of(size)];
  const auto bands = static_cast<double>(std::count_if(in_band.begin(), in_band.end(), [](double n) { return n > 0; }));
  std::vector<double> weights;
  for (const Bytes size : sizes) weights.push_back(1 / (bands * in_band[size_band_of(size)]));
  return weights;
}

double best_rate(const MeasuredCollective& table) {
  double best = 0;
  for (std::size_t i = 0; i < table.sizes.size(); ++i) best = std::max(best, (table.sizes[i] / table.times[i]).value());
  return best;
}

std::vector<Target> targets_of(const Cluster& base, std::span<const MeasuredCollective> tables) {
  std::vector<Target> targets;
  bool several = false;
  for (const MeasuredCollective& table : tables) {
    const std::int64_t nodes = nodes_of(table, base);
    several = several || nodes > 1;
    Target t{*operation_of(table.operation), bare_machines(base, table.workers, nodes), {}, {}, {},
             measures_the_link(table)};
    const std::vector<bool> fitted = nccl_is_fitted_to(table);
    for (std::size_t i = 0; i < table.sizes.size(); ++i) {
      if (!fitted[i]) continue;
      t.sizes.push_back(table.sizes[i]);
      t.logs.push_back(std::log(table.times[i].value()));
    }
    t.weights = balanced_weights(t.sizes);
    targets.push_back(std::move(t));
  }
  for (Target& t : targets)
    if (several && t.machines.nodes == 1)
      for (double& weight : t.weights) weight *= of_one_machine;
  return targets;
}

Prior prior_of(const Cluster& base, const std::vector<Target>& targets) {
  double inside = 0, between = 0;
  for (const Target& t : targets) {
    double& best = t.machines.nodes > 1 ? between : inside;
    best = std::max(best, best_bus_rate(t));
  }
  Prior prior;
  prior.typical[share_pair] = pair_share({}, BytesPerSecond(inside));
  const auto is_pair = [](const Target& t) { return t.machines.nodes == 1 && t.machines.workers() == 2; };
  // More devices would reach more than what two reach in their sums, as these mostly are.
  if (std::ranges::all_of(targets, [&](const Target& t) { return t.machines.nodes > 1 || is_pair(t); }))
    inside /= std::sqrt(prior.typical[share_pair]);
  prior.typical[between_rate] = between > 0 ? between : base.network.bandwidth.value();
  // Of links inside that nobody measured it is known that they did not hold up what was measured between machines.
  const double cards = static_cast<double>(base.nics_per_node);
  prior.typical[inside_rate] = inside > 0 ? inside : std::max(base.inside.bandwidth.value(), 2 * between * cards);
  return prior;
}

/// A fit under way: where it is, and how good that is.
class Search {
 public:
  Search(const CollectiveAlgorithm& algorithm, std::vector<Target>& targets, const Prior& prior, bool sums_in_switch)
      : algorithm_(algorithm), targets_(targets), prior_(prior), sums_in_switch_(sums_in_switch) {
    for (std::size_t i = 0; i < numbers; ++i) at_[i] = std::log(prior.typical[i]);
    loss_ = loss(at_);
    for (double step = 0.4; step > 0.004;)
      if (!moved(step)) step /= 2;
  }
  [[nodiscard]] double loss() const { return loss_; }
  [[nodiscard]] Numbers found() const { return values(at_); }

 private:
  static Numbers values(const Numbers& logs) {
    Numbers x{};
    for (std::size_t i = 0; i < numbers; ++i) x[i] = std::exp(logs[i]);
    return x;
  }
  bool moved(double step) {
    bool better = false;
    for (std::size_t i = 0; i < numbers; ++i) {
      for (const double by : {step, -step}) {
        Numbers there = at_;
        there[i] += by;
        const double found = loss(there);
        if (!(found < loss_ - 1e-9)) continue;
        at_ = there, loss_ = found, better = true;
        break;
      }
    }
    return better;
  }
  static CostLines link_alone(const Numbers& x) {
    CostLines lines = CostLines::none();
    lines.add({Seconds(0), 1 / x[between_rate]});
    return lines;
  }
  double loss(const Numbers& logs) {
    const Numbers x = values(logs);
    double sum = 0;
    for (Target& t : targets_) {
      set(t.machines, x, sums_in_switch_);
      const CostLines lines = t.of_link ? link_alone(x) : algorithm_.lines(t.machines, t.operation);
      for (std::size_t i = 0; i < t.sizes.size(); ++i) {
        const double off = std::fabs(std::log(lines(t.sizes[i]).value()) - t.logs[i]);
        sum += t.weights[i] * (off < huber ? 0.5 * off * off : huber * (off - 0.5 * huber));
      }
    }
    for (std::size_t i = 0; i < numbers; ++i) {
      const double off = (logs[i] - std::log(prior_.typical[i])) / prior_.deviation[i];
      sum += prior_weight * off * off;
    }
    return sum;
  }

  const CollectiveAlgorithm& algorithm_;
  std::vector<Target>& targets_;
  const Prior& prior_;
  bool sums_in_switch_;
  Numbers at_{};
  double loss_ = 0;
};

}  // namespace

std::vector<bool> nccl_is_fitted_to(const MeasuredCollective& table) {
  const BytesPerSecond least(measures_the_link(table) ? of_best_rate * best_rate(table) : 0);
  std::vector<bool> fitted(table.sizes.size());
  for (std::size_t i = first_beyond_launches(table); i < fitted.size(); ++i)
    fitted[i] = table.sizes[i] / table.times[i] >= least;
  return fitted;
}

Cluster fitted_nccl(Cluster base, std::span<const MeasuredCollective> tables) {
  const CollectiveAlgorithm& algorithm = *collective_algorithm("nccl");
  std::vector<Target> targets = targets_of(base, tables);
  const Prior prior = prior_of(base, targets);
  const Search without(algorithm, targets, prior, false), with(algorithm, targets, prior, true);
  const bool sums_in_switch = with.loss() < (1 - better_by) * without.loss();
  set(base, sums_in_switch ? with.found() : without.found(), sums_in_switch);
  return base;
}

}  // namespace stepcast
