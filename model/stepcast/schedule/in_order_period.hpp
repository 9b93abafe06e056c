#pragma once
// In-order period: the period of `schedule` where every queue serves in an order that is known beforehand (internal to
// the library).
//
// Most plans send their messages in the order in which they are numbered. Then a queue is one more chain, and all tasks
// of an iteration can be worked off in one fixed order, each by the ends of what it waits for: no queue, no counting of
// predecessors. The order is found once for a structure, and only durations change from plan to plan. A channel that
// serves whoever comes first is taken to be in order, too, and what comes out is checked: where somebody would have
// come earlier there is no answer, and SteadyPeriod has to be asked. Invariant: an answer is that of `schedule`, to the
// picosecond. Not covered: queues with priorities, contention, and graphs that SteadyPeriod does not cover.
#include <stepcast/schedule/task_graph.hpp>

#include <cstdint>
#include <optional>
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
  /// A task in its place of the order: what it waits for lies `before_` entries away among the ends of all iterations.
  struct Place {
    std::uint32_t task = 0;
    std::uint32_t first_before = 0;  ///< its entries end where those of the next place begin
    std::int32_t chain = 0;          ///< where the end lies of what its queue serves before it; 0: it does not queue
    std::uint32_t queue = 0;         ///< which checked queue serves it; 0: none
  };
  /// What a queue that serves whoever comes first has served last.
  struct Served {
    Picoseconds ready = -1;
    std::int32_t priority = 0;
    std::uint32_t place_in_row = 0, row = 0;
  };
  [[nodiscard]] bool chain_queues(const TaskGraph&);
  [[nodiscard]] bool order_tasks(const TaskGraph&);
  void tie(const TaskGraph&);
  [[nodiscard]] bool evaluate(std::uint32_t row);
  [[nodiscard]] bool recurs(std::uint32_t rows);
  [[nodiscard]] bool recurs_after(std::uint32_t row, std::uint32_t k, Picoseconds shift) const;
  [[nodiscard]] Picoseconds* row_at(std::uint32_t row) { return ends_.data() + std::size_t{row + pad_} * n_; }
  [[nodiscard]] const Picoseconds* row_at(std::uint32_t row) const {
    return ends_.data() + std::size_t{row + pad_} * n_;
  }

  static constexpr std::uint32_t none = 0xffffffffu;
  std::uint32_t n_ = 0, most_lag_ = 0, pad_ = 1, marker_ = 0, queues_ = 0;
  bool barrier_ = false;
  Picoseconds period_ = 0;
  std::vector<Place> places_;           // and one behind the last
  std::vector<std::int32_t> before_;    // offsets, all below 0
  std::vector<bool> runs_ahead_;        // by place: of a host, which may get earlier
  std::vector<Picoseconds> work_;       // by place
  std::vector<std::int32_t> priority_;  // by place
  std::vector<Picoseconds> ends_;       // [pad + row][place]; the padding ends at 0
  std::vector<Served> served_;          // by checked queue, from 1
  std::vector<std::uint32_t> place_of_, open_, chained_after_, first_of_queue_, last_of_queue_, by_rank_;
};

}  // namespace stepcast
