// The heaviest run is found by the next one that a greedy division asks for, the most even division within it by
// dynamic programming.
#include <stepcast/parallelism/stage_division.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace stepcast {
namespace {

/// Sums of runs of units.
class Runs {
 public:
  explicit Runs(std::span<const double> weight) : prefix_(weight.size() + 1) {
    for (std::size_t i = 0; i < weight.size(); ++i) prefix_[i + 1] = prefix_[i] + weight[i];
  }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(prefix_.size() - 1); }
  [[nodiscard]] double sum(std::uint32_t from, std::uint32_t to) const { return prefix_[to] - prefix_[from]; }

  /// Cuts greedily into runs of at most `limit` that leave a unit for each later one.
  struct Greedy {
    double heaviest = 0;                                    ///< infinity: it does not reach the end
    double next = std::numeric_limits<double>::infinity();  ///< the least heavier limit that cuts otherwise
  };
  [[nodiscard]] Greedy greedy(std::uint32_t stages, double limit) const {
    Greedy out;
    std::uint32_t from = 0;
    for (std::uint32_t s = 0; s < stages; ++s) {
      const std::uint32_t last = count() - (stages - 1 - s);
      std::uint32_t to = from + 1;
      while (to < last && sum(from, to + 1) <= limit) ++to;
      if (to < last) out.next = std::min(out.next, sum(from, to + 1));
      if (sum(from, to) > limit) out.next = std::min(out.next, sum(from, to));
      out.heaviest = std::max(out.heaviest, sum(from, to));
      from = to;
    }
    if (from != count() || out.heaviest > limit) out.heaviest = std::numeric_limits<double>::infinity();
    return out;
  }

 private:
  std::vector<double> prefix_;
};

/// The lightest heaviest run. From a limit that is too short each step goes to the next one that cuts otherwise: a few
/// where units are alike. Where they are not, bisection, in which each success jumps to the run that it found; both end
/// exactly.
double lightest_heaviest(const Runs& runs, std::uint32_t stages) {
  constexpr int steps = 16;
  double good = runs.sum(0, runs.count()), bad = good / stages * (1 - 1e-9);
  for (int i = 0; i < steps; ++i) {
    const Runs::Greedy cut = runs.greedy(stages, bad);
    if (cut.heaviest <= bad) return cut.heaviest;
    if (!(cut.next < good)) return good;
    bad = cut.next;
  }
  for (int i = 0; i < 60 && bad < good; ++i) {
    const double middle = 0.5 * (bad + good);
    if (middle <= bad || middle >= good) break;
    const double found = runs.greedy(stages, middle).heaviest;
    if (found <= middle) good = found;
    else bad = middle;
  }
  return good;
}

/// Units before the end of each run (index: runs done) that leave all runs within the limit: least and most.
struct Window {
  std::vector<std::uint32_t> least, most;
};
Window window_of(const Runs& runs, std::uint32_t stages, double limit) {
  const std::uint32_t n = runs.count();
  Window w{std::vector<std::uint32_t>(stages + 1, 0), std::vector<std::uint32_t>(stages + 1, 0)};
  for (std::uint32_t s = 1; s <= stages; ++s) {
    std::uint32_t to = w.most[s - 1] + 1;
    while (to < n - (stages - s) && runs.sum(w.most[s - 1], to + 1) <= limit) ++to;
    w.most[s] = to;
  }
  w.least[stages] = n;
  for (std::uint32_t s = stages; s > 1; --s) {
    std::uint32_t from = w.least[s] - 1;
    while (from > s - 1 && runs.sum(from - 1, w.least[s]) <= limit) --from;
    w.least[s - 1] = from;
  }
  return w;
}

}  // namespace

std::vector<double> weights_of(std::span<const Seconds> time) {
  constexpr double parts = 1 << 20;
  const Seconds longest = *std::ranges::max_element(time);
  std::vector<double> weight;
  for (const Seconds t : time) weight.push_back(longest > Seconds(0) ? std::round(t / longest * parts) : 1);
  return weight;
}

std::vector<std::uint32_t> stage_division(std::span<const double> weight, std::uint32_t stages) {
  const Runs runs(weight);
  const std::uint32_t n = runs.count();
  assert(stages >= 1 && stages <= n);
  const double limit = lightest_heaviest(runs, stages);
  const Window window = window_of(runs, stages, limit);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  // Rows of the window: the smallest sum of squares of s runs over the first u units, and where the last run begins.
  std::vector<std::size_t> row(stages + 2, 0);
  for (std::uint32_t s = 0; s <= stages; ++s) row[s + 1] = row[s] + (window.most[s] - window.least[s] + 1);
  std::vector<double> least(row.back(), infinity);
  std::vector<std::uint32_t> cut(row.back(), 0);
  least[0] = 0;
  for (std::uint32_t s = 1; s <= stages; ++s)
    for (std::uint32_t u = window.least[s]; u <= window.most[s]; ++u) {
      const std::size_t here = row[s] + (u - window.least[s]);
      for (std::uint32_t from = std::min(u, window.most[s - 1] + 1); from-- > window.least[s - 1];) {
        const double run = runs.sum(from, u);  // the last run is [from, u)
        if (run > limit) break;
        const double squares = least[row[s - 1] + (from - window.least[s - 1])] + run * run;
        if (squares >= least[here]) continue;
        least[here] = squares;
        cut[here] = from;
      }
    }
  std::vector<std::uint32_t> first(stages + 1);
  first[stages] = n;
  for (std::uint32_t s = stages; s > 0; --s) first[s - 1] = cut[row[s] + (first[s] - window.least[s])];
  return first;
}

namespace {

std::vector<double> of_devices(std::span<const double> weight, std::span<const std::uint32_t> first,
                               std::span<const std::uint32_t> device) {
  std::vector<double> of(*std::ranges::max_element(device) + 1);
  for (std::size_t v = 0; v < device.size(); ++v)
    for (std::uint32_t u = first[v]; u < first[v + 1]; ++u) of[device[v]] += weight[u];
  return of;
}

double heaviest_run(std::span<const double> weight, std::span<const std::uint32_t> first) {
  double heaviest = 0;
  for (std::size_t v = 0; v + 1 < first.size(); ++v)
    heaviest = std::max(heaviest, std::accumulate(weight.begin() + first[v], weight.begin() + first[v + 1], 0.0));
  return heaviest;
}

/// One unit less for a run and one more for another; the runs between them move.
std::vector<std::uint32_t> moved(std::vector<std::uint32_t> first, std::size_t from, std::size_t to) {
  if (from < to)
    for (std::size_t v = from + 1; v <= to; ++v) --first[v];
  else
    for (std::size_t v = to + 1; v <= from; ++v) ++first[v];
  return first;
}

}  // namespace

double heaviest_device(std::span<const double> weight, std::span<const std::uint32_t> first,
                       std::span<const std::uint32_t> device) {
  const std::vector<double> of = of_devices(weight, first, device);
  return *std::ranges::max_element(of);
}

std::vector<std::uint32_t> sparing_the_busiest(std::span<const double> weight, std::vector<std::uint32_t> first,
                                               std::span<const std::uint32_t> device) {
  constexpr double rounding = 1e-9;
  const double limit = heaviest_run(weight, first) * (1 + rounding);
  for (;;) {
    const std::vector<double> of = of_devices(weight, first, device);
    const auto busiest = std::ranges::max_element(of), least = std::ranges::min_element(of);
    const auto from_device = static_cast<std::uint32_t>(busiest - of.begin());
    const auto to_device = static_cast<std::uint32_t>(least - of.begin());
    std::vector<std::uint32_t> best;
    double lightest = *busiest * (1 - rounding);
    const auto consider = [&](std::size_t from, std::size_t to) {
      std::vector<std::uint32_t> other = moved(first, from, to);
      if (heaviest_run(weight, other) > limit) return;
      const double heaviest = heaviest_device(weight, other, device);
      if (heaviest >= lightest) return;
      lightest = heaviest;
      best = std::move(other);
    };
    // Of two runs the nearest ones, which moves fewest others.
    for (std::size_t v = 0, from = device.size(), to = device.size(); v < device.size(); ++v) {
      if (device[v] == from_device && first[v + 1] - first[v] > 1) from = v;
      else if (device[v] == to_device) to = v;
      else continue;
      if (from < device.size() && to < device.size()) consider(from, to);
    }
    if (best.empty()) return first;
    first = std::move(best);
  }
}

std::vector<std::uint32_t> equal_blocks(const ModelShape& shape, std::int64_t stages) {
  if (stages < 2 || shape.units.size() < 3) return {};
  const auto first = shape.units.begin() + 1, last = shape.units.end() - 1;
  const std::int64_t blocks =
      std::accumulate(first, last, std::int64_t{0}, [](std::int64_t n, const auto& u) { return n + u.repetitions; });
  if (blocks % stages != 0) return {};
  std::vector<std::uint32_t> units(std::size_t(stages), std::uint32_t(blocks / stages));
  units.front() += std::uint32_t(shape.units.front().repetitions);
  units.back() += std::uint32_t(shape.units.back().repetitions);
  return units;
}

namespace {

/// Those of a model, in forward order.
std::vector<double> parameters_of_units(const ModelShape& shape) {
  std::vector<double> parameters;
  for (const UnitShape& u : shape.units)
    parameters.insert(parameters.end(), std::size_t(u.repetitions),
                      u.divided_parameters + u.other_parameters + u.expert_parameters + u.tied_parameters);
  return parameters;
}

}  // namespace

StageRule stage_rule_of(KernelSet kernels) {
  switch (kernels) {
    case KernelSet::megatron:
      return StageRule::equal_blocks;
    case KernelSet::deepspeed:
      return StageRule::by_parameters;
    case KernelSet::compiled:
    case KernelSet::eager:
      break;
  }
  return StageRule::equal_units;
}

std::vector<std::uint32_t> usual_stages(const ModelShape& shape, StageRule rule, std::int64_t stages) {
  if (rule == StageRule::equal_blocks) return equal_blocks(shape, stages);
  const std::vector<double> parameters = parameters_of_units(shape);
  if (stages < 2 || std::ssize(parameters) < stages) return {};
  std::vector<std::uint32_t> units(std::size_t(stages), std::uint32_t(std::ssize(parameters) / stages));
  if (rule == StageRule::equal_units) {
    for (std::int64_t s = 0; s < std::ssize(parameters) % stages; ++s) ++units[std::size_t(s)];
    return units;
  }
  const std::vector<std::uint32_t> first = stage_division(parameters, std::uint32_t(stages));
  for (std::size_t s = 0; s < units.size(); ++s) units[s] = first[s + 1] - first[s];
  return units;
}

std::vector<std::uint32_t> usual_stages(const ModelShape& shape, std::int64_t stages) {
  return usual_stages(shape, stage_rule_of(shape.kernels), stages);
}

}  // namespace stepcast
