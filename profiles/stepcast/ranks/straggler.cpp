// Waiting is summed by the rank that was waited for; the one that stands out is the straggler.
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/stretches.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/ranks/straggler.hpp>
#include <stepcast/ranks/straggler_cause.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace stepcast {
namespace {

Seconds seconds(std::int64_t ns) { return Seconds(double(ns) * 1e-9); }

/// The stretch in which others waited for rank `r`: from the usual start to its own, but no longer than somebody did
/// wait (a broadcast to a late rank keeps nobody). Who waits for a message waits for the work before it.
std::pair<std::int64_t, std::int64_t> kept_waiting(const MatchedCollective& c, std::size_t r) {
  const Participation& p = c.ranks[r];
  const std::int64_t usual = c.usual_start_ns;
  if (p.event == no_index || p.start_ns <= usual || c.is_message()) return {0, 0};
  std::int64_t waited = 0;
  for (std::size_t other = 0; other < c.ranks.size(); ++other)
    if (other != r) waited = std::max(waited, std::int64_t(c.waiting(other).value() * 1e9 + 0.5));
  return {p.start_ns - std::min(p.start_ns - usual, waited), p.start_ns};
}

/// A step, or the whole trace, in which a rank was late.
struct Episode {
  std::int64_t step = -1;
  Stretches late;
  std::size_t worst = 0;  ///< the collective to which it came latest
  std::int64_t worst_ns = 0;
};

/// The step that issued something; -1: before the first, or no steps.
std::int64_t step_of(const RankOfRun& rank, std::int64_t common_ns) {
  const std::int64_t time = rank.clock.recorded(common_ns);
  const auto after = std::ranges::upper_bound(rank.steps, time, {}, &Step::start_ns);
  return after == rank.steps.begin() ? -1 : std::prev(after)->number;
}

std::vector<Episode> episodes_of(const RunOfRanks& run, std::size_t r) {
  std::map<std::int64_t, Episode> by_step;
  for (std::size_t i = 0; i < run.collectives.size(); ++i) {
    const auto [from, to] = kept_waiting(run.collectives[i], r);
    if (to <= from) continue;
    const std::int64_t step = step_of(run.ranks[r], run.collectives[i].ranks[r].issued_ns);
    Episode& episode = by_step[step];
    episode.step = step;
    episode.late.add(from, to);
    if (to - from > episode.worst_ns) episode.worst = i, episode.worst_ns = to - from;
  }
  std::vector<Episode> out;
  for (auto& [step, episode] : by_step) out.push_back(std::move(episode));
  return out;
}

/// The cause that explains most of the lateness in the worst episodes.
std::string cause_of(std::span<const Trace> traces, const RunOfRanks& run, std::size_t rank,
                     std::vector<Episode> episodes) {
  constexpr std::size_t looked_at = 5;
  std::ranges::stable_sort(episodes, std::ranges::greater{}, &Episode::worst_ns);
  if (episodes.size() > looked_at) episodes.resize(looked_at);
  std::map<std::string, std::vector<double>> causes;
  for (const Episode& episode : episodes)
    if (const LatenessCause cause = cause_of_lateness(traces, run, episode.worst, rank); !cause.what.empty())
      causes[cause.what].push_back(cause.excess.value());
  const auto sum = [](const std::vector<double>& times) { return std::accumulate(times.begin(), times.end(), 0.0); };
  const auto most =
      std::ranges::max_element(causes, [&](const auto& x, const auto& y) { return sum(x.second) < sum(y.second); });
  if (most == causes.end()) return "";
  return text_of(Seconds(median(most->second))) + " longer " + most->first;
}

}  // namespace

void add_times(RunOfRanks& run) {
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    Stretches transfer, waiting, late;
    for (const MatchedCollective& c : run.collectives) {
      const Participation& p = c.ranks[r];
      if (p.event == no_index) continue;
      const auto waited = std::int64_t(c.waiting(r).value() * 1e9 + 0.5);
      waiting.add(p.start_ns, p.start_ns + waited);
      transfer.add(p.start_ns + waited, p.end_ns);
      const auto [from, to] = kept_waiting(c, r);
      late.add(from, to);
      --run.ranks[r].partnerless;
    }
    run.ranks[r].transfer = seconds(transfer.length());
    run.ranks[r].waiting = seconds(waiting.length());
    run.ranks[r].late = seconds(late.length());
  }
}

/// From the first start to the last end of what was matched.
Seconds span_of(const RunOfRanks& run) {
  std::int64_t from = std::numeric_limits<std::int64_t>::max(), to = std::numeric_limits<std::int64_t>::min();
  for (const MatchedCollective& c : run.collectives)
    for (const Participation& p : c.ranks)
      if (p.event != no_index) from = std::min(from, p.start_ns), to = std::max(to, p.end_ns);
  return to > from ? seconds(to - from) : Seconds(0);
}

std::optional<Straggler> straggler_of(std::span<const Trace> traces, const RunOfRanks& run) {
  std::vector<std::size_t> order(run.ranks.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t r) { return run.ranks[r].late; });
  const RankOfRun& first = run.ranks[order.front()];
  if (run.collectives.empty() || first.late < worth_telling_share * span_of(run)) return std::nullopt;
  if (first.late < stands_out * run.ranks[order[1]].late) return std::nullopt;
  Straggler straggler;
  straggler.index = order.front();
  std::vector<double> late;
  std::vector<Episode> told;
  const Seconds threshold = std::max(worth_telling_share * first.step(), 3 * first.clock.residual);
  for (Episode& episode : episodes_of(run, order.front())) {
    const Seconds time = seconds(episode.late.length());
    if (time < threshold) continue;
    late.push_back(time.value());
    if (!first.steps.empty() && episode.step >= 0) straggler.steps.push_back(episode.step);
    told.push_back(std::move(episode));
  }
  if (late.empty()) return std::nullopt;  // never by more than the clocks can tell
  straggler.late = Seconds(median(std::move(late)));
  straggler.cause = cause_of(traces, run, order.front(), std::move(told));
  return straggler;
}

}  // namespace stepcast
