#pragma once
// What a plan sends, for tests of the volumes that the literature states.
#include <stepcast/plan/comm_plan.hpp>

namespace stepcast::test {

/// Payload bytes of the gradient-carrying transfers per iteration, as encoded.
inline Bytes gradient_traffic(const CommPlan& plan) {
  Bytes sum;
  for (const Transfer& t : plan.transfers)
    if (t.carries_gradient) sum += t.size;
  return sum / plan.period;
}

/// Payload bytes that cross a worker machine's cards per iteration, as encoded: what is pushed, scattered or sent goes
/// up, what is pulled, gathered or received comes down, and an all-reduce counts once each way. Stages inside a machine
/// do not count, nor does what an algorithm makes of a payload (a ring sends 2(P-1)/P of it).
struct Traffic {
  Bytes up, down;
};
inline Traffic traffic(const CommPlan& plan) {
  Traffic sum;
  for (const Transfer& t : plan.transfers) {
    if (plan.channels[t.channel].discipline == Discipline::parallel) continue;
    bool up = true, down = true;
    switch (t.operation) {
      case Operation::push:
      case Operation::reduce_scatter:
        down = false;
        break;
      case Operation::pull:
      case Operation::all_gather:
      case Operation::broadcast:
        up = false;
        break;
      case Operation::server_sum:
      case Operation::server_card:
      case Operation::local_reduce_scatter:
      case Operation::local_all_gather:
        continue;
      case Operation::all_reduce:
      case Operation::all_to_all:
      case Operation::send:
        break;
    }
    if (up) sum.up += t.size;
    if (down) sum.down += t.size;
  }
  return {sum.up / plan.period, sum.down / plan.period};
}

}  // namespace stepcast::test
