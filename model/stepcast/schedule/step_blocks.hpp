#pragma once
// StepBlocks: a task graph that works in program order, compressed to what decides when its steps end.
//
// Where no resource has a queue (the graph of a recorded step, see replay.hpp), a task starts when the last of what it
// waits for has ended: a system of maxima and sums. A few of its tasks may take any time, such as the collectives of a
// step of which somebody asks what another network would make of it. All others are eliminated. What is left is a short
// program over slots, in the order in which the work was issued: in every block some slots become the maximum of sums
// of a slot and a fixed time, and then one of the free tasks ends, or the iteration does:
//
//   block 3   slot 2 = max(slot 0 + 4.1 ms, slot 5 + 20 us), slot 4 = slot 2 + 1 us; slot 4 += the time of free task 3
//
// Baccelli, Cohen, Olsder, Quadrat, "Synchronization and Linearity" (1992), is the book about such systems. Invariant:
// whatever time the free tasks take, the marker ends when it does in schedule() of the graph with these times, to the
// picosecond. Not modelled: queues, priorities, and tasks that slow one another down (`works_in_program_order`).
#include <stepcast/schedule/task_graph.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

/// True when every task starts as soon as all that it waits for has ended, and takes its time whatever else runs, and
/// when no arc reaches beyond the next iteration. Every task has to wait for something, if only for its row's last task
/// of the iteration before: one that waits for nothing runs once in schedule(), and in blocks in every iteration.
[[nodiscard]] bool works_in_program_order(const TaskGraph&);

struct StepBlocks {
  /// A fixed time after the value of a slot.
  struct Term {
    std::uint32_t slot = 0;
    Picoseconds after = 0;
  };
  /// A slot that becomes the maximum of terms: from `first_term` to that of the next row.
  struct Row {
    std::uint32_t slot = 0, first_term = 0;
  };
  /// Rows from `first_row` to that of the next block, all by the values before the block; then the free task ends.
  struct Block {
    std::uint32_t first_row = 0;
    std::uint32_t slot = 0;  ///< of the free task: when it starts, and then when it ends
  };
  std::vector<Term> terms;
  std::vector<Row> rows;             ///< and one behind the last
  std::vector<Block> blocks;         ///< one a free task, in order of issue, one for the end, and one behind the last
  std::vector<std::uint32_t> order;  ///< the free task of each block but the last: its place among those given
  std::uint32_t slots = 0;           ///< slot 0 is always 0
  std::uint32_t states = 0;  ///< slots 1 to `states` carry over to the next iteration, the last of them the marker

  /// When the marker ends in the first iterations, if the free tasks take these times, in the order in which they were
  /// given.
  [[nodiscard]] std::vector<Picoseconds> ends(std::span<const Picoseconds> times, std::uint32_t iterations) const;
  /// The time between two ends of the marker in the long run: when everything recurs after one and the same time, or
  /// several steps in a row were equal while nothing else took longer. Where that does not happen within 64 iterations:
  /// the mean of the second half of them. It is that of schedule() to a nanosecond, where that settles.
  [[nodiscard]] Picoseconds period(std::span<const Picoseconds> times) const;
};

/// Requires a graph without flaw that works in program order; `free` are different tasks of it. Time and space are
/// linear in arcs times the values that are alive at once, about as many as there are threads and streams.
[[nodiscard]] StepBlocks blocks_of(const TaskGraph&, std::span<const std::uint32_t> free);
/// False for blocks that were put together by hand, and would be read out of bounds with so many free tasks.
[[nodiscard]] bool is_whole(const StepBlocks&, std::size_t free);

}  // namespace stepcast
