// Matching of ranks: see matching.hpp. Votes for clock offsets, crossing-free pairs, refinement by medians.
#include <stepcast/base/statistics.hpp>
#include <stepcast/ranks/matching.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

namespace stepcast {
namespace {

// ---- pairs of one key, on one clock ----

struct Candidate {
  Pair pair;
  double best = 0;  ///< its reward; later the sum of rewards of the best chain that ends here
  std::uint32_t before = no_index;
};

/// Partners considered for each collective: the nearest ends. A true partner is among the nearest few unless the clock
/// is wrong, and then there is nothing to find.
constexpr std::size_t partners_tried = 4;

void add_candidates(std::span<const Arrival> a, std::uint32_t i, std::span<const Arrival> b, bool synchronising,
                    std::int64_t slack_ns, std::vector<Candidate>& out) {
  const auto at = std::ranges::lower_bound(b, a[i].end_ns, {}, &Arrival::end_ns);
  auto low = std::size_t(at - b.begin()), high = low;  // [low, high): taken
  const std::size_t first = out.size();
  while (high - low < partners_tried && (low > 0 || high < b.size())) {
    const bool take_low =
        high == b.size() || (low > 0 && a[i].end_ns - b[low - 1].end_ns <= b[high].end_ns - a[i].end_ns);
    const auto j = std::uint32_t(take_low ? --low : high++);
    const bool overlap = a[i].end_ns >= b[j].start_ns - slack_ns && b[j].end_ns >= a[i].start_ns - slack_ns;
    if (overlap || !synchronising) out.push_back({{i, j}, reward_of(b[j].end_ns - a[i].end_ns), no_index});
  }
  // Later partners first, so that two candidates of one collective never form a chain.
  std::sort(out.begin() + std::ptrdiff_t(first), out.end(),
            [](const Candidate& x, const Candidate& y) { return x.pair.b > y.pair.b; });
}

/// Best chain so far among those that end at a position below a bound.
class BestBelow {
 public:
  explicit BestBelow(std::size_t size) : tree_(size + 1, no_index) {}
  [[nodiscard]] std::uint32_t find(std::uint32_t bound, const std::vector<Candidate>& all) const {
    std::uint32_t best = no_index;
    for (std::size_t k = bound; k > 0; k &= k - 1) best = better(best, tree_[k], all);
    return best;
  }
  void add(std::uint32_t position, std::uint32_t candidate, const std::vector<Candidate>& all) {
    for (std::size_t k = position + 1; k < tree_.size(); k += k & (~k + 1)) tree_[k] = better(tree_[k], candidate, all);
  }

 private:
  static std::uint32_t better(std::uint32_t x, std::uint32_t y, const std::vector<Candidate>& all) {
    if (x == no_index || y == no_index) return x == no_index ? y : x;
    return all[y].best > all[x].best ? y : x;
  }
  std::vector<std::uint32_t> tree_;  ///< Fenwick tree of prefix maxima
};

// ---- the clock ----

/// Differences of ends are counted in windows this wide: GPUs of one machine agree within microseconds, processes that
/// meet over sockets within milliseconds.
constexpr std::array<std::int64_t, 4> vote_widths_ns = {30'000, 300'000, 3'000'000, 30'000'000};
constexpr std::size_t winners_of_a_width = 3;
constexpr std::size_t most_votes = std::size_t{1} << 18;
constexpr std::int64_t least_slack_ns = 100'000;

bool counts(std::size_t key, const std::vector<bool>& synchronising, bool any) { return synchronising[key] || !any; }

bool any_synchronising(const Arrivals& a, const Arrivals& b, const std::vector<bool>& synchronising) {
  for (std::size_t key = 0; key + 1 < a.begin.size(); ++key)
    if (synchronising[key] && !a.of(key).empty() && !b.of(key).empty()) return true;
  return false;
}

/// Differences of ends of equal keys, sorted. Keys that occur seldom come first, as their votes say most; of what
/// exceeds the budget every so manieth counts.
std::vector<std::int64_t> votes_of(const Arrivals& a, const Arrivals& b, const std::vector<bool>& synchronising) {
  const bool any = any_synchronising(a, b, synchronising);
  std::vector<std::pair<std::size_t, std::size_t>> keys;  // votes, key
  for (std::size_t key = 0; key + 1 < a.begin.size(); ++key)
    if (const std::size_t votes = a.of(key).size() * b.of(key).size(); votes > 0 && counts(key, synchronising, any))
      keys.emplace_back(votes, key);
  std::sort(keys.begin(), keys.end());
  const std::size_t budget = std::max(most_votes, 16 * b.list.size());
  std::vector<std::int64_t> votes;
  for (const auto& [count, key] : keys) {
    if (votes.size() >= budget) break;
    const std::size_t stride = count / (budget - votes.size()) + 1;
    for (std::size_t i = 0; i < a.of(key).size(); i += stride)
      for (const Arrival& y : b.of(key)) votes.push_back(y.end_ns - a.of(key)[i].end_ns);
  }
  std::sort(votes.begin(), votes.end());
  return votes;
}

/// A clock to try, and how far off its offset may be.
struct Guess {
  std::int64_t offset_ns, slack_ns;
};

/// The middle of the fullest window of this width that holds none of `taken`; nothing when there is no other.
std::optional<std::int64_t> fullest_window(const std::vector<std::int64_t>& votes, std::int64_t width,
                                           const std::vector<std::int64_t>& taken) {
  std::size_t most = 0, first = 0;
  const auto near = [&](std::int64_t offset) {
    return std::ranges::any_of(taken, [&](std::int64_t t) { return std::abs(t - offset) <= width; });
  };
  for (std::size_t low = 0, high = 0; low < votes.size(); ++low) {
    while (high < votes.size() && votes[high] - votes[low] <= width) ++high;
    if (high - low > most && !near(votes[low + (high - low) / 2])) most = high - low, first = low;
  }
  if (most == 0) return std::nullopt;
  return votes[first + most / 2];
}

std::vector<Guess> guesses_of(const std::vector<std::int64_t>& votes) {
  std::vector<Guess> guesses;
  for (const std::int64_t width : vote_widths_ns) {
    std::vector<std::int64_t> taken;
    while (taken.size() < winners_of_a_width) {
      const std::optional<std::int64_t> offset = fullest_window(votes, width, taken);
      if (!offset) break;
      taken.push_back(*offset);
      guesses.push_back({*offset, std::max(width, least_slack_ns)});
    }
  }
  return guesses;
}

/// All pairs under a clock, as their times on the recorded clock of `b` and the remaining differences of their ends.
struct Fit {
  double reward = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> residuals;  ///< of synchronising keys if there are any
};

Fit fit_of(const Arrivals& a, const Arrivals& b, const std::vector<bool>& synchronising, const RankClock& clock,
           std::int64_t slack_ns) {
  const Arrivals moved = on_clock(clock, b);
  const bool any = any_synchronising(a, b, synchronising);
  Fit fit;
  for (std::size_t key = 0; key + 1 < a.begin.size(); ++key) {
    if (a.of(key).empty() || b.of(key).empty()) continue;
    for (const Pair& pair : best_pairs(a.of(key), moved.of(key), synchronising[key], slack_ns)) {
      const std::int64_t residual = moved.of(key)[pair.b].end_ns - a.of(key)[pair.a].end_ns;
      fit.reward += reward_of(residual);
      if (counts(key, synchronising, any)) fit.residuals.emplace_back(b.of(key)[pair.b].end_ns, residual);
    }
  }
  return fit;
}

double median_of(const Fit& fit, bool magnitude) {
  std::vector<double> values;
  for (const auto& [time, residual] : fit.residuals)
    values.push_back(magnitude ? std::abs(double(residual)) : double(residual));
  return median(std::move(values));
}

/// Clocks of machines drift by parts per million; more than this is no drift.
constexpr double largest_drift = 1e-3;
constexpr std::size_t least_matches_for_drift = 12;
constexpr Seconds good_enough = microseconds(5);

/// Slope between the medians of the first and the last third of the matches.
double slope_of(Fit fit) {
  const std::size_t third = fit.residuals.size() / 3;
  std::sort(fit.residuals.begin(), fit.residuals.end());
  const auto middle = [&](std::size_t from, bool time) {
    std::vector<double> values;
    for (std::size_t i = from; i < from + third; ++i)
      values.push_back(time ? double(fit.residuals[i].first - fit.residuals.front().first)
                            : double(fit.residuals[i].second));
    return median(std::move(values));
  };
  const std::size_t last = fit.residuals.size() - third;
  const double span = middle(last, true) - middle(0, true);
  return span > 0 ? (middle(last, false) - middle(0, false)) / span : 0;
}

/// The clock with a drift, if that brings the ends closer by a quarter; else as it is.
RankClock with_drift(const RankClock& clock, const Fit& fit) {
  if (fit.residuals.size() < least_matches_for_drift || clock.residual < good_enough) return clock;
  RankClock drifting = clock;
  drifting.drift = slope_of(fit);
  if (std::abs(drifting.drift) > largest_drift) return clock;
  std::vector<double> left;
  const auto offset_under = [&](std::int64_t time, std::int64_t residual) {
    return double(residual) - drifting.drift * double(time - drifting.origin_ns);
  };
  for (const auto& [time, residual] : fit.residuals) left.push_back(offset_under(time, residual));
  const double shift = median(left);
  for (double& value : left) value = std::abs(value - shift);
  drifting.offset_ns += std::llround(shift);
  drifting.residual = Seconds(median(std::move(left)) * 1e-9);
  return drifting.residual < 0.75 * clock.residual ? drifting : clock;
}

/// Medians of what is left move the offset to where most ends coincide; twice, as better clocks give better pairs.
RankClock refined(const Arrivals& a, const Arrivals& b, const std::vector<bool>& synchronising, const Guess& guess,
                  double& reward) {
  RankClock clock;
  clock.offset_ns = guess.offset_ns;
  clock.origin_ns = b.list.front().end_ns;
  std::int64_t slack = guess.slack_ns;
  Fit fit;
  for (int round = 0; round < 2; ++round) {
    fit = fit_of(a, b, synchronising, clock, slack);
    if (fit.residuals.empty()) break;
    clock.offset_ns += std::llround(median_of(fit, false));
    slack = std::max(least_slack_ns, std::min(slack, std::int64_t(10 * median_of(fit, true))));
  }
  fit = fit_of(a, b, synchronising, clock, slack);
  reward = fit.reward;
  clock.matches = fit.residuals.size();
  clock.residual = Seconds(median_of(fit, true) * 1e-9);
  return with_drift(clock, fit);
}

}  // namespace

double reward_of(std::int64_t distance_ns) {
  constexpr double coincident_ns = 1e4, decades = 4, least = 0.02;
  const double distance = std::abs(double(distance_ns));
  if (distance <= coincident_ns) return 1;
  return std::max(least, 1 - std::log10(distance / coincident_ns) / decades);
}

std::vector<Pair> best_pairs(std::span<const Arrival> a, std::span<const Arrival> b, bool synchronising,
                             std::int64_t slack_ns) {
  std::vector<Candidate> candidates;
  candidates.reserve(a.size() * std::min(partners_tried, b.size()));
  for (std::uint32_t i = 0; i < a.size(); ++i) add_candidates(a, i, b, synchronising, slack_ns, candidates);
  BestBelow chains(b.size());
  std::uint32_t best = no_index;
  for (std::uint32_t c = 0; c < candidates.size(); ++c) {
    Candidate& candidate = candidates[c];
    candidate.before = chains.find(candidate.pair.b, candidates);
    if (candidate.before != no_index) candidate.best += candidates[candidate.before].best;
    chains.add(candidate.pair.b, c, candidates);
    if (best == no_index || candidate.best > candidates[best].best) best = c;
  }
  std::vector<Pair> pairs;
  for (; best != no_index; best = candidates[best].before) pairs.push_back(candidates[best].pair);
  std::reverse(pairs.begin(), pairs.end());
  return pairs;
}

RankClock clock_of(const Arrivals& a, const Arrivals& b, const std::vector<bool>& synchronising,
                   const OffsetHint& hint) {
  std::vector<std::int64_t> votes = votes_of(a, b, synchronising);
  std::vector<Guess> guesses = guesses_of(votes);
  if (hint.within_ns >= 0) {
    std::erase_if(votes, [&](std::int64_t vote) { return std::abs(vote - hint.near_ns) > hint.within_ns; });
    const std::vector<Guess> near = guesses_of(votes);
    guesses.insert(guesses.end(), near.begin(), near.end());
  }
  RankClock best;
  double most = 0;
  for (const Guess& guess : guesses) {
    double reward = 0;
    const RankClock clock = refined(a, b, synchronising, guess, reward);
    // Steps repeat, so that an offset by a whole step may explain nearly as much.
    constexpr double far_from_hint = 0.5;
    if (hint.within_ns >= 0 && std::abs(clock.offset_ns - hint.near_ns) > hint.within_ns) reward *= far_from_hint;
    const bool tied = reward == most && std::abs(clock.offset_ns) < std::abs(best.offset_ns);
    if (reward > most || tied) best = clock, most = reward;
  }
  return best;
}

Arrivals on_clock(const RankClock& clock, Arrivals arrivals) {
  for (Arrival& arrival : arrivals.list) {
    arrival.start_ns = clock.common(arrival.start_ns);
    arrival.end_ns = clock.common(arrival.end_ns);
  }
  return arrivals;
}

}  // namespace stepcast
