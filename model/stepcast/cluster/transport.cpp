// Loss turns into time: a link of less bandwidth, and rounds of repair.
#include <stepcast/cluster/transport.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace stepcast {
namespace {

/// Probability that no path has more than `most` of the flows, each of which takes any path: the paths are filled one
/// after the other, the next of k left taking a binomial share 1/k of the flows that are left.
double probability_of_at_most(std::int64_t most, std::int64_t flows, std::int64_t paths) {
  const auto n = static_cast<std::size_t>(flows);
  std::vector<double> left(n + 1, 0), next(n + 1);
  left[n] = 1;
  for (std::int64_t path = paths; path > 1; --path) {
    std::fill(next.begin(), next.end(), 0);
    const double p = 1 / static_cast<double>(path), odds = p / (1 - p);
    for (std::size_t k = 0; k <= n; ++k) {
      if (left[k] == 0) continue;
      double binomial = std::exp(static_cast<double>(k) * std::log1p(-p));
      const std::size_t limit = std::min(k, static_cast<std::size_t>(most));
      for (std::size_t j = 0; j <= limit; ++j) {
        next[k - j] += left[k] * binomial;
        binomial *= odds * static_cast<double>(k - j) / static_cast<double>(j + 1);
      }
    }
    left.swap(next);
  }
  double sum = 0;
  for (std::size_t k = 0; k <= std::min(n, static_cast<std::size_t>(most)); ++k) sum += left[k];
  return sum;
}

}  // namespace

double fullest_path(std::int64_t flows, std::int64_t paths) {
  if (paths <= 1 || flows < 1) return 1;
  // E[max] = sum over m of P(max > m); the fullest path has at least the mean.
  const std::int64_t least = (flows + paths - 1) / paths;
  double expected = static_cast<double>(least);
  for (std::int64_t most = least; most < flows; ++most) {
    const double more = 1 - probability_of_at_most(most, flows, paths);
    if (more < 1e-12) break;
    expected += more;
  }
  return expected * static_cast<double>(paths) / static_cast<double>(flows);
}

double path_factor(const Transport& t) {
  const double unevenness = t.spraying ? 1 : fullest_path(t.flows, t.paths);
  return std::max(1.0, t.oversubscription * unevenness);
}

double usable_share(const Transport& t) { return (1 - t.loss) / path_factor(t); }

double card_share(const Transport& t) { return usable_share(t) * (1 - t.background); }

BytesPerSecond flows_rate(const Transport& t) {
  return t.flow_rate > BytesPerSecond(0) ? t.flow_rate * static_cast<double>(t.flows) : BytesPerSecond(HUGE_VAL);
}

double repair_rounds(double packets, double loss, double tolerated) {
  if (loss <= tolerated || packets <= 0) return 0;
  // In the mean over what is lost, if every packet counts; a share is missing until fewer packets are than it allows.
  constexpr int most = 1000;
  double all = 0;
  for (int r = 1; r < most; ++r) {
    const double more = -std::expm1(packets * std::log1p(-std::pow(loss, r)));
    all += more;
    if (more < 1e-12) break;
  }
  if (tolerated == 0) return all;
  int rounds = 1;
  for (double missing = (loss - tolerated) * packets * loss; missing >= 1 && rounds < most; missing *= loss) ++rounds;
  return std::min<double>(rounds, all);
}

}  // namespace stepcast
