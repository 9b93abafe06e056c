#pragma once
// Room run: how long a training run of so many tokens takes, with interruptions, and what it uses up.
//
//   a step, tokens, devices -> steps -> checkpoints and interruptions -> days, device-hours, money, energy
//
// It may include base.
//
// A run is steps of equal length. Devices fail at a rate of their own, so that the whole job is interrupted so many
// times as often: it starts again from its last checkpoint. Checkpoints are written in the interval that loses least:
// Young 1974 (CACM 17(9)) balanced their time against what is done again, Daly 2006 (FGCS 22(3), equations 20 and 37)
// for intervals that are not short beside the time between interruptions. Example: 1.5e12 tokens at 680,000 a second on
// 64 devices are 25.5 days; a device fails once in 50,677 h, the job once in 33 days. Invariants: nothing is free: the
// expected time is never below that of the steps; without interruptions they are the same. Not modelled: evaluation,
// data that runs out, devices that are slow before they fail, spare devices that are not there at once (`restart` is
// the time until the job goes on).
#include <stepcast/base/result_fields.hpp>
#include <stepcast/base/units.hpp>

#include <cstdint>

namespace [[gnu::visibility("default")]] stepcast {

/// 419 unexpected interruptions of 16,384 H100 in 54 days of Llama 3's pre-training (arXiv 2407.21783, table 5).
inline constexpr Seconds usual_time_between_failures{16384.0 * 54 * 86400 / 419};

struct RunRequest {
  double tokens = 0;
  Seconds within{};  ///< 0: however long it takes
  double price_per_device_hour = 0;
  double watts = 0;  ///< that one device and its share of the machine draw; 0: not said
  Seconds between_failures = usual_time_between_failures;  ///< of one device; 0: it never fails
  Seconds checkpoint{60};                                  ///< for which writing one holds up the steps
  Seconds restart{600};                                    ///< from an interruption until steps go on
};

struct WholeRun {
  double tokens = 0, steps = 0;
  Seconds duration;                     ///< of the steps alone
  Seconds expected;                     ///< with checkpoints and interruptions
  Seconds low, high;                    ///< of that, at the ends of the step's interval
  Seconds checkpoint_every;             ///< 0: without interruptions none is written
  double interruptions = 0;             ///< expected
  double device_hours = 0;              ///< of `expected`
  double cost = 0, kilowatt_hours = 0;  ///< 0: no price, no power was said
  /// If it took so long.
  [[nodiscard]] double cost_of(Seconds takes) const { return expected > Seconds(0) ? cost * (takes / expected) : 0; }
};

/// A step and the ends of its interval.
struct StepInterval {
  Seconds step, low, high;
};
/// Requires tokens, steps and tokens_a_step above zero, and devices >= 1.
[[nodiscard]] WholeRun whole_run(const RunRequest&, const StepInterval&, double tokens_a_step, std::int64_t devices);
/// The longest step with which the steps alone are done `within` the time that was asked for.
[[nodiscard]] Seconds longest_step(const RunRequest&, double tokens_a_step);
/// Daly's interval between checkpoints for interruptions `between` apart, each checkpoint `cost`.
[[nodiscard]] Seconds best_checkpoint_interval(Seconds between, Seconds cost);

template <>
inline constexpr auto result_fields<WholeRun> =
    std::tuple{ResultField{"tokens", &WholeRun::tokens, "of the run"},
               ResultField{"steps", &WholeRun::steps, "that take them"},
               ResultField{"duration_s", &WholeRun::duration, "of the steps alone"},
               ResultField{"expected_s", &WholeRun::expected, "with checkpoints and interruptions"},
               ResultField{"expected_low_s", &WholeRun::low, "expected_s at the lower end of the step's interval"},
               ResultField{"expected_high_s", &WholeRun::high, "expected_s at the upper end of the step's interval"},
               ResultField{"checkpoint_every_s", &WholeRun::checkpoint_every, "the interval that loses least"},
               ResultField{"interruptions", &WholeRun::interruptions, "expected"},
               ResultField{"device_hours", &WholeRun::device_hours, "of all devices, interruptions included"},
               ResultField{"cost", &WholeRun::cost, "in the price's currency", ShownAs::known},
               ResultField{"cost_low", [](const WholeRun& r) { return r.cost_of(r.low); },
                           "if the run takes expected_low_s", ShownAs::known},
               ResultField{"cost_high", [](const WholeRun& r) { return r.cost_of(r.high); },
                           "if the run takes expected_high_s", ShownAs::known},
               ResultField{"kilowatt_hours", &WholeRun::kilowatt_hours, "that the devices draw", ShownAs::known}};

}  // namespace stepcast
