// Candidates of the additive search, each predicted; what nothing beats is the frontier.
#include <stepcast/search/families.hpp>
#include <stepcast/search/unit_frontier.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace stepcast {
namespace {

/// Points that a frontier keeps on the way. A hundred units of some thirty configurations take a fifth of a second.
constexpr std::size_t most_points = 128;
/// So many combinations are all predicted.
constexpr double most_combinations = 4000;
/// Numbers of micro-batches that are tried; of more every so manyth, first and last among them.
constexpr std::size_t most_counts = 12;

/// Numbers of micro-batches in which every device has whole samples at some tensor degree: all that divide the samples
/// of the largest part, few first.
std::vector<std::int64_t> micro_batch_counts(const Cluster& cluster, double batch) {
  std::vector<std::int64_t> counts;
  const std::int64_t n = cluster.workers(), most = std::min(n, cluster.devices_per_node);
  std::int64_t largest = 0;
  for (std::int64_t t = 1; t <= most; ++t)
    if (n % t == 0 && std::fmod(batch, static_cast<double>(n / t)) == 0)
      largest = std::max(largest, static_cast<std::int64_t>(std::llround(batch / static_cast<double>(n / t))));
  for (std::int64_t m = 1; m <= largest / m; ++m)
    if (largest % m == 0) {
      counts.push_back(m);
      if (m != largest / m) counts.push_back(largest / m);
    }
  std::sort(counts.begin(), counts.end());
  return counts;
}

/// Every way to choose is looked at once.
class Candidates {
 public:
  Candidates(const Workload& workload, const Cluster& cluster, const LayoutOptions& options, const PlanSpec& gradients)
      : cluster_(cluster), gradients_(gradients), evaluator_(workload, cluster, options) {
    batch_ = global_batch_of(workload, cluster, options);
  }

  /// The plan of what `choices` say of the units, in micro-batches of so many.
  void add(const std::vector<UnitChoice>& choices, std::int64_t micro_batches) {
    std::int64_t least = choices.front().tensor;
    for (const UnitChoice& c : choices) least = std::min(least, c.tensor);
    const double samples = batch_ * static_cast<double>(least) / static_cast<double>(cluster_.workers());
    if (std::fmod(samples, static_cast<double>(micro_batches)) != 0) return;
    UnitPoint point{{{}, gradients_}, {}, {}};
    Layout& layout = point.plan.layout;
    layout.micro_batch = std::llround(samples) / micro_batches;
    if (choices.size() == 1) {
      layout.tensor = choices.front().tensor;
      layout.zero = choices.front().zero;
      layout.recomputation = choices.front().recomputation;
    } else {
      layout.unit_choices = choices;
    }
    if (!known_.insert(text_of(layout)).second) return;
    const Answer<LayoutEvaluator::Quick> cost = evaluator_.quick(point.plan);
    if (!cost) {
      reason_ = cost.reason();
      return;
    }
    point.memory = cost->memory;
    point.iteration = cost->iteration;
    points_.push_back(std::move(point));
  }

  [[nodiscard]] const std::string& reason() const { return reason_; }
  /// What nothing beats.
  [[nodiscard]] std::vector<UnitPoint> frontier() {
    std::vector<CostPoint> costs;
    for (std::uint32_t i = 0; i < points_.size(); ++i)
      costs.push_back({points_[i].memory.value(), points_[i].iteration.value(), i});
    std::vector<UnitPoint> out;
    for (const CostPoint& c : reduced(std::move(costs))) out.push_back(std::move(points_[c.trace]));
    return out;
  }

 private:
  const Cluster& cluster_;
  PlanSpec gradients_;
  LayoutEvaluator evaluator_;
  double batch_ = 1;
  std::set<std::string> known_;
  std::vector<UnitPoint> points_;
  std::string reason_;
};

std::vector<UnitChoice> merged(const UnitGraph& units, const std::vector<std::uint32_t>& configuration) {
  std::vector<UnitChoice> out;
  for (std::uint32_t u = 0; u < units.of.size(); ++u) {
    UnitChoice own = units.of[u][configuration[u]];
    own.units = 1;
    if (!out.empty()) {
      UnitChoice same = own;
      same.units = out.back().units;
      if (same == out.back()) {
        ++out.back().units;
        continue;
      }
    }
    out.push_back(own);
  }
  return out;
}

/// Calls `each` with every combination of the units' configurations.
template <class Each>
void for_each_combination(const UnitGraph& units, const Each& each) {
  std::vector<std::uint32_t> at(units.of.size(), 0);
  for (;;) {
    each(at);
    std::size_t u = 0;
    while (u < at.size() && ++at[u] == units.of[u].size()) at[u++] = 0;
    if (u == at.size()) return;
  }
}

double digits_of(const UnitGraph& units) {
  double digits = 0;
  for (const auto& configurations : units.of) digits += std::log10(static_cast<double>(configurations.size()));
  return digits;
}

}  // namespace

Answer<UnitFrontier> unit_frontier(const Workload& workload, const Cluster& cluster, const LayoutOptions& options,
                                   const PlanSpec& gradients) {
  Candidates candidates(workload, cluster, options, gradients);
  UnitFrontier out;
  out.units = static_cast<std::uint32_t>(workload.units.size());
  out.exact = true;
  double combinations = 0;
  std::string reason;
  std::vector<std::int64_t> counts = micro_batch_counts(cluster, global_batch_of(workload, cluster, options));
  if (counts.empty()) counts = {1};  // whose answer says what does not divide
  if (counts.size() > most_counts) {
    out.exact = false;
    std::vector<std::int64_t> some;
    for (std::size_t i = 0; i < most_counts; ++i) some.push_back(counts[i * (counts.size() - 1) / (most_counts - 1)]);
    counts = std::move(some);
  }
  const auto alike = [&](std::int64_t tensor, std::int64_t count) {
    for (int zero = 0; zero <= 3; ++zero)
      for (const Recomputation r : {Recomputation::none, Recomputation::selective, Recomputation::full})
        candidates.add({{out.units, tensor, zero, r}}, count);
  };
  for (const std::int64_t count : counts)
    for (const bool overlap : {true, false}) {
      const Answer<UnitGraph> units = unit_graph(workload, cluster, options, {count, overlap});
      if (!units) {
        if (reason.empty()) reason = units.reason();
        continue;
      }
      std::set<std::int64_t> degrees;
      for (const UnitChoice& c : units->of.front()) degrees.insert(c.tensor);
      for (const std::int64_t tensor : degrees) alike(tensor, count);
      if (overlap) {
        const Answer<UnitGraph> whole = unit_graph(workload, cluster, options, {count, overlap, true});
        const double all = std::pow(10.0, digits_of(*whole));
        combinations += all;
        if (all <= most_combinations) {
          for_each_combination(*whole, [&](const auto& at) { candidates.add(merged(*whole, at), count); });
          break;
        }
        out.exact = false;
      }
      for (const Assignment& point : frontier_of(units->graph, {most_points}).points)
        candidates.add(merged(*units, point.configuration), count);
    }
  out.points = candidates.frontier();
  if (out.points.empty()) return Inapplicable{reason.empty() ? candidates.reason() : reason};
  out.digits = std::log10(combinations);
  return out;
}

const UnitPoint* fastest_within(const UnitFrontier& frontier, Bytes cap) {
  const UnitPoint* best = nullptr;
  for (const UnitPoint& point : frontier.points)
    if (cap == Bytes(0) || point.memory <= cap) best = &point;
  return best;
}

std::vector<UnitRun> runs_of(const Layout& layout, std::uint32_t units) {
  if (layout.unit_choices.empty()) return {{0, {units, layout.tensor, layout.zero, layout.recomputation}}};
  std::vector<UnitRun> runs;
  std::uint32_t first = 0;
  for (const UnitChoice& c : layout.unit_choices) {
    runs.push_back({first, c});
    first += c.units;
  }
  return runs;
}

DeviceChoice chosen(std::span<const DeviceCount> counts, Objective objective, Seconds step) {
  DeviceChoice best;
  for (const DeviceCount& count : counts) {
    if (!count.found) continue;
    const Bytes cap = count.options.memory_cap;
    for (const UnitPoint& point : count.found->points) {
      if ((cap > Bytes(0) && point.memory > cap) || (step > Seconds(0) && point.iteration > step)) continue;
      const bool better =
          best.point == nullptr || (objective == Objective::least_memory ? point.memory < best.point->memory
                                                                         : point.iteration < best.point->iteration);
      if (better) best = {&count, &point};
    }
    if (objective == Objective::fewest_devices && best.point != nullptr) break;
  }
  return best;
}

}  // namespace stepcast
