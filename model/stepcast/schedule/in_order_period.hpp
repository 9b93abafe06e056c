#pragma once
// In-order period: the period of `schedule` where every queue serves in an order that is known beforehand (internal to
// the library).
//
// Most plans send their messages in the order in which they are numbered. Then a queue is one more chain, and all tasks
// of an iteration can be worked off in one fixed order, each by the ends of what it waits for: no queue, no counting of
// predecessors. The order is found once for a structure, and only durations change from plan to plan. A channel that
// serves whoever comes first is taken to be in order, too, and what comes out is checked: where somebody would have
// come earlier there is no answer, and SteadyPeriod has to be asked. The last iteration that the rule for a steady
// state asks for is not worked off where all that it waits for in earlier ones comes one period later than it did for
// the one before: then it is that one, a period later. Invariant: an answer is that of `schedule`, to the picosecond.
// Not covered: queues with priorities, contention, and graphs that SteadyPeriod does not cover.
#include <stepcast/schedule/task_graph.hpp>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace stepcast {

class InOrderPeriod {
 public:
  /// Finds the order of a graph without flaw that SteadyPeriod covers; false where there is none. What was prepared
  /// before is forgotten.
  [[nodiscard]] bool prepare(const TaskGraph&);
  /// Timeline::period of a graph of the structure that was prepared, with other durations or the same; nothing where
  /// its queues would serve in another order, or where it does not settle within a few iterations.
  [[nodiscard]] std::optional<Picoseconds> operator()(const TaskGraph&);

 private:
  /// A task in its place of the order: how far away among the ends of all iterations those lie that it waits for. 0
  /// stands for nobody: its own end, which is set to 0 before it is known (`alone_`).
  struct Place {
    std::int32_t first = 0, second = 0;  ///< of two that it waits for
    std::int32_t chain = 0;              ///< of what its queue, or its program, has before it
    std::uint32_t more = 0;              ///< number of its entry in `more_`; 0: there is nothing else to it
  };
  /// What few places have: more than two to wait for, or a queue whose order has to be checked.
  struct More {
    std::uint32_t from = 0, to = 0;  ///< a run of `before_`
    std::uint32_t queue = 0;         ///< which checked queue serves it; 0: none
    bool is_first = false;           ///< of its queue in an iteration
  };
  /// Places [from, to) in a row. A line: each follows the one right before it and waits for at most one other
  /// (`first`), and all are served by the same checked queue, or none.
  struct Run {
    std::uint32_t from = 0, to = 0, queue = 0;
    bool is_line = false;
  };
  /// A wait for an earlier iteration.
  struct Lagged {
    std::uint32_t place = 0, source = 0, lag = 0;
    bool in_queue = false;  ///< for what its queue has served last
    [[nodiscard]] bool is_beside(const Lagged& o) const { return place == o.place && in_queue == o.in_queue; }
  };
  /// What a queue that serves whoever comes first has served last.
  struct Served {
    Picoseconds ready = -1;
    std::uint32_t place = 0, row = 0;
  };
  [[nodiscard]] bool chain_queues(const TaskGraph&);
  [[nodiscard]] bool order_tasks(const TaskGraph&);
  void tie(const TaskGraph&);
  void tie_to(const TaskGraph&, std::uint32_t place, std::uint32_t source, std::uint32_t lag, bool source_queues);
  [[nodiscard]] std::uint32_t add_more(const More& more) {
    more_.push_back(more);
    return static_cast<std::uint32_t>(more_.size() - 1);
  }
  void add_to_run(std::uint32_t place);
  [[nodiscard]] bool evaluate(std::uint32_t row);
  [[nodiscard]] bool evaluate_line(const Run&, Picoseconds* ends, std::uint32_t row);
  [[nodiscard]] bool is_next(Served& last, const Served& now) const;
  [[nodiscard]] bool recurs(std::uint32_t rows);
  [[nodiscard]] bool recurs_after(std::uint32_t row, std::uint32_t k, Picoseconds shift) const;
  [[nodiscard]] bool goes_on(std::uint32_t rows);
  [[nodiscard]] Picoseconds* row_at(std::uint32_t row) { return ends_.data() + std::size_t{row + pad_} * n_; }
  [[nodiscard]] const Picoseconds* row_at(std::uint32_t row) const {
    return ends_.data() + std::size_t{row + pad_} * n_;
  }

  [[nodiscard]] std::int32_t offset(std::uint32_t from, std::uint32_t to, std::uint32_t lag) const {
    return static_cast<std::int32_t>(from) - static_cast<std::int32_t>(to) - static_cast<std::int32_t>(lag * n_);
  }

  static constexpr std::uint32_t none = 0xffffffffu;
  std::uint32_t n_ = 0, most_lag_ = 0, pad_ = 1, marker_ = 0, queues_ = 0;
  bool barrier_ = false;
  Picoseconds period_ = 0;
  std::vector<Place> places_;
  std::vector<More> more_;  // from 1
  std::vector<Run> runs_;
  std::vector<Lagged> lagged_;
  std::vector<std::pair<std::uint32_t, std::int32_t>> others_;  // what places wait for beyond two, by place
  std::vector<std::int32_t> before_;                            // offsets, all below 0
  std::vector<std::uint32_t> alone_;                            // places with an offset of 0
  std::vector<std::uint32_t> task_at_;                          // by place
  std::vector<std::uint8_t> runs_ahead_;                        // by place: of a host, which may get earlier
  std::vector<Picoseconds> work_;                               // by place
  std::vector<std::int32_t> priority_;                          // by place
  std::vector<Picoseconds> ends_;                               // [pad + row][place]; the padding ends at 0
  std::vector<Served> served_;                                  // by checked queue, from 1
  std::vector<Picoseconds> first_ready_;  // by checked queue: when its first task of the last iteration could start
  std::vector<std::uint32_t> place_of_, open_, chained_after_, first_of_queue_, last_of_queue_, by_rank_, next_ready_;
};

}  // namespace stepcast
