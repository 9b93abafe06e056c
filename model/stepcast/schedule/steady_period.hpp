#pragma once
// Steady period: the period of `schedule`, to the picosecond, without its timeline (internal to the library).
//
// Where nothing disturbs anything else, a task that does not queue has a known end as soon as the last of its
// predecessors has one, even if that lies in the future. Only the queues have to be followed in time: the one whose
// next event is the earliest acts next, because whatever is not known yet waits for a queued task, which ends later
// than that. So a task is touched once, no clock visits it, and no heap holds it, unlike in the event-driven scheduler,
// against which tests check it. Iterations are worked off a little at a time, as far as the queues have come, until the
// steady state is recognised by the same rule. That asks for one iteration more than there may be need of: where the
// queues are empty in between, and all that the next one waits for in earlier ones comes a period later than for the
// last one, it is the last one, a period later. And only the first iteration has to be followed through the queues as
// long as all that later ones ask of them comes one time later, and the queues are empty in between: then they do again
// what they did, whatever their discipline. Not covered (`covers`): contention, and queued tasks that take no time,
// whose order among themselves only the event-driven scheduler defines; lags of more than a few iterations. Where no
// steady state is found the event-driven scheduler is asked for its mean.
#include <stepcast/schedule/schedule.hpp>

#include <array>
#include <cstdint>
#include <vector>

namespace stepcast {

/// Buffers are used again; the result depends on the graph alone.
class SteadyPeriod {
 public:
  [[nodiscard]] static bool covers(const TaskGraph&);
  /// Timeline::period of `schedule(graph)`. Requires covers(graph) and that the graph has no flaw.
  [[nodiscard]] Picoseconds operator()(const TaskGraph&);

 private:
  /// A task of an iteration (its row) as one number; sorts by both.
  using Number = std::uint32_t;
  static constexpr std::uint32_t task_bits = 26;  // at most; the rest is for the 64 rows
  [[nodiscard]] std::uint32_t row_of(Number i) const { return i >> bits_; }
  [[nodiscard]] std::uint32_t task_of(Number i) const { return i & ((1u << bits_) - 1); }

  static constexpr std::uint32_t none = Timeline::no_instance;
  static constexpr Picoseconds never = INT64_MAX;
  static constexpr std::uint32_t most_lag = 4;

  /// What a queue sorts by: smallest time first, then smallest rank.
  struct Claim {
    Picoseconds time = 0;
    std::uint64_t rank = 0;  ///< priority, then number of the instance
    friend bool operator<(const Claim& a, const Claim& b) {
      return a.time != b.time ? a.time < b.time : a.rank < b.rank;
    }
  };
  /// Claims by time. They mostly come in order; those that do not go to a heap of their own.
  class Claims {
   public:
    void clear();
    void add(const Claim&);
    [[nodiscard]] bool empty() const { return next_ == end_ && late_.empty(); }
    [[nodiscard]] const Claim& first() const { return late_is_first() ? late_.front() : in_order_[next_]; }
    void pop();

   private:
    [[nodiscard]] bool late_is_first() const {
      return !late_.empty() && (next_ == end_ || late_.front() < in_order_[next_]);
    }
    std::vector<Claim> in_order_, late_;
    std::size_t next_ = 0, end_ = 0;  // of in_order_
  };
  struct Queue {
    Discipline discipline = Discipline::fifo;
    std::int64_t credit = 0, credit_left = 0;
    Picoseconds free = 0;  ///< end of what it serves, or served last
    Claims claims;
    std::vector<std::uint64_t> urgent;  ///< priority: heap of the ranks of what is ready by now
    std::vector<Number> issued;         ///< under a credit: instances in order of issue, from `served`
    std::size_t served = 0;
    Number serving = none;             ///< under a credit: the instance that is served
    std::vector<std::uint64_t> order;  ///< in_order: ranks of an iteration's tasks, in their order
    std::size_t position = 0;          ///< in_order: how many of an iteration have been served
    std::uint32_t row = 0;             ///< in_order: of which iteration
    /// Of the iterations before the one with number `most_lag_`, and of those from there on: when something of them
    /// could be served first, and when they were served last.
    std::array<Picoseconds, 2> begin{}, end{};
  };
  /// What of a task is asked for in every iteration.
  struct Brief {
    Picoseconds work = 0;
    std::uint32_t queue = none;         ///< its number; none for a resource that does not queue
    std::uint32_t biased_priority = 0;  ///< orders as the priority does, without a sign
    std::uint32_t first_follower = 0, last_follower = 0;
  };
  /// An instance that waits for another one.
  struct Follower {
    std::uint32_t ahead = 0;  ///< by how much its number is the larger one, modulo 2^32
    std::uint32_t lag = 0;
  };
  /// A wait for an earlier iteration.
  struct Lagged {
    std::uint32_t task = 0, source = 0, lag = 0;
  };

  void prepare(const TaskGraph&);
  void prepare_tasks();
  void prepare_queues();
  void add_row();
  void end_at(Number, Picoseconds end);
  void make_ready(Number, Picoseconds time);
  void follow(Number);
  void join(std::uint32_t queue, Number, std::uint32_t biased_priority, Picoseconds time);
  void follow_ends();
  void release(std::uint32_t row);
  [[nodiscard]] std::uint32_t row_held_until(Picoseconds time) const;
  [[nodiscard]] Picoseconds next_event(const Queue&) const;
  void act(Queue&, Picoseconds now);
  void act_under_credit(Queue&, Picoseconds now);
  void serve(Queue&, Number, Picoseconds start);
  [[nodiscard]] bool look_for_steady_state();
  [[nodiscard]] bool recurs_after(std::uint32_t row, std::uint32_t k, Picoseconds shift) const;
  [[nodiscard]] bool goes_on();
  [[nodiscard]] bool continues(Picoseconds shift) const;
  [[nodiscard]] bool repeats_the_first();
  [[nodiscard]] bool repeat_the_first();
  [[nodiscard]] bool comes_later(const Lagged&, Picoseconds shift) const;
  [[nodiscard]] Picoseconds end_of(std::uint32_t row, std::uint32_t task, Picoseconds shift) const;
  [[nodiscard]] Picoseconds marker_end(std::uint32_t row) const;
  [[nodiscard]] const Picoseconds* row_at(std::uint32_t row) const {
    return times_.data() + (std::size_t{row} << bits_);
  }

  const TaskGraph* graph_ = nullptr;
  std::uint32_t n_ = 0, bits_ = 0, rows_ = 0, most_lag_ = 0, complete_ = 0, released_ = 0;
  Picoseconds period_ = 0;
  std::vector<Brief> briefs_;        // by task
  std::vector<Follower> followers_;  // as the arcs of the graph
  std::vector<Lagged> lagged_;
  std::vector<std::uint32_t> waits_;  // [min(row, most_lag)][task]: how many it waits for before anything is known
  // Of each instance by number: when its predecessors have ended as far as is known, and once it is known, when it ends
  // itself; and the number of predecessors whose end is not known.
  std::vector<Picoseconds> times_;
  std::vector<std::uint32_t> pending_;
  // Of the first iteration: its tasks, each after what it waits for, and when those that queue could be served first.
  std::vector<std::uint32_t> order_;
  std::vector<Picoseconds> ready_;
  std::vector<Picoseconds> repeated_;      // times_, if the queues do again what they did in the first iteration
  std::vector<std::uint32_t> unfinished_;  // [row]
  bool row_finished_ = false;              // since somebody asked
  std::vector<Number> ended_;              // instances whose end is known and whose successors do not know it
  std::size_t all_ended_ = 0;              // how many these are
  struct Held {
    std::vector<Number> instances;  ///< would run, but their iteration is not due
    Picoseconds first_start = never;
  };
  std::vector<Held> held_;               // [row]
  Picoseconds first_held_ = never;       // the first start of all that are held
  std::vector<Queue> queues_;            // those resources that queue
  std::vector<Picoseconds> events_;      // of each queue: when it can do something next, as far as is known
  std::vector<std::uint32_t> queue_of_;  // [resource]
};

}  // namespace stepcast
