#pragma once
// Lowering in a loop: what lower.hpp says, for many plans of one profile (internal to the library).
//
// The compute times of the profile are turned into picoseconds once; the arrays of one plan's lowering are used again
// for the next. Invariant: the result depends on the arguments alone, not on what was lowered before.
#include <stepcast/schedule/lower.hpp>

#include <cstdint>
#include <limits>
#include <vector>

namespace stepcast {

/// One pass of one layer, or another piece of compute.
struct PassTimes {
  Picoseconds host = 0, device = 0;
};

/// Every piece of the compute of one step after the other, on the host and on the device.
[[nodiscard]] Seconds compute_in_a_row(const Profile&);

/// The compute of one step, as the lowering needs it.
class ComputeTimes {
 public:
  explicit ComputeTimes(const Profile&);

  std::vector<PassTimes> forward, backward;  ///< one for each layer
  std::vector<std::uint32_t> backward_order;
  PassTimes optimizer, other, input;
  std::vector<PassTimes> packing;       ///< of each tensor; empty: neither packing nor messages take any time
  std::vector<std::uint32_t> layer_of;  ///< of each tensor
  PassTimes before, after;              ///< CommunicationWork
  Picoseconds message = 0;
  Picoseconds input_period = 0, late = 0;
  bool has_device = false, has_input = false, has_loader = false, has_other = false, host_waits_for_device = false;
  Seconds in_a_row;  ///< compute_in_a_row

  /// The update of a layer on its own, in proportion to its bytes, and at least `per_tensor` for each of its tensors.
  struct LayerUpdate {
    PassTimes times;
    bool any = false;  ///< it takes time at all
  };
  [[nodiscard]] LayerUpdate layer_update(std::uint32_t layer, Seconds per_tensor) const;

 private:
  struct Share {
    Seconds host, device;
    double tensors = 0;
    LayerUpdate alone;  ///< without a least time per tensor
  };
  std::vector<Share> updates_;  // by layer
};

/// One piece of compute in program order, and the tasks that it became.
struct Slot {
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  PassTimes times;
  std::uint32_t layer = 0;
  TaskKind kind = TaskKind::other;
  bool cut_before = false, cut_after = false;  ///< a transfer waits or starts here
  bool has_entry = false;                      ///< something happens when it is about to start
  std::uint32_t first_task = none, last_task = none, entry_task = none;
};

/// Tasks of each iteration of a repetition.
struct ChainEnds {
  std::vector<std::uint32_t> compute_ends, host_begins, takes;  ///< last of compute, first of the host, takes the batch
  void clear() { compute_ends.clear(), host_begins.clear(), takes.clear(); }
};

class Lowering {
 public:
  /// Writes the graph of a plan over `graph`, whose storage is used again. Requires what `lowered` does.
  void write(const ComputeTimes&, const CommPlan&, const CommunicationCost&, const Contention&, const LowerOptions&,
             TaskGraph& graph);

 private:
  void order_compute(const ComputeTimes&, const CommPlan&);
  void follow_gradients(const CommPlan&);
  void add_packing(const ComputeTimes&, const CommPlan&);
  void add_iteration(const ComputeTimes&, const CommPlan&, std::uint32_t phase);
  void mark_cuts(const CommPlan&);
  [[nodiscard]] std::uint32_t slot_of(const Node&, bool source) const;
  [[nodiscard]] std::uint32_t task_of(const Node&, bool source) const;

  std::size_t layers_ = 0;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> first_;                             // slots with which iterations begin
  std::vector<std::uint32_t> forward_, forward_end_, backward_;  // slots by [phase][layer]
  std::vector<std::uint32_t> update_, unpack_;                   // slots by [phase]
  std::vector<std::uint32_t> phase_of_;                          // of each transfer and codec that a gradient sets off
  std::vector<bool> hooked_;                                     // by [phase][tensor]
  std::vector<std::size_t> hooked_tensors_, copied_tensors_;     // by [phase]
  ChainEnds ends_;
  std::uint32_t first_transfer_ = 0, first_codec_ = 0;
  std::vector<std::uint32_t> arrivals_;  ///< by transfer: the task with which it has arrived
  TaskGraphBuilder builder_;
};

/// Would both plans lower to the same graph, but for the durations of transfers and codecs and for credits?
[[nodiscard]] bool same_structure(const CommPlan&, const CommPlan&);
/// Gives `graph`, written for a plan of the same structure on the same compute, the durations of this one; false if
/// they are those that it had.
[[nodiscard]] bool refilled(const CommPlan&, const CommunicationCost&, TaskGraph& graph);

}  // namespace stepcast
