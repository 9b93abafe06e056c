// Clocks along a spanning tree of shared collectives, then matches key by key.
#include <stepcast/base/statistics.hpp>
#include <stepcast/ranks/joined.hpp>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace stepcast {
namespace {

// ---- clocks ----

Arrivals arrivals_of(const ShownRank& rank, const std::vector<std::uint32_t>& key, std::size_t keys) {
  Arrivals out;
  out.begin.assign(keys + 1, 0);
  for (const std::uint32_t k : key) ++out.begin[k + 1];
  std::partial_sum(out.begin.begin(), out.begin.end(), out.begin.begin());
  out.list.resize(key.size());
  std::vector<std::uint32_t> next(out.begin.begin(), out.begin.end());
  for (std::uint32_t i = 0; i < key.size(); ++i) {
    const ShownCollective& c = rank.collectives[i];
    out.list[next[key[i]]++] = {c.start_ns, c.end_ns, i};
  }
  return out;
}

std::size_t shared(const Arrivals& a, const Arrivals& b) {
  std::size_t sum = 0;
  for (std::size_t k = 0; k + 1 < a.begin.size(); ++k) sum += std::min(a.of(k).size(), b.of(k).size());
  return sum;
}

/// How far apart two ranks began the same steps: a step is no better known than by half its length.
OffsetHint hint_of(const RankOfRun& a, const RankOfRun& b) {
  std::vector<double> apart, length;
  std::unordered_map<std::int64_t, std::int64_t> start_in_a;  // of a number that comes again the first
  for (const Step& x : a.steps) start_in_a.try_emplace(x.number, a.clock.common(x.start_ns));
  for (const Step& y : b.steps) {
    const auto x = start_in_a.find(y.number);
    if (x == start_in_a.end()) continue;
    apart.push_back(double(y.start_ns - x->second));
    length.push_back(double(y.end_ns - y.start_ns));
    start_in_a.erase(x);
  }
  if (apart.empty()) return {};
  return {std::int64_t(median(std::move(apart))), std::int64_t(0.5 * median(std::move(length)))};
}

/// All arrivals on one clock: from the rank with most collectives on, always the rank that shares most with one whose
/// clock is known already.
class Clocks {
 public:
  Clocks(std::vector<ShownRank>& ranks, const Keys& keys) : ranks_(ranks), keys_(keys) {
    for (std::size_t r = 0; r < ranks.size(); ++r)
      arrivals_.push_back(arrivals_of(ranks[r], keys.of[r], keys.synchronising.size()));
    shared_.assign(ranks.size(), std::vector<std::size_t>(ranks.size()));
    for (std::size_t a = 0; a < ranks.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) shared_[a][b] = shared_[b][a] = shared(arrivals_[a], arrivals_[b]);
    known_.assign(ranks.size(), false);
    for (std::size_t r = 1; r < ranks.size(); ++r)
      if (before(r, reference_)) reference_ = r;
    known_[reference_] = true;
    for (auto [next, from] = nearest(); next < ranks.size(); std::tie(next, from) = nearest()) adjust(next, from);
  }
  [[nodiscard]] std::size_t reference() const { return reference_; }
  [[nodiscard]] const std::vector<Arrivals>& arrivals() const { return arrivals_; }

 private:
  /// The order of the ranks must not matter.
  bool before(std::size_t a, std::size_t b) const {
    const std::size_t na = ranks_[a].collectives.size(), nb = ranks_[b].collectives.size();
    return na != nb ? na > nb : ranks_[a].rank.rank < ranks_[b].rank.rank;
  }
  std::pair<std::size_t, std::size_t> nearest() const {
    std::size_t most = 0;
    std::pair<std::size_t, std::size_t> best{ranks_.size(), 0};
    for (std::size_t b = 0; b < ranks_.size(); ++b) {
      if (known_[b]) continue;
      for (std::size_t a = 0; a < ranks_.size(); ++a) {
        const std::size_t common = known_[a] ? shared_[a][b] : 0;
        const bool tied = common == most && most > 0 &&
                          std::pair(ranks_[b].rank.rank, ranks_[a].rank.rank) <
                              std::pair(ranks_[best.first].rank.rank, ranks_[best.second].rank.rank);
        if (common > most || tied) most = common, best = {b, a};
      }
    }
    return best;
  }
  void adjust(std::size_t next, std::size_t from) {
    known_[next] = true;
    RankClock& clock = ranks_[next].rank.clock;
    clock =
        clock_of(arrivals_[from], arrivals_[next], keys_.synchronising, hint_of(ranks_[from].rank, ranks_[next].rank));
    arrivals_[next] = on_clock(clock, std::move(arrivals_[next]));
  }

  std::vector<ShownRank>& ranks_;
  const Keys& keys_;
  std::vector<Arrivals> arrivals_;
  std::vector<std::vector<std::size_t>> shared_;  ///< collectives in common, which no clock changes
  std::vector<bool> known_;
  std::size_t reference_ = 0;
};

// ---- matches ----

/// Pairs whose ends are as near as the clocks allow, and those in between, of which order alone leaves no doubt.
std::vector<Pair> trusted(std::vector<Pair> pairs, std::span<const Arrival> a, std::span<const Arrival> b,
                          std::int64_t limit_ns) {
  std::vector<Pair> kept;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Pair& p = pairs[i];
    const bool follows = i == 0 ? p.a == 0 && p.b == 0 : pairs[i - 1] == Pair{p.a - 1, p.b - 1};
    const bool precedes =
        i + 1 == pairs.size() ? p.a + 1 == a.size() && p.b + 1 == b.size() : pairs[i + 1] == Pair{p.a + 1, p.b + 1};
    if (std::abs(b[p.b].end_ns - a[p.a].end_ns) <= limit_ns || (follows && precedes)) kept.push_back(p);
  }
  return kept;
}

class Matching {
 public:
  Matching(const std::vector<ShownRank>& ranks, const Keys& keys, const Clocks& clocks)
      : ranks_(ranks), synchronising_(keys.synchronising), arrivals_(clocks.arrivals()) {
    for (std::size_t k = 0; k < synchronising_.size(); ++k) match(k);
    std::ranges::stable_sort(found_, {}, [](const MatchedCollective& c) {
      std::int64_t end = 0;
      for (const Participation& p : c.ranks)
        if (p.event != no_index) end = std::max(end, p.end_ns);
      return end;
    });
  }
  std::vector<MatchedCollective> take() { return std::move(found_); }

 private:
  /// The rank with most of a key leads; what it does not show is matched among the others.
  void match(std::size_t key) {
    std::vector<std::vector<Arrival>> left;
    for (const Arrivals& all : arrivals_) left.emplace_back(all.of(key).begin(), all.of(key).end());
    for (;;) {
      std::size_t leader = 0, showing = 0;
      for (std::size_t r = 0; r < left.size(); ++r) {
        showing += !left[r].empty();
        if (left[r].size() > left[leader].size()) leader = r;
      }
      if (showing < 2) return;
      match_with(key, leader, left);
    }
  }

  void match_with(std::size_t key, std::size_t leader, std::vector<std::vector<Arrival>>& left) {
    const std::vector<Arrival> lead = std::exchange(left[leader], {});
    std::vector<MatchedCollective> groups(lead.size());
    for (std::size_t i = 0; i < lead.size(); ++i) {
      groups[i].ranks.resize(left.size());
      take_part(groups[i], leader, lead[i]);
    }
    std::vector<bool> together(lead.size(), false);
    for (std::size_t r = 0; r < left.size(); ++r) {
      std::vector<bool> gone(left[r].size(), false);
      const std::int64_t limit = limit_ns(leader, r);
      for (const Pair& pair : trusted(best_pairs(lead, left[r], synchronising_[key], limit), lead, left[r], limit)) {
        take_part(groups[pair.a], r, left[r][pair.b]);
        together[pair.a] = gone[pair.b] = true;
      }
      std::size_t i = 0;
      std::erase_if(left[r], [&](const Arrival&) { return gone[i++]; });
    }
    for (std::size_t i = 0; i < lead.size(); ++i)
      if (together[i]) found_.push_back(finished(std::move(groups[i]), ranks_[leader].collectives[lead[i].event], key));
  }

  std::int64_t limit_ns(std::size_t a, std::size_t b) const {
    constexpr double deviations = 15, least_ns = 1e5;
    const double residual = std::max(ranks_[a].rank.clock.residual, ranks_[b].rank.clock.residual).value() * 1e9;
    return std::int64_t(std::max(least_ns, deviations * residual));
  }

  void take_part(MatchedCollective& c, std::size_t r, const Arrival& arrival) const {
    const ShownCollective& shown = ranks_[r].collectives[arrival.event];
    if (c.operation.empty() || c.operation == "unknown") c.operation = shown.operation;
    c.ranks[r] = {shown.event, ranks_[r].rank.clock.common(shown.issued_ns), arrival.start_ns, arrival.end_ns};
  }

  MatchedCollective finished(MatchedCollective c, const ShownCollective& shown, std::size_t key) const {
    c.group = shown.group;
    c.sequence = shown.sequence;
    c.size = shown.size;
    c.synchronising = synchronising_[key];
    std::vector<std::int64_t> starts;
    for (std::size_t r = 0; r < c.ranks.size(); ++r) {
      const Participation& p = c.ranks[r];
      if (p.event == no_index) continue;
      const Seconds duration = Seconds(double(p.end_ns - p.start_ns) * 1e-9);
      c.transfer = starts.empty() ? duration : std::min(c.transfer, duration);
      if (starts.empty() || p.start_ns > c.ranks[c.last].start_ns) c.last = std::uint32_t(r);
      starts.push_back(p.start_ns);
    }
    const auto middle = starts.begin() + std::ptrdiff_t((starts.size() - 1) / 2);
    std::nth_element(starts.begin(), middle, starts.end());
    c.usual_start_ns = *middle;
    return c;
  }

  const std::vector<ShownRank>& ranks_;
  const std::vector<bool>& synchronising_;
  const std::vector<Arrivals>& arrivals_;
  std::vector<MatchedCollective> found_;
};

}  // namespace

JoinedRanks joined(std::vector<ShownRank> ranks, bool detailed_keys) {
  const Keys keys = keys_of(ranks, detailed_keys);
  const Clocks clocks(ranks, keys);
  std::vector<MatchedCollective> collectives = Matching(ranks, keys, clocks).take();
  return {std::move(ranks), clocks.reference(), std::move(collectives)};
}

std::size_t JoinedRanks::partners() const {
  std::size_t sum = 0;
  for (const MatchedCollective& c : collectives)
    sum += std::size_t(std::ranges::count_if(c.ranks, [](const auto& p) { return p.event != no_index; }));
  return sum;
}

}  // namespace stepcast
