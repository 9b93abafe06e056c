// Straggler cause: host timelines and kernel sums of two ranks over the same stretch; see straggler_cause.hpp.
#include <stepcast/ranks/straggler_cause.hpp>
#include <stepcast/trace/event_names.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

/// A share of the lateness below which something is no explanation of it.
constexpr double telling_share = 0.3;

/// The same stretch of the program on two ranks, on their own clocks.
struct Stretch {
  std::int64_t from_ns = 0, to_ns = 0;
};

/// Time by what the host or the device was at, and a place for it in words.
struct Activity {
  std::int64_t time_ns = 0;
  std::int64_t longest_ns = 0, longest_at_ns = 0;
};
using Activities = std::map<std::string, Activity>;
constexpr std::string_view host_prefix = "in ", gap_prefix = "without a host event ",
                           device_prefix = "on the device in ";

bool is_host_work(const Trace& trace, const Event& e) {
  if (trace.tracks[e.track].on_device) return false;
  return e.kind == EventKind::host_op || e.kind == EventKind::runtime_call;
}

/// Collectives as the backend's own threads see them, and the polling of its watchdog: that is where a rank waits, not
/// what makes it late.
bool is_transport(std::string_view name) {
  return name.starts_with("gloo:") || name.starts_with("nccl:") || name.ends_with("EventQuery");
}

std::vector<std::uint32_t> overlapping(const Trace& trace, const Stretch& stretch,
                                       bool (*wanted)(const Trace&, const Event&)) {
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = 0; i < trace.events.size() && trace.events[i].start_ns < stretch.to_ns; ++i)
    if (trace.events[i].end_ns() > stretch.from_ns && wanted(trace, trace.events[i])) found.push_back(i);
  return found;
}

/// Adds up the host's time in the stretch: each moment belongs to the event that began last, else to a gap.
class HostTimeline {
 public:
  HostTimeline(const Trace& trace, const Stretch& stretch)
      : trace_(trace), at_ns_(stretch.from_ns), until_ns_(stretch.to_ns) {
    const auto wanted = [](const Trace& t, const Event& e) {
      return is_host_work(t, e) && !is_transport(t.text(e.name));
    };
    const auto close_until = [&](std::int64_t time) {
      for (; !ends_.empty() && ends_.begin()->first <= time; ends_.erase(ends_.begin())) {
        advance(ends_.begin()->first, "");
        last_ = ends_.begin()->second;
        active_.erase(last_);
      }
    };
    for (const std::uint32_t i : overlapping(trace, stretch, wanted)) {
      const Event& e = trace.events[i];
      close_until(e.start_ns);
      advance(std::max(e.start_ns, stretch.from_ns), trace.text(e.name));
      active_.insert(i);
      ends_.emplace(e.end_ns(), i);
    }
    close_until(stretch.to_ns);
    advance(stretch.to_ns, "the collective");
  }
  [[nodiscard]] Activities take() { return std::move(sums_); }

 private:
  void advance(std::int64_t to_ns, std::string_view next) {
    to_ns = std::min(to_ns, until_ns_);
    if (to_ns <= at_ns_) return;
    const auto name_of = [&](std::uint32_t i) { return std::string(trace_.text(trace_.events[i].name)); };
    std::string name;
    // Events are sorted by start: the one with the largest number began last.
    if (!active_.empty()) name = std::string(host_prefix) + name_of(*active_.rbegin());
    else
      name = std::string(gap_prefix) + (last_ == no_index ? "" : "after " + name_of(last_) + ", ") + "before " +
             std::string(next);
    Activity& sum = sums_[name];
    sum.time_ns += to_ns - at_ns_;
    if (to_ns - at_ns_ > sum.longest_ns) sum.longest_ns = to_ns - at_ns_, sum.longest_at_ns = at_ns_;
    at_ns_ = to_ns;
  }

  const Trace& trace_;
  std::int64_t at_ns_, until_ns_;
  std::set<std::uint32_t> active_;
  std::set<std::pair<std::int64_t, std::uint32_t>> ends_;  ///< of the active events
  std::uint32_t last_ = no_index;
  Activities sums_;
};

Activities device_sums(const Trace& trace, const Stretch& stretch) {
  Activities sums;
  const std::vector<naming::NameFacts> facts = naming::facts_of_names(trace);
  const auto wanted = [](const Trace&, const Event& e) { return is_device_work(e.kind) && e.collective == no_index; };
  for (const std::uint32_t i : overlapping(trace, stretch, wanted)) {
    const Event& e = trace.events[i];
    if (e.kind == EventKind::kernel && facts[e.name].work == KernelClass::collective) continue;
    sums[std::string(device_prefix) + std::string(trace.text(e.name))].time_ns +=
        std::min(e.end_ns(), stretch.to_ns) - std::max(e.start_ns, stretch.from_ns);
  }
  return sums;
}

/// What took longest in `late` beyond its time in `punctual`.
std::pair<const Activities::value_type*, std::int64_t> largest_excess(const Activities& late,
                                                                      const Activities& punctual) {
  std::pair<const Activities::value_type*, std::int64_t> best{nullptr, 0};
  for (const auto& entry : late) {
    const auto other = punctual.find(entry.first);
    const std::int64_t excess = entry.second.time_ns - (other == punctual.end() ? 0 : other->second.time_ns);
    if (excess > best.second) best = {&entry, excess};
  }
  return best;
}

/// Excess of all that begins with `prefix` together.
std::int64_t excess_of(std::string_view prefix, const Activities& late, const Activities& punctual) {
  std::int64_t sum = 0;
  for (const auto& [name, activity] : late) sum += name.starts_with(prefix) ? activity.time_ns : 0;
  for (const auto& [name, activity] : punctual) sum -= name.starts_with(prefix) ? activity.time_ns : 0;
  return sum;
}

/// The innermost annotation around a moment, the step itself apart.
std::string annotation_at(const Trace& trace, std::int64_t time_ns) {
  std::string name;
  for (const Event& e : trace.events) {
    if (e.start_ns > time_ns) break;
    const bool around = e.kind == EventKind::annotation && e.end_ns() > time_ns && !trace.tracks[e.track].on_device;
    if (around && !trace.text(e.name).starts_with("ProfilerStep") && !is_transport(trace.text(e.name)))
      name = trace.text(e.name);
  }
  return name;
}

/// The rank whose start is the usual one.
std::size_t punctual_rank(const MatchedCollective& c) {
  const std::int64_t usual = c.usual_start_ns;
  for (std::size_t r = 0; r < c.ranks.size(); ++r)
    if (c.ranks[r].event != no_index && c.ranks[r].start_ns == usual) return r;
  return c.last;
}

/// What explains more than this share of the lateness explains it.
constexpr double most = 0.7;

/// A collective before `c` since which the host of the late rank took longer by most of its lateness, but none that it
/// issued before `not_before_ns`: then `c` itself. Without such a bound else the one since which it took longest of
/// those looked at.
std::size_t stretch_begin(const RunOfRanks& run, std::size_t c, std::size_t late, std::size_t punctual,
                          std::int64_t lateness_ns, std::optional<std::int64_t> not_before_ns) {
  constexpr std::size_t looked_at = 64;
  const auto issued = [&](std::size_t k, std::size_t r) { return run.collectives[k].ranks[r].issued_ns; };
  std::size_t best = c;
  std::int64_t largest = 0;
  for (std::size_t k = c, seen = 0; k-- > 0 && seen < looked_at;) {
    const MatchedCollective& before = run.collectives[k];
    if (before.ranks[late].event == no_index || before.ranks[punctual].event == no_index) continue;
    if (issued(k, late) >= issued(c, late) || issued(k, punctual) >= issued(c, punctual)) continue;
    if (not_before_ns && issued(k, late) < *not_before_ns) continue;
    ++seen;
    const std::int64_t excess = (issued(c, late) - issued(k, late)) - (issued(c, punctual) - issued(k, punctual));
    if (excess > largest) best = k, largest = excess;
    if (double(excess) > most * double(lateness_ns)) return k;
  }
  return not_before_ns ? c : best;
}

/// The step in which a rank issued something; null: none has begun.
const Step* step_of(const RankOfRun& rank, const Participation& p) {
  const auto after = std::ranges::upper_bound(rank.steps, rank.clock.recorded(p.issued_ns), {}, &Step::start_ns);
  return after == rank.steps.begin() ? nullptr : &*std::prev(after);
}

/// The steps in which two ranks issued a collective, if most of the lateness arose since they began: what they do in
/// other steps, where as much may be lost again, does not count then.
struct SameStep {
  const Step *late = nullptr, *punctual = nullptr;
};
std::optional<SameStep> telling_step(const RunOfRanks& run, const MatchedCollective& c, std::size_t late,
                                     std::size_t punctual, std::int64_t lateness_ns) {
  const SameStep step{step_of(run.ranks[late], c.ranks[late]), step_of(run.ranks[punctual], c.ranks[punctual])};
  if (step.late == nullptr || step.punctual == nullptr || step.late->number != step.punctual->number)
    return std::nullopt;
  const auto since = [&](std::size_t r, const Step& s) {
    return run.ranks[r].clock.recorded(c.ranks[r].issued_ns) - s.start_ns;
  };
  const std::int64_t excess = since(late, *step.late) - since(punctual, *step.punctual);
  return double(excess) > most * double(lateness_ns) ? std::optional(step) : std::nullopt;
}

/// The last collective that both ranks had left before they came to `c`; `c` itself: there is none. They left it
/// together: what the device of one did longer lies behind it.
std::size_t left_before(const RunOfRanks& run, std::size_t c, std::size_t late, std::size_t punctual) {
  const auto left = [&](std::size_t k, std::size_t r) {
    const Participation& p = run.collectives[k].ranks[r];
    return p.event != no_index && p.end_ns <= run.collectives[c].ranks[r].start_ns;
  };
  for (std::size_t k = c; k-- > 0;)
    if (run.collectives[k].synchronising && left(k, late) && left(k, punctual)) return k;
  return c;
}

}  // namespace

LatenessCause cause_of_lateness(std::span<const Trace> traces, const RunOfRanks& run, std::size_t collective,
                                std::size_t rank) {
  const MatchedCollective& c = run.collectives[collective];
  const std::size_t punctual = punctual_rank(c);
  const std::int64_t lateness = c.ranks[rank].start_ns - c.ranks[punctual].start_ns;
  if (punctual == rank || lateness <= 0) return {};
  const auto telling = [&](std::int64_t excess) { return double(excess) > telling_share * double(lateness); };
  const auto cause = [](std::string what, std::int64_t excess) {
    return LatenessCause{std::move(what), Seconds(double(excess) * 1e-9)};
  };
  const std::optional<SameStep> step = telling_step(run, c, rank, punctual, lateness);
  std::optional<std::int64_t> step_began_ns;
  if (step) step_began_ns = run.ranks[rank].clock.common(step->late->start_ns);
  const std::size_t begin = stretch_begin(run, collective, rank, punctual, lateness, step_began_ns);
  // From a collective before, or from the start of the step, to this one, by launches or by what the device saw.
  const auto stretch = [&](std::size_t r, std::size_t before, std::int64_t Participation::*from,
                           std::int64_t Participation::*to) {
    const RankClock& clock = run.ranks[r].clock;
    std::int64_t first = traces[r].events.front().start_ns;
    if (before != collective) first = clock.recorded(run.collectives[before].ranks[r].*from);
    else if (step) first = (r == rank ? step->late : step->punctual)->start_ns;
    return Stretch{first, clock.recorded(c.ranks[r].*to)};
  };
  const auto host_of = [&](std::size_t r) {
    return HostTimeline(traces[r], stretch(r, begin, &Participation::issued_ns, &Participation::issued_ns)).take();
  };
  const Activities late_host = host_of(rank), usual_host = host_of(punctual);
  const auto [host, host_excess] = largest_excess(late_host, usual_host);
  const bool waits = host != nullptr && host->first.find("Synchronize") != std::string::npos;
  if (host != nullptr && telling(host_excess) && !waits) {
    const std::string around = annotation_at(traces[rank], host->second.longest_at_ns + host->second.longest_ns / 2);
    return cause(host->first + (around.empty() ? "" : ", within '" + around + "'"), host_excess);
  }
  const std::size_t left = left_before(run, collective, rank, punctual);
  const auto device_of = [&](std::size_t r) {
    return device_sums(traces[r], stretch(r, left, &Participation::end_ns, &Participation::start_ns));
  };
  const Activities late_device = device_of(rank), usual_device = device_of(punctual);
  const auto [kernel, kernel_excess] = largest_excess(late_device, usual_device);
  if (kernel != nullptr && telling(kernel_excess)) return cause(kernel->first, kernel_excess);
  const std::pair<std::string_view, std::string_view> wholes[] = {{host_prefix, "on the host, no operator alone"},
                                                                  {gap_prefix, "between host events, no gap alone"},
                                                                  {device_prefix, "on the device, no kernel alone"}};
  for (const auto& [prefix, words] : wholes) {
    const bool device = prefix == device_prefix;
    const std::int64_t excess =
        device ? excess_of(prefix, late_device, usual_device) : excess_of(prefix, late_host, usual_host);
    if (telling(excess)) return cause(std::string(words), excess);
  }
  return {};
}

}  // namespace stepcast
