#pragma once
// BlockMachine: runs the program of one rank's blocks, iteration after iteration (internal to step_blocks.hpp and
// lockstep.hpp).
//
// Invariant: slots hold ends of tasks in picoseconds; a block's rows are evaluated by the values before the block.
#include <stepcast/schedule/step_blocks.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace stepcast {

class BlockMachine {
 public:
  /// Both have to outlive it; a time for each free task, in the order in which they were given to `blocks_of`.
  BlockMachine(const StepBlocks& blocks, std::span<const Picoseconds> times)
      : blocks_(&blocks), times_(times), slots_(blocks.slots, 0) {
    std::size_t most = 0;
    for (std::size_t b = 0; b + 1 < blocks.blocks.size(); ++b)
      most = std::max<std::size_t>(most, blocks.blocks[b + 1].first_row - blocks.blocks[b].first_row);
    values_.resize(most);
  }

  void run_iteration() {
    for (begin_iteration(); reach(); end_free_task()) {}
  }

  // The same in parts: up to the start of each free task, and past it.

  void begin_iteration() { block_ = 0; }
  /// Up to the start of the next free task, and true; or to the end of the iteration.
  bool reach() {
    const StepBlocks::Block& block = blocks_->blocks[block_];
    const std::uint32_t end = blocks_->blocks[block_ + 1].first_row;
    for (std::uint32_t r = block.first_row; r < end; ++r) {
      Picoseconds latest = 0;
      for (std::uint32_t i = blocks_->rows[r].first_term; i < blocks_->rows[r + 1].first_term; ++i)
        latest = std::max(latest, slots_[blocks_->terms[i].slot] + blocks_->terms[i].after);
      values_[r - block.first_row] = latest;
    }
    for (std::uint32_t r = block.first_row; r < end; ++r) slots_[blocks_->rows[r].slot] = values_[r - block.first_row];
    return block_ + 2 < blocks_->blocks.size();
  }
  /// The free task that was reached, its place among those given.
  [[nodiscard]] std::uint32_t free_task() const { return blocks_->order[block_]; }
  /// When it can start; another may be set.
  [[nodiscard]] Picoseconds& start() { return slots_[blocks_->blocks[block_].slot]; }
  void end_free_task() {
    start() += times_[free_task()];
    ++block_;
  }

  /// What carries over to the next iteration, the marker's end last.
  [[nodiscard]] std::span<const Picoseconds> states() const { return {slots_.data() + 1, blocks_->states}; }
  [[nodiscard]] Picoseconds marker() const { return slots_[blocks_->states]; }

 private:
  const StepBlocks* blocks_;
  std::span<const Picoseconds> times_;
  std::vector<Picoseconds> slots_, values_;
  std::size_t block_ = 0;
};

/// The time between two ends of a machine's marker in the long run (StepBlocks::period). A machine has `run_iteration`,
/// `states` and `marker`.
template <class Machine>
Picoseconds period_of(Machine& machine) {
  constexpr std::uint32_t most = 64;
  std::vector<Picoseconds> before;
  constexpr std::uint32_t many = 8;  // equal steps after which what falls behind is taken to have no say any more
  Picoseconds last = -1, half_way = 0, marker_before = 0;
  std::uint32_t equal = 0, recurred = 0;  // steps in a row: as long as the marker's, and nothing longer; all of them
  for (std::uint32_t i = 0; i < most; ++i) {
    before.assign(machine.states().begin(), machine.states().end());
    machine.run_iteration();
    if (i + 1 == most / 2) half_way = machine.marker();
    const Picoseconds step = machine.marker() - std::exchange(marker_before, machine.marker());
    // What grows no faster than the marker never catches up with it; what grows faster will.
    bool calm = true, recurs = true;
    for (std::size_t s = 0; s < before.size(); ++s) {
      const Picoseconds grown = machine.states()[s] - before[s];
      calm = calm && grown <= step, recurs = recurs && grown == step;
    }
    const bool again = std::exchange(last, step) == step;
    equal = calm && again ? equal + 1 : 0;
    recurred = recurs ? recurred + 1 : 0;
    if (recurred >= 2 || equal >= many) return step;
  }
  return (machine.marker() - half_way) / (most / 2);
}

}  // namespace stepcast
