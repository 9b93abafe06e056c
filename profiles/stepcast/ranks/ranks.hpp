#pragma once
// Room ranks: the traces of one run on one clock: who is late, and why.
//
//   rank 0   ---compute---|= all-reduce =|      waits for rank 1 during the first half of it
//   rank 1   -------compute------|= a-r =|      the straggler
//
// It may include base, profile, trace and anatomy.
//
// Ranks: the traces of one run read together, on one clock.
//
// Ranks meet in collectives. One that makes every rank wait for all others (all-reduce, all-gather, all-to-all, ...)
// ends at about the same time everywhere, so matching ends give the offset between two clocks, and the clocks tell
// which other events belong together (matching.hpp). On the common clock a collective's time splits into the
// *transfer*, which takes as long as it takes the rank that came last (the least duration of all), and *waiting* for
// that rank. The straggler is the rank for which the others wait; what held it up is looked for in its trace
// (straggler_cause.hpp). Not modelled: ranks that nobody gave (a transfer is then an upper bound: all may have waited
// for one of them), and the hops of a broadcast, which leave its ranks at different times.
#include <stepcast/base/units.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/trace/steps.hpp>
#include <stepcast/trace/trace.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace stepcast {

/// How to read one rank's times on the common clock, which is that of the reference rank.
struct RankClock {
  std::int64_t offset_ns = 0;  ///< the rank's clock is ahead by this much at `origin_ns`
  double drift = 0;            ///< and by this much more with every second
  std::int64_t origin_ns = 0;
  Seconds residual;         ///< median distance of matching ends after the correction
  std::size_t matches = 0;  ///< collectives that it rests on; 0: nothing in common, times are as recorded

  [[nodiscard]] std::int64_t common(std::int64_t recorded_ns) const {
    return recorded_ns - offset_ns - std::int64_t(drift * double(recorded_ns - origin_ns));
  }
  /// The inverse of `common`, to the nanosecond or two.
  [[nodiscard]] std::int64_t recorded(std::int64_t common_ns) const {
    const std::int64_t since = common_ns + offset_ns - origin_ns;
    return origin_ns + since + std::int64_t(drift / (1 - drift) * double(since));
  }
};

struct RankOfRun {
  std::int64_t rank = -1;
  std::int64_t written = -1;  ///< what the trace itself says; -1: nothing
  std::string source;
  RankClock clock;
  std::vector<Step> steps;         ///< on the rank's own clock
  std::vector<Seconds> durations;  ///< one for each of `steps` (step_durations)
  std::vector<Seconds> measured;   ///< those of `durations` whose median is the step time (StepTimes)
  std::size_t collectives = 0;     ///< how many the trace shows
  std::size_t partnerless = 0;     ///< how many of them no other rank shows
  // Over the whole trace; of collectives that run at the same time each moment counts once.
  Seconds transfer, waiting;
  Seconds late;  ///< time by which it came to collectives, other than messages, after the median rank

  [[nodiscard]] Seconds step() const;  ///< median of the undistorted steps, else of all; 0: none
};

/// What one rank did in a matched collective, on the common clock.
struct Participation {
  std::uint32_t event = no_index;  ///< index into the trace's events; `no_index`: not seen on this rank
  std::int64_t issued_ns = 0;      ///< when the host launched it; without a launch its start
  std::int64_t start_ns = 0, end_ns = 0;
};

/// A collective that at least two of the ranks show.
struct MatchedCollective {
  std::string operation;  ///< "allreduce", "sendrecv", ...
  std::string group;      ///< process group; empty: the trace does not say
  std::int64_t sequence = -1;
  Bytes size;
  std::vector<Participation> ranks;  ///< one for each of RunOfRanks::ranks
  Seconds transfer;                  ///< least duration of all ranks
  std::uint32_t last = 0;            ///< who came last: index into RunOfRanks::ranks
  std::int64_t usual_start_ns = 0;   ///< start of the (lower) median rank
  bool synchronising = true;         ///< nobody can leave before everybody came

  /// From one rank to another, as between the stages of a pipeline, where waiting belongs to the order of work. An
  /// exchange whose peers nobody knows may be an all-to-all, and is none.
  [[nodiscard]] bool is_message() const;
  /// Duration less transfer; 0 for a rank that was not seen.
  [[nodiscard]] Seconds waiting(std::size_t rank) const;
};

/// A rank for which the others wait.
struct Straggler {
  std::size_t index = 0;            ///< into RunOfRanks::ranks
  Seconds late;                     ///< median over the steps in which it was late; without steps: in all
  std::vector<std::int64_t> steps;  ///< their numbers; empty without steps
  std::string cause;                ///< in words; empty: nothing in the trace tells
};

struct RunOfRanks {
  std::vector<RankOfRun> ranks;                ///< in the order given
  std::size_t reference = 0;                   ///< whose clock is the common one
  std::vector<MatchedCollective> collectives;  ///< in order of their ends
  std::optional<Straggler> straggler;          ///< none: nobody is late to speak of
  std::int64_t world_size = -1;
  std::vector<std::int64_t> missing;  ///< ranks below `world_size` that were not given
  std::vector<std::string> assumed;   ///< what could not be told from the traces, in words
  std::vector<std::string> cautions;  ///< why these may not be ranks of one run

  /// "rank 2 is late in 3 of 3 steps, by 1.005 s: ..."; or that the ranks keep pace. For one rank alone: empty.
  [[nodiscard]] std::string verdict() const;
  /// The measured steps of the run: ranks that meet in collectives keep one pace, and the rank whose steps scatter
  /// least (of those that show most) tells it best; where none shows three, the median rank. Empty where they do not
  /// meet.
  [[nodiscard]] std::vector<Seconds> step_times() const;
  /// Waiting of one rank in each of its collectives that have a partner, by event.
  [[nodiscard]] std::unordered_map<std::uint32_t, Seconds> waiting_of(std::size_t rank) const;
};

/// The figures of each rank, per step of its trace (the whole trace, where it has no steps).
[[nodiscard]] std::vector<TracedRank> figures_of(const RunOfRanks&);

/// Throws InputError for no trace at all, for one recording twice, and for ranks of runs that differ in world size. One
/// trace alone gives a run without matches.
[[nodiscard]] RunOfRanks run_of(std::span<const Trace>);

}  // namespace stepcast
