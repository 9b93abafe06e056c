#pragma once
// GradientExchange: where the messages of a recorded step's gradients may be cut in another way.
//
// The step stays as it was recorded: its kernels, its host's work, its all-to-alls and what waits for what. Only the
// all-reduces of its gradients are taken out, and in their place a message may be issued behind each gradient:
//
//   host     | hook 1 | hook 2 (issue) | hook 3 |  ...         hooks of gradients, in the order of readiness
//   stream   | a2a         [1 2]               | a2a           recorded: one message of two gradients
//   instead  | a2a   [1]         [2]                           one each: what else its stream carries keeps its turn
//
// A message waits for the hook that issues it and for the device's work before that, for other workers, and for what
// its stream was given earlier; then it takes its time. Whoever waited for the recorded message of a gradient waits for
// the new one. The host pays for each message that it issues and no longer for those that it does not. All this is part
// of the blocks of the step (step_blocks.hpp): another cut changes the times of free tasks only, and a gate that is
// shut lets nothing through.
//
// Invariant: with all gates shut and the recorded messages in place nothing changes. Not modelled: messages that carry
// gradients in another order than that of readiness; work that a plan adds (codecs); that a message which is sent at
// another time slows other kernels down than those that it ran beside. Plans that choose their messages by the model of
// layers (MG-WFBP, optimal merging) are not the best ones here.
#include <stepcast/base/error.hpp>
#include <stepcast/plan/comm_plan.hpp>
#include <stepcast/profile/profile.hpp>
#include <stepcast/schedule/task_graph.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace [[gnu::visibility("default")]] stepcast {

struct TraceIndex;  // trace_index.hpp
namespace replaying {
struct Calibration;  // calibration.hpp
}

/// A message that is issued behind a gradient.
struct GradientMessage {
  std::uint32_t last = 0;  ///< the last gradient that it waits for, in the order of readiness
  Bytes size;
  Picoseconds late = 0;  ///< by which other workers issue it later
  Picoseconds time = 0;  ///< from when all have issued it, and the one before has ended
};

struct GradientExchange {
  /// A part of the host's work that is the issue of a message.
  struct Issue {
    std::uint32_t gradient = 0, host = 0;  ///< behind which it is issued, and in which of `hosts`
    Picoseconds work = 0;
    bool is_recorded = false;  ///< part of the host's recorded work; else it is added by a message
  };
  /// A recorded message: its place among the collectives of the step, and the last gradient that it carried.
  struct Recorded {
    std::uint32_t collective = 0, last = 0;
  };
  std::vector<Picoseconds> hosts;      ///< recorded work of the host's tasks in which messages are issued
  std::vector<std::uint32_t> anchors;  ///< of each gradient, the one of `hosts` in which its hook ends
  std::vector<Issue> issues;
  std::vector<Recorded> recorded;  ///< in the order of issue
  std::vector<Bytes> sizes;        ///< of the gradients that are sent, in the order of readiness
  Picoseconds latency = 0;         ///< from the host's call to the start on an idle stream

  /// Free tasks of the blocks that belong to it: the hosts, and three for each gradient.
  [[nodiscard]] std::size_t free_tasks() const { return hosts.size() + 3 * sizes.size(); }
  /// The times of its free tasks if these messages are sent, in the order of their last gradients, and the host takes
  /// so much longer up to the end of each gradient's hook (none, or one value a gradient); behind those in `times`.
  void append_times(std::span<const GradientMessage>, std::vector<Picoseconds>& times,
                    std::span<const Picoseconds> slowed = {}) const;
  /// The same with the recorded messages in place.
  void append_recorded_times(std::vector<Picoseconds>& times) const;
};

/// The messages of a plan that sends each gradient once, in the order of readiness, as soon as they are complete or
/// later, and whose update waits for all; without their times. Inapplicable with the reason for any other plan.
[[nodiscard]] Answer<std::vector<GradientMessage>> messages_of(const CommPlan&, const Profile&);

/// A recorded step with its gates.
struct ExchangeableStep {
  TaskGraph graph;                  ///< that of the step, and the tasks of its gates behind it
  std::vector<std::uint32_t> free;  ///< GradientExchange::free_tasks() of its tasks
  GradientExchange exchange;
};
/// `collective_of` gives the place of an event among the collectives of the step, else no_index; `tensors` are the
/// gradients of the profile, `issue` is what the host does for each message more. Inapplicable where the all-reduces of
/// the step do not take its gradients with them, byte for byte (what becomes ready behind them may stay: gradients of
/// divided tables), and where nobody is seen to wait for them.
[[nodiscard]] Answer<ExchangeableStep> exchangeable(const TraceIndex&, const replaying::Calibration&,
                                                    std::span<const std::uint32_t> collective_of,
                                                    std::span<const Tensor> tensors, Seconds issue);
/// False for one that was put together by hand and would be read out of bounds.
[[nodiscard]] bool is_whole(const GradientExchange&, std::size_t collectives);

}  // namespace stepcast
