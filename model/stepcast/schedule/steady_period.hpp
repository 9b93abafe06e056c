#pragma once
// Steady period: the period of `schedule`, to the picosecond, without its timeline (internal to the library).
//
// Where nothing disturbs anything else, a task that does not queue has a known end as soon as the last of its
// predecessors has one, even if that lies in the future. Only the queues have to be followed in time: the one whose
// next event is the earliest acts next, because whatever is not known yet waits for a queued task, which ends later
// than that. So a task is touched once, no clock visits it, and no heap holds it, unlike in the event-driven scheduler,
// against which tests check it. Iterations are worked off a little at a time, as far as the queues have come, until the
// steady state is recognised by the same rule. Not covered (`covers`): contention, and queued tasks that take no time,
// whose order among themselves only the event-driven scheduler defines; lags of more than a few iterations. Where no
// steady state is found the event-driven scheduler is asked for its mean.
#include <stepcast/schedule/schedule.hpp>

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
  static constexpr std::uint32_t task_bits = 26;  // the rest is for the 64 rows
  static constexpr Number number_of(std::uint32_t row, std::uint32_t task) { return row << task_bits | task; }
  static constexpr std::uint32_t row_of(Number i) { return i >> task_bits; }
  static constexpr std::uint32_t task_of(Number i) { return i & ((1u << task_bits) - 1); }

  static constexpr std::uint32_t none = Timeline::no_instance;
  static constexpr Picoseconds never = INT64_MAX;

  /// One task of one iteration: when its predecessors have ended as far as is known; then, when it ends itself.
  struct Instance {
    Picoseconds time = 0;
    std::uint32_t pending = 0;  ///< predecessors whose end is not known
  };
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
    [[nodiscard]] bool empty() const { return next_ == in_order_.size() && late_.empty(); }
    [[nodiscard]] const Claim& first() const;
    void pop();

   private:
    [[nodiscard]] bool late_is_first() const;
    std::vector<Claim> in_order_, late_;
    std::size_t next_ = 0;
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
    std::size_t position = 0;          ///< in_order: how many have been served, over all iterations
    Picoseconds event = never;         ///< next_event, unless that is `stale`
    bool stale = true;                 ///< it has acted, or one of its tasks became ready, since `event` was found
  };
  /// What of a task is asked for in every iteration.
  struct Brief {
    Picoseconds work = 0;
    std::uint32_t queue = none;         ///< its number; none for a resource that does not queue
    std::uint32_t biased_priority = 0;  ///< orders as the priority does, without a sign
  };

  void prepare(const TaskGraph&);
  void prepare_queues();
  void add_row();
  [[nodiscard]] Instance& at(Number i) { return instances_[std::size_t{row_of(i)} * n_ + task_of(i)]; }
  void end_at(Number, Picoseconds end);
  void make_ready(Number, Picoseconds time);
  void follow_ends();
  void release(std::uint32_t row);
  [[nodiscard]] std::uint32_t row_held_until(Picoseconds time) const;
  [[nodiscard]] Picoseconds next_event(const Queue&) const;
  void act(Queue&, Picoseconds now);
  void act_under_credit(Queue&, Picoseconds now);
  void serve(Queue&, Number, Picoseconds start);
  [[nodiscard]] bool look_for_steady_state();
  [[nodiscard]] bool recurs_after(std::uint32_t row, std::uint32_t k, Picoseconds shift) const;
  [[nodiscard]] Picoseconds marker_end(std::uint32_t row) const;

  const TaskGraph* graph_ = nullptr;
  std::uint32_t n_ = 0, rows_ = 0, most_lag_ = 0, complete_ = 0, released_ = 0;
  Picoseconds period_ = 0;
  std::vector<Brief> briefs_;        // by task
  std::vector<Instance> fresh_;      // [min(row, most_lag)][task]: an instance before anything is known
  std::vector<Instance> instances_;  // [row][task]
  std::vector<std::uint32_t> unfinished_;
  std::vector<Number> ended_;  // instances whose end is known and whose successors do not know it
  struct Held {
    std::vector<Number> instances;  ///< would run, but their iteration is not due
    Picoseconds first_start = never;
  };
  std::vector<Held> held_;               // [row]
  std::vector<Queue> queues_;            // those resources that queue
  std::vector<std::uint32_t> queue_of_;  // [resource]
};

}  // namespace stepcast
