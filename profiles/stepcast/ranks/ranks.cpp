// Ranks: the parts put together, and what they say in words.
#include <stepcast/base/error.hpp>
#include <stepcast/base/statistics.hpp>
#include <stepcast/base/text.hpp>
#include <stepcast/base/words.hpp>
#include <stepcast/ranks/joined.hpp>
#include <stepcast/ranks/straggler.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

namespace stepcast {
namespace {

/// No run is larger; a world size beyond it is damage.
constexpr std::int64_t most_ranks = 1'000'000;

void say_what_is_missing(RunOfRanks& run) {
  for (const RankOfRun& rank : run.ranks) {
    if (run.ranks.size() > 1 && rank.clock.matches == 0 && &rank != &run.ranks[run.reference])
      run.cautions.push_back("rank " + std::to_string(rank.rank) +
                             " shares no collective with the other ranks: its times are as recorded; are these ranks "
                             "of one run?");
  }
  if (run.world_size <= 0) return;
  std::set<std::int64_t> given;
  for (const RankOfRun& rank : run.ranks) given.insert(rank.rank);
  for (std::int64_t n = 0; n < std::min(run.world_size, most_ranks); ++n)
    if (!given.contains(n)) run.missing.push_back(n);
  if (run.missing.empty() || run.ranks.size() == 1) return;
  run.assumed.push_back(std::to_string(run.missing.size()) + " of " + std::to_string(run.world_size) +
                        " ranks were not given: waiting for them counts as transfer");
}

/// The same events at the same times: one file under two names.
bool same_recording(const Trace& a, const Trace& b) {
  return a.rank == b.rank && !a.events.empty() &&
         std::ranges::equal(a.events, b.events, [&](const Event& x, const Event& y) {
           return x.start_ns == y.start_ns && x.duration_ns == y.duration_ns && a.text(x.name) == b.text(y.name);
         });
}

void refuse_the_same_twice(std::span<const Trace> traces) {
  for (std::size_t i = 0; i < traces.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (same_recording(traces[i], traces[j]))
        throw InputError(traces[i].source, "another rank than '" + traces[j].source + "'", "the same recording",
                         "give the file of each rank once");
}

void refuse_different_runs(std::span<const Trace> traces) {
  const Trace* first = nullptr;
  for (const Trace& trace : traces) {
    if (trace.world_size <= 0) continue;
    if (first == nullptr) first = &trace;
    if (trace.world_size != first->world_size)
      throw InputError(trace.source,
                       "another of the " + std::to_string(first->world_size) + " ranks of '" + first->source + "'",
                       "a rank of a run of " + std::to_string(trace.world_size),
                       "give the ranks of one run; different runs are compared by their profiles");
  }
}

/// A rank that more than one trace says it is; -1: none.
std::int64_t disputed_rank(const RunOfRanks& run) {
  std::set<std::int64_t> seen;
  for (const RankOfRun& rank : run.ranks)
    if (rank.written >= 0 && !seen.insert(rank.written).second) return rank.written;
  return -1;
}

/// The rank none of whose steps are those of the reference rank, if both count theirs; null: there is none.
const RankOfRun* of_other_steps(const RunOfRanks& run) {
  std::set<std::int64_t> numbers;
  for (const Step& step : run.ranks[run.reference].steps) numbers.insert(step.number);
  for (const RankOfRun& rank : run.ranks)
    if (!numbers.empty() && !rank.steps.empty() &&
        std::ranges::none_of(rank.steps, [&](const Step& step) { return numbers.contains(step.number); }))
      return &rank;
  return nullptr;
}

/// Clocks may differ by anything, and recordings may begin and end apart. But a recording that lies beside the others
/// by its clock and still does not fit when shifted is of another run: what ends together everywhere ends there apart,
/// or has no partner at all. Empty: nothing speaks against one run.
std::string sign_of_another_run(const RunOfRanks& run, bool on_device) {
  // Ends of one collective coincide within some ten microseconds on devices; threads of a host also wait to run.
  const Seconds together = on_device ? microseconds(100) : milliseconds(5);
  const auto half_alone = [](const RankOfRun& rank) { return 2 * rank.partnerless > rank.collectives; };
  const Seconds span = span_of(run);
  for (const RankOfRun& rank : run.ranks) {
    const Seconds apart(std::abs(double(rank.clock.offset_ns)) * 1e-9);
    if (apart <= span) continue;
    const bool unlike = rank.clock.residual > together;
    if (!unlike && std::ranges::none_of(run.ranks, half_alone)) continue;
    return "rank " + std::to_string(rank.rank) + " was recorded " + text_of(apart) +
           " from the others by its clock, and " +
           (unlike ? "its collectives end " + text_of(rank.clock.residual) + " from theirs even so"
                   : std::string("most collectives have no partner")) +
           ": are these ranks of one run?";
  }
  return "";
}

/// What the reader of a verdict must know of the files that it rests on; empty: nothing.
std::string caveat(const RunOfRanks& run) {
  if (const std::int64_t rank = disputed_rank(run); rank >= 0)
    return "; more than one trace says that it is rank " + std::to_string(rank) + ": are these ranks of one run?";
  if (const RankOfRun* rank = of_other_steps(run))
    return "; rank " + std::to_string(rank->rank) + " shows none of the steps of rank " +
           std::to_string(run.ranks[run.reference].rank) + ": were they recorded at one time?";
  if (!run.cautions.empty()) return "; " + run.cautions.front();
  if (run.missing.empty()) return "";
  return "; only " + std::to_string(run.ranks.size()) + " of " + std::to_string(run.world_size) + " ranks were given";
}

/// "4, 5 and 6", "0 to 29"; of many that do not follow one another the first few: "1, 3, 5, ... and 40 more".
std::string listed(const std::vector<std::int64_t>& numbers) {
  constexpr std::size_t worth_a_range = 4, most_parts = 12;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    if (parts.size() + 1 == most_parts && i + 1 < numbers.size()) {
      parts.push_back(std::to_string(numbers.size() - i) + " more");
      break;
    }
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] - 1 == numbers[end - 1]) ++end;
    const bool range = end - i >= worth_a_range;
    parts.push_back(std::to_string(numbers[i]) + (range ? " to " + std::to_string(numbers[end - 1]) : ""));
    i = range ? end : i + 1;
  }
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

}  // namespace

Seconds RankOfRun::step() const {
  for (const bool all : {false, true}) {
    std::vector<double> times;
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (durations[i] > Seconds(0) && (all || !steps[i].distorted)) times.push_back(durations[i].value());
    if (!times.empty()) return Seconds(median(std::move(times)));
  }
  return Seconds(0);
}

bool MatchedCollective::is_message() const {
  return !synchronising && (operation == "send" || operation == "recv" || operation == "sendrecv");
}

Seconds MatchedCollective::waiting(std::size_t rank) const {
  const Participation& p = ranks[rank];
  return p.event == no_index ? Seconds(0)
                             : std::max(Seconds(0), Seconds(double(p.end_ns - p.start_ns) * 1e-9) - transfer);
}

std::string RunOfRanks::verdict() const {
  if (ranks.size() < 2) return "";
  if (collectives.empty()) return "the ranks share no collective: nothing tells who waits for whom";
  const std::string but = caveat(*this);
  if (std::ranges::all_of(collectives, &MatchedCollective::is_message))
    return "the ranks send one another messages and meet in nothing else: who waits for one waits for the work before "
           "it, and no rank is late" +
           but;
  if (straggler) {
    const RankOfRun& rank = ranks[straggler->index];
    std::string text = "rank " + std::to_string(rank.rank) + " is late by " + text_of(straggler->late);
    if (const std::size_t late = straggler->steps.size(), traced = rank.steps.size(); late == traced && late > 0)
      text += " in all " + counted(std::int64_t(traced), "traced step");
    else if (late > 0)
      text += " in " + std::to_string(late) + " of " + counted(std::int64_t(traced), "traced step") + " (" +
              listed(straggler->steps) + ")";
    return text + (straggler->cause.empty() ? "; nothing in its trace tells why" : ": " + straggler->cause) + but;
  }
  std::vector<const RankOfRun*> order;
  for (const RankOfRun& rank : ranks) order.push_back(&rank);
  std::ranges::stable_sort(order, std::ranges::greater{}, &RankOfRun::late);
  const auto share = [&](const RankOfRun* rank) {
    return "rank " + std::to_string(rank->rank) + " for " + percent(rank->late / span_of(*this)) + " of the time";
  };
  if (order[0]->late < worth_telling_share * span_of(*this))
    return "the ranks keep pace: late at most " + share(order[0]) + but;
  return "no single straggler: late are " + share(order[0]) + ", " + share(order[1]) + but;
}

std::vector<Seconds> RunOfRanks::step_times() const {
  const bool meet = std::ranges::all_of(ranks, [](const RankOfRun& r) { return r.partnerless < r.collectives; });
  if (ranks.size() < 2 || !meet) return {};
  std::size_t most = 0;
  for (const RankOfRun& rank : ranks) most = std::max(most, rank.measured.size());
  std::vector<std::tuple<double, std::int64_t, const RankOfRun*>> order;
  const bool scatter = most > 2;  // what fewer scatter by is an accident
  for (const RankOfRun& rank : ranks) {
    if (rank.measured.size() < most) continue;
    std::vector<double> values;
    for (const Seconds t : rank.measured) values.push_back(t.value());
    const double middle = median(values);
    order.emplace_back(scatter ? (quantile(values, 0.75) - quantile(values, 0.25)) / middle : middle, rank.rank, &rank);
  }
  std::ranges::sort(order, {}, [](const auto& of) { return std::pair(std::get<0>(of), std::get<1>(of)); });
  return std::get<2>(order[scatter ? 0 : order.size() / 2])->measured;
}

std::unordered_map<std::uint32_t, Seconds> RunOfRanks::waiting_of(std::size_t rank) const {
  std::unordered_map<std::uint32_t, Seconds> out;
  for (const MatchedCollective& c : collectives)
    if (c.ranks[rank].event != no_index) out.emplace(c.ranks[rank].event, c.waiting(rank));
  return out;
}

std::vector<TracedRank> figures_of(const RunOfRanks& run) {
  std::vector<TracedRank> out;
  std::vector<double> together;
  for (const Seconds t : run.step_times()) together.push_back(t.value());
  for (const RankOfRun& r : run.ranks) {
    const auto steps = double(std::max<std::size_t>(1, r.steps.size()));
    out.push_back({r.rank, r.source, together.empty() ? r.step() : Seconds(median(together)), r.transfer / steps,
                   r.waiting / steps, r.late / steps, Seconds(double(r.clock.offset_ns) * 1e-9), r.clock.residual});
  }
  return out;
}

RunOfRanks run_of(std::span<const Trace> traces) {
  if (traces.empty()) throw InputError("", "at least one trace", "none");
  refuse_different_runs(traces);
  refuse_the_same_twice(traces);
  RunOfRanks run;
  std::vector<ShownRank> ranks = shown_ranks(traces, run.assumed);
  JoinedRanks match = joined(ranks, true);
  std::size_t all = 0;
  for (const ShownRank& r : ranks) all += r.collectives.size();
  if (ranks.size() > 1 && 2 * match.partners() < all) {
    JoinedRanks by_order = joined(std::move(ranks), false);
    if (by_order.partners() > match.partners()) {
      match = std::move(by_order);
      run.assumed.push_back(
          "sequence numbers or sizes of collectives do not agree between ranks: matched by operation and order");
    }
  }
  run.reference = match.reference;
  run.collectives = std::move(match.collectives);
  for (ShownRank& r : match.ranks) {
    run.world_size = std::max(run.world_size, r.world_size);
    run.ranks.push_back(std::move(r.rank));
    run.ranks.back().partnerless = run.ranks.back().collectives;
  }
  add_times(run);
  say_what_is_missing(run);
  if (run.ranks.size() > 1) run.straggler = straggler_of(traces, run);
  const auto runs_on_device = [&](const MatchedCollective& c) {
    const std::uint32_t event = c.ranks[run.reference].event;
    return event != no_index && is_device_work(traces[run.reference].events[event].kind);
  };
  if (std::string sign = sign_of_another_run(run, std::ranges::any_of(run.collectives, runs_on_device)); !sign.empty())
    run.cautions.push_back(std::move(sign));
  return run;
}

}  // namespace stepcast
