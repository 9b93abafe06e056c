// The longest run is found by the next one that a greedy division asks for, the most even division within it by dynamic
// programming.
#include <stepcast/parallelism/stage_division.hpp>

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>
#include <utility>

namespace stepcast {
namespace {

/// Sums of runs of units.
class Runs {
 public:
  explicit Runs(std::span<const Seconds> time) : prefix_(time.size() + 1) {
    for (std::size_t i = 0; i < time.size(); ++i) prefix_[i + 1] = prefix_[i] + time[i].value();
  }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(prefix_.size() - 1); }
  [[nodiscard]] double sum(std::uint32_t from, std::uint32_t to) const { return prefix_[to] - prefix_[from]; }

  /// Cuts greedily into runs of at most `limit` that leave a unit for each later one.
  struct Greedy {
    double longest = 0;                                     ///< infinity: it does not reach the end
    double next = std::numeric_limits<double>::infinity();  ///< the least longer limit that cuts otherwise
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
      out.longest = std::max(out.longest, sum(from, to));
      from = to;
    }
    if (from != count() || out.longest > limit) out.longest = std::numeric_limits<double>::infinity();
    return out;
  }

 private:
  std::vector<double> prefix_;
};

/// The shortest longest run. From a limit that is too short each step goes to the next one that cuts otherwise: a few
/// where units are alike. Where they are not, bisection, in which each success jumps to the run that it found; both end
/// exactly.
double shortest_longest(const Runs& runs, std::uint32_t stages) {
  constexpr int steps = 16;
  double good = runs.sum(0, runs.count()), bad = good / stages * (1 - 1e-9);
  for (int i = 0; i < steps; ++i) {
    const Runs::Greedy cut = runs.greedy(stages, bad);
    if (cut.longest <= bad) return cut.longest;
    if (!(cut.next < good)) return good;
    bad = cut.next;
  }
  for (int i = 0; i < 60 && bad < good; ++i) {
    const double middle = 0.5 * (bad + good);
    if (middle <= bad || middle >= good) break;
    const double found = runs.greedy(stages, middle).longest;
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

std::vector<std::uint32_t> stage_division(std::span<const Seconds> time, std::uint32_t stages) {
  const Runs runs(time);
  const std::uint32_t n = runs.count();
  assert(stages >= 1 && stages <= n);
  const double limit = shortest_longest(runs, stages);
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

std::vector<Seconds> of_devices(std::span<const Seconds> time, std::span<const std::uint32_t> first,
                                std::span<const std::uint32_t> device) {
  std::vector<Seconds> of(*std::ranges::max_element(device) + 1);
  for (std::size_t v = 0; v < device.size(); ++v)
    for (std::uint32_t u = first[v]; u < first[v + 1]; ++u) of[device[v]] += time[u];
  return of;
}

Seconds longest_run(std::span<const Seconds> time, std::span<const std::uint32_t> first) {
  Seconds longest;
  for (std::size_t v = 0; v + 1 < first.size(); ++v) {
    Seconds run;
    for (std::uint32_t u = first[v]; u < first[v + 1]; ++u) run += time[u];
    longest = std::max(longest, run);
  }
  return longest;
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

Seconds longest_device(std::span<const Seconds> time, std::span<const std::uint32_t> first,
                       std::span<const std::uint32_t> device) {
  const std::vector<Seconds> of = of_devices(time, first, device);
  return *std::ranges::max_element(of);
}

std::vector<std::uint32_t> sparing_the_busiest(std::span<const Seconds> time, std::vector<std::uint32_t> first,
                                               std::span<const std::uint32_t> device) {
  constexpr double rounding = 1e-9;
  const Seconds limit = longest_run(time, first) * (1 + rounding);
  for (;;) {
    const std::vector<Seconds> of = of_devices(time, first, device);
    const auto busiest = std::ranges::max_element(of), least = std::ranges::min_element(of);
    const auto from_device = static_cast<std::uint32_t>(busiest - of.begin());
    const auto to_device = static_cast<std::uint32_t>(least - of.begin());
    std::vector<std::uint32_t> best;
    Seconds shortest = *busiest * (1 - rounding);
    const auto consider = [&](std::size_t from, std::size_t to) {
      std::vector<std::uint32_t> other = moved(first, from, to);
      if (longest_run(time, other) > limit) return;
      const Seconds longest = longest_device(time, other, device);
      if (longest >= shortest) return;
      shortest = longest;
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

}  // namespace stepcast
