// Each rank runs up to its next meeting; the last of those who meet there lets all of them go on.
#include <stepcast/schedule/block_machine.hpp>
#include <stepcast/schedule/lockstep.hpp>

#include <algorithm>

namespace stepcast {
namespace {

class JointMachine {
 public:
  explicit JointMachine(std::span<const RankInStep> ranks) : ranks_(ranks) {
    std::uint32_t most = 0;
    for (const RankInStep& rank : ranks)
      for (const std::uint32_t meeting : rank.meetings)
        if (meeting != no_meeting) most = std::max(most, meeting + 1);
    expected_.resize(most, 0);
    present_.resize(most);
    for (const RankInStep& rank : ranks) {
      machines_.emplace_back(*rank.blocks, rank.times);
      waits_.emplace_back(rank.times.size(), 0);
      for (const std::uint32_t meeting : rank.meetings)
        if (meeting != no_meeting) ++expected_[meeting];
    }
    for (const BlockMachine& machine : machines_)
      states_.insert(states_.end(), machine.states().begin(), machine.states().end());
  }

  /// False where some ranks wait for one another.
  bool run_iteration() {
    std::size_t done = 0;
    running_.clear();
    for (std::uint32_t r = 0; r < machines_.size(); ++r) {
      machines_[r].begin_iteration();
      running_.push_back(r);
    }
    while (!running_.empty()) {
      const std::uint32_t r = running_.back();
      running_.pop_back();
      if (run_to_meeting(r)) ++done;
    }
    for (std::vector<std::uint32_t>& waiting : present_) waiting.clear();
    gather_states();
    return done == machines_.size();
  }
  [[nodiscard]] std::span<const Picoseconds> states() const { return states_; }
  /// That of the rank that ends last.
  [[nodiscard]] Picoseconds marker() const { return marker_; }
  /// Of the last iteration.
  [[nodiscard]] const std::vector<std::vector<Picoseconds>>& waits() const { return waits_; }

 private:
  /// Up to the next meeting at which others are still to come; true when the iteration ends before.
  bool run_to_meeting(std::uint32_t r) {
    BlockMachine& machine = machines_[r];
    while (machine.reach()) {
      const std::uint32_t meeting = ranks_[r].meetings[machine.free_task()];
      if (meeting == no_meeting) {
        machine.end_free_task();
        continue;
      }
      std::vector<std::uint32_t>& present = present_[meeting];
      present.push_back(r);
      if (present.size() < expected_[meeting]) return false;
      Picoseconds latest = 0;
      for (const std::uint32_t other : present) latest = std::max(latest, machines_[other].start());
      for (const std::uint32_t other : present) {
        waits_[other][machines_[other].free_task()] = latest - machines_[other].start();
        machines_[other].start() = latest;
        machines_[other].end_free_task();
        if (other != r) running_.push_back(other);
      }
    }
    return true;
  }
  void gather_states() {
    std::size_t at = 0;
    marker_ = 0;
    for (const BlockMachine& machine : machines_) {
      for (const Picoseconds state : machine.states()) states_[at++] = state;
      marker_ = std::max(marker_, machine.marker());
    }
  }

  std::span<const RankInStep> ranks_;
  std::vector<BlockMachine> machines_;
  std::vector<std::uint32_t> expected_, running_;
  std::vector<std::vector<std::uint32_t>> present_;  // by meeting: the ranks that have come
  std::vector<Picoseconds> states_;
  std::vector<std::vector<Picoseconds>> waits_;  // by rank and free task
  Picoseconds marker_ = 0;
};

}  // namespace

bool can_meet(std::span<const RankInStep> ranks) { return JointMachine(ranks).run_iteration(); }

Picoseconds period_in_lockstep(std::span<const RankInStep> ranks) {
  JointMachine machine(ranks);
  return period_of(machine);
}

std::vector<std::vector<Picoseconds>> waits_in_lockstep(std::span<const RankInStep> ranks) {
  JointMachine machine(ranks);
  (void)period_of(machine);
  return machine.waits();
}

}  // namespace stepcast
