#pragma once
// Event simulation: what one worker's threads, device, links and clocks do, iteration after iteration, event by event,
// with nothing merged, kept or looked ahead. Oracle for predicted step times, of which it shares no line.
//
//   Job job;  job.stations = {{Order::at_once, Kind::compute}, {Order::first_come, Kind::link}};
//   job.activities = {{1e-3, 0}, {2e-3, 1, .waits = {{0}}}};   the second waits for the first
//   long_run_period(job) == mean time between two ends of the last activity, once all has settled
//
// An activity occurs once a repetition and starts when all that it waits for has ended and its station serves it.
// Times are counted in picoseconds, so that what ends together does so exactly. Among what ends at one moment nothing
// is served before all of it has ended. Not simulated: other workers, which are alike.
#include <cstdint>
#include <functional>
#include <vector>

namespace stepcast::test {

enum class Order : std::uint8_t {
  at_once,      ///< whatever is ready runs: a stream whose order the waits spell out, or a timer
  first_come,   ///< by the time at which it became ready, then by urgency, then by number
  in_turn,      ///< strictly by urgency within a repetition
  most_urgent,  ///< the smallest urgency that is ready; under a window, as many bytes are issued ahead
};
enum class Kind : std::uint8_t { host, compute, link, clock };

struct Station {
  Order order = Order::at_once;
  Kind kind = Kind::compute;
  double window = 0;        ///< bytes that may be issued and not completed; 0: nothing is issued ahead
  bool interrupts = false;  ///< most_urgent without a window: what is more urgent takes the place of what is served
};
struct Wait {
  std::uint32_t activity = 0;
  std::uint32_t back = 0;  ///< of so many repetitions ago
};
struct Activity {
  double seconds = 0;
  std::uint32_t station = 0;
  double urgency = 0;
  double bytes = 0;
  double slow_down = 1;  ///< factor on its time while a link works (of compute) or compute does (of links)
  std::vector<Wait> waits{};
  double arrives_after = 0;  ///< seconds between its end, which frees the station, and what waits for it
  double packets = 0;        ///< that may stall between the two
};
struct Job {
  std::vector<Station> stations;
  std::vector<Activity> activities;
  std::uint32_t last = 0;                         ///< the activity whose end ends a repetition
  std::uint32_t iterations = 1;                   ///< steps in a repetition
  std::function<double(double packets)> stall{};  ///< drawn anew for every message; nothing: none
};

/// Seconds a step takes in the long run, over so many repetitions, the first of which are not counted.
[[nodiscard]] double long_run_step(const Job&, std::uint32_t repetitions = 64, std::uint32_t counted = 24);

}  // namespace stepcast::test
