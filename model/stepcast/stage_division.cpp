#include <stepcast/stage_division.hpp>

#include <algorithm>
#include <cassert>
#include <limits>

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

  /// Cuts greedily into runs of at most `limit` that leave a unit for each later one. The longest run, or infinity.
  [[nodiscard]] double longest_of_greedy(std::uint32_t stages, double limit) const {
    std::uint32_t from = 0;
    double longest = 0;
    for (std::uint32_t s = 0; s < stages; ++s) {
      const std::uint32_t last = count() - (stages - 1 - s);
      std::uint32_t to = from + 1;
      while (to < last && sum(from, to + 1) <= limit) ++to;
      longest = std::max(longest, sum(from, to));
      from = to;
    }
    return from == count() && longest <= limit ? longest : std::numeric_limits<double>::infinity();
  }

 private:
  std::vector<double> prefix_;
};

/// The shortest longest run: bisection; each success jumps to the run that it found, so that the end is exact.
double shortest_longest(const Runs& runs, std::uint32_t stages) {
  double good = runs.sum(0, runs.count()), bad = 0;
  for (int i = 0; i < 60 && bad < good; ++i) {
    const double middle = 0.5 * (bad + good);
    if (middle <= bad || middle >= good) break;
    const double found = runs.longest_of_greedy(stages, middle);
    if (found <= middle) good = found;
    else bad = middle;
  }
  return good;
}

}  // namespace

std::vector<std::uint32_t> stage_division(std::span<const Seconds> time, std::uint32_t stages) {
  const Runs runs(time);
  const std::uint32_t n = runs.count();
  assert(stages >= 1 && stages <= n);
  const double limit = shortest_longest(runs, stages);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::size_t width = std::size_t{n} + 1;
  // least[s][u]: smallest sum of squares of s runs over the first u units.
  std::vector<double> least((std::size_t{stages} + 1) * width, infinity);
  std::vector<std::uint32_t> cut(least.size(), 0);
  least[0] = 0;
  for (std::uint32_t s = 1; s <= stages; ++s)
    for (std::uint32_t u = s; u <= n - (stages - s); ++u)
      for (std::uint32_t from = u; from-- >= s;) {  // the last run is [from, u)
        const double run = runs.sum(from, u);
        if (run > limit) break;
        const double squares = least[(s - 1) * width + from] + run * run;
        if (squares >= least[s * width + u]) continue;
        least[s * width + u] = squares;
        cut[s * width + u] = from;
      }
  std::vector<std::uint32_t> first(stages + 1);
  first[stages] = n;
  for (std::uint32_t s = stages; s > 0; --s) first[s - 1] = cut[s * width + first[s]];
  return first;
}

}  // namespace stepcast
