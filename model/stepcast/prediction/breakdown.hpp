#pragma once
// Breakdown of a window: what the compute stream of a timeline does, and what it waits for (internal to the library).
//
//     net       ....AAAAAABBBB.
//     compute   FFFF....GGGG..U          compute 9, exposed communication 6, hidden 4
//
// Invariant: compute, exposed communication, codec, input and idle add up to the window; hidden communication is the
// rest of what the links carried. Not modelled: two faults for one gap, which goes to what the compute stream waited
// for last.
#include <stepcast/schedule/schedule.hpp>

#include <cstdint>
#include <vector>

namespace stepcast {

/// A stretch of a timeline.
struct Interval {
  Picoseconds from, to;
};
[[nodiscard]] constexpr Picoseconds length(const Interval& i) { return i.to - i.from; }
/// The period that ends with the marker of `iteration`: from one marker to the next one of the same phase.
[[nodiscard]] Interval period_until(std::uint32_t iteration, const TaskGraph&, const Timeline&);
/// The steady state that a schedule ends with.
[[nodiscard]] Interval steady_window(const TaskGraph&, const Timeline&);

/// Tasks of one step in the order in which those of the last iteration started, every one behind those that it waits
/// for within a step.
[[nodiscard]] std::vector<std::uint32_t> step_order(const TaskGraph&, const Timeline&);

/// Sums over one window.
struct Account {
  Picoseconds compute = 0, exposed = 0, hidden = 0, codec = 0, input = 0, idle = 0;
};
[[nodiscard]] Account account_of(const TaskGraph&, const Timeline&, Interval window);

}  // namespace stepcast
