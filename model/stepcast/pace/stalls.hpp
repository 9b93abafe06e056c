#pragma once
// Stalls: how late a step becomes when lost packets wait for the sender's clock (internal to the library).
//
// Each packet of a message stalls with Transport::stalls; the packet that is sent again is lost, too, with the
// network's loss, and then waits twice as long, up to 64 times (RFC 6298). Packets, flows and messages stall side by
// side: a message is as late as its worst packet, while its channel goes on with the messages that follow. A step is
// late by what exceeds the slack of a message, the time by which it could have arrived later without delaying the
// steps that follow. Cutting a message into slices changes nothing: their packets are as many.
//
//   net   |[ A ][ B ]|            slack of A: the time of B, if the update waits for both
//   U               |[U]|         A stalls for 200 ms: the step is late by 200 ms - B
//
// Invariants: no stalls, no lateness; not decreasing in stalls, time-out and packets; a plan with more slack is never
// later. Exact for plans of one channel and a barrier. Of others, simulated steps differ by up to a tenth of the step
// and half of what time-outs add (a unit test draws them), where they come often: a stall uses up slack that the
// next one would have had. Not modelled: that; a channel that stands still behind a stalled message (head-of-line
// blocking).
#include <stepcast/cluster/collective.hpp>
#include <stepcast/plan/comm_plan.hpp>
#include <stepcast/schedule/schedule.hpp>

#include <span>
#include <vector>

namespace stepcast {

/// Messages of a step that may stall.
struct StallingMessage {
  double packets = 0;
  Seconds slack;
};

/// By how much a step is late: a distribution with mass at zero and at what time-outs exceed slacks by.
class StepLateness {
 public:
  /// Never late.
  StepLateness() = default;
  StepLateness(std::span<const StallingMessage>, const Transport&);
  [[nodiscard]] Seconds mean() const;
  [[nodiscard]] double probability_up_to(Seconds late) const;
  /// The least lateness that is not exceeded with probability `p`.
  [[nodiscard]] Seconds quantile(double p) const;
  [[nodiscard]] bool never() const { return steps_.empty(); }

 private:
  struct Step {
    Seconds late;
    double log_probability = 0;  ///< of being at most that late
  };
  std::vector<Step> steps_;  // by lateness, from zero
};

/// Mean time between a message's last byte and its arrival, where all that follows waits for it: repairs and time-outs.
[[nodiscard]] Seconds arrival_wait(const Transfer&, const CommunicationCost&);

/// Iterations that a schedule has to have for the slacks of its messages: what is late may be waited for several
/// iterations later (asgd: four).
inline constexpr std::uint32_t iterations_of_slack = 8;
/// The messages of one iteration of a steady timeline that wait for time-outs on a network that stalls.
[[nodiscard]] std::vector<StallingMessage> stalling_messages(const TaskGraph&, const Timeline&, const CommPlan&,
                                                             const CommunicationCost&);
/// By how much a step of that timeline is late; never on a network that does not stall.
[[nodiscard]] StepLateness lateness_of(const TaskGraph&, const Timeline&, const CommPlan&, const CommunicationCost&);

}  // namespace stepcast
